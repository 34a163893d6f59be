"""Peer: what it takes to be raced. Its episodes are known beforehand, so that nothing but the environment is timed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import Any, ClassVar


class Peer(ABC):
    """An environment, played in this process through the interface that its own users have."""

    name: ClassVar[str]
    module: ClassVar[str]  # what it is imported as
    includes: ClassVar[str]  # what a step of it includes
    text: ClassVar[bool] = False  # whether a reply is written as text, which ours is only when that is asked for
    seeded: ClassVar[bool] = False  # whether any number is a task, not only those that have scripts
    scripts: Sequence[Sequence[Any]]  # the actions of each episode, from its start to its end

    @property
    def release(self) -> str:
        """Which distribution it comes from, and of which version."""
        distribution, *_ = _distributions()[self.module]
        return f"{distribution} {version(distribution)}"

    @abstractmethod
    def open(self) -> Any:
        """An environment, before anything is played in it."""

    @abstractmethod
    def begin(self, env: Any, number: int) -> Any:
        """The environment at the start of this episode: the same object, where its own loops go on with one."""

    def stepper(self, env: Any) -> Callable[[Any], Any]:
        """What takes an action."""
        step: Callable[[Any], Any] = env.step
        return step

    def fork(self, env: Any) -> Any:
        """A second one that stands where this one stands."""
        return deepcopy(env)

    def half(self, number: int) -> Any:
        """An environment of its own, in the middle of this episode."""
        env, script = self.begin(self.open(), number), self.scripts[number]
        step = self.stepper(env)
        for action in script[: len(script) // 2]:
            step(action)
        return env

    def live(self, number: int) -> Any:
        """An episode under way, whose memory is counted; others share with it only what its makers let them share."""
        return self.half(number)


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    """What is installed, by what it is imported as: to find out means to read every distribution's list of files."""
    return packages_distributions()
