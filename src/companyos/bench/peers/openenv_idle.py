"""The smallest environment that OpenEnv's classes allow. It does nothing but count.

It runs in this process, without a server. `make bench-serve` compares the servers.
"""

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from companyos.bench.peers.peer import Peer

EPISODES, STEPS = 4, 25


class Idle(Environment[Action, Observation, State]):
    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        self._state = State(episode_id=episode_id)
        return Observation(done=False, reward=0.0)

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        self._state.step_count += 1
        return Observation(done=self._state.step_count >= STEPS, reward=0.0)

    @property
    def state(self) -> State:
        return self._state


class IdleOpenEnv(Peer):
    name = "OpenEnv, idle"
    module = "openenv"
    step_includes = "a counter and OpenEnv's observation; in process, without its server"

    def __init__(self) -> None:
        self.scripts = [[Action() for _ in range(STEPS)] for _ in range(EPISODES)]

    def open(self) -> Idle:
        return Idle()

    def begin(self, env: Idle, number: int) -> Idle:
        env.reset(seed=number)
        return env


PEERS = (IdleOpenEnv,)
