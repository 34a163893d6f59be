"""The interface of a compared environment. Its episodes are recorded beforehand, so that only the environment is timed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import Any, ClassVar


class Peer(ABC):
    """An environment that is played in this process through its public interface."""

    name: ClassVar[str]
    module: ClassVar[str]  # name of the imported module
    step_includes: ClassVar[str]  # what is done in a step, in words, for the table of results
    text: ClassVar[bool] = False  # whether replies are text; CompanyOS renders text only on request
    seeded: ClassVar[bool] = False  # whether `begin` takes any number as a seed, not only the numbers of `scripts`
    scripts: Sequence[Sequence[Any]]  # the actions of each whole episode

    @property
    def release(self) -> str:
        """The distribution and its version."""
        distribution, *_ = _distributions()[self.module]
        return f"{distribution} {version(distribution)}"

    @abstractmethod
    def open(self) -> Any:
        """Return a new environment."""

    @abstractmethod
    def begin(self, env: Any, number: int) -> Any:
        """Return the environment at the start of this episode. It may be the same object."""

    def stepper(self, env: Any) -> Callable[[Any], Any]:
        """Return the function that takes an action."""
        step: Callable[[Any], Any] = env.step
        return step

    def fork(self, env: Any) -> Any:
        """Return an independent copy in the same state."""
        return deepcopy(env)

    def half(self, number: int) -> Any:
        """Return a new environment in the middle of this episode."""
        env, script = self.begin(self.open(), number), self.scripts[number]
        step = self.stepper(env)
        for action in script[: len(script) // 2]:
            step(action)
        return env

    def live(self, number: int) -> Any:
        """Return a running episode whose memory is measured. `number` tells the episodes of one measurement apart.

        It shares with other episodes only what they share in normal use.
        """
        return self.half(number)


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    """Return the installed distributions by module. Cached, because it reads the file lists of all distributions."""
    return packages_distributions()
