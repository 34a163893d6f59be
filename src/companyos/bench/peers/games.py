"""Gymnasium's Taxi and CartPole with random actions, as `gymnasium.make` makes them."""

from typing import Any, ClassVar

import gymnasium

from companyos.bench.peers.peer import Peer

EPISODES = 20


class _Game(Peer):
    module = "gymnasium"
    seeded = True
    ids: ClassVar[tuple[str, ...]]  # newest first

    def __init__(self) -> None:
        self._id = next(name for name in self.ids if name in gymnasium.registry)
        self.scripts = [self._random_actions(number) for number in range(EPISODES)]

    def open(self) -> Any:
        return gymnasium.make(self._id)

    def begin(self, env: Any, number: int) -> Any:
        env.reset(seed=number)
        return env

    def _random_actions(self, number: int) -> list[Any]:
        env, actions, over = self.begin(self.open(), number), [], False
        env.action_space.seed(number)
        while not over:
            actions.append(env.action_space.sample())
            *_, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
        return actions


class Taxi(_Game):
    name = "Gymnasium Taxi"
    step_includes = "a lookup in a transition table; Gymnasium's usual wrappers"
    ids = ("Taxi-v4", "Taxi-v3")


class CartPole(_Game):
    name = "Gymnasium CartPole"
    step_includes = "an equation of motion; Gymnasium's usual wrappers"
    ids = ("CartPole-v1",)


PEERS = (Taxi, CartPole)
