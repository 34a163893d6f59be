"""CompanyOS as one of the compared environments, with observations as objects or as text."""

from collections.abc import Callable
from typing import Any

from companyos import __version__
from companyos.bench import speed as bench
from companyos.bench.peers.peer import Peer
from companyos.env import CompanyEnv
from companyos.families import SHORT_FAMILIES

EPISODES = 4 * len(SHORT_FAMILIES)  # twice all families for the expert, and twice for the random agent


class Ours(Peer):
    name = "CompanyOS"
    module = "companyos"
    # "hashed": each step computes the digest of the company's state, which transcripts contain.
    step_includes = f"a call checked, carried out, journaled, graded, hashed, observed; chaos {bench.CHAOS}, all families"
    seeded = True

    def __init__(self) -> None:
        played = [
            bench.record(("expert", "random")[number // len(SHORT_FAMILIES) % 2], number) for number in range(EPISODES)
        ]
        self.scripts = [calls for _, calls in played]

    @property
    def release(self) -> str:
        return f"companyos {__version__}"

    def open(self) -> None:
        """Do nothing: each task has its own environment."""

    def begin(self, env: CompanyEnv | None, number: int) -> CompanyEnv:
        """Return a new environment for the episode with this number. `env` is None, because `open` makes none."""
        return bench.episode(number)

    def fork(self, env: CompanyEnv) -> CompanyEnv:
        return env.fork()

    def live(self, number: int) -> CompanyEnv:
        """Return a running episode of a task that was never played.

        Its memory then includes the start state, which episodes of one task share. So `number`, which repeats, is ignored.
        """
        return bench.running_episode(next(bench.FRESH_NUMBERS))


class OursWithText(Ours):
    name = "CompanyOS as text"
    step_includes = "the same, and the observation rendered as text"
    text = True

    def stepper(self, env: CompanyEnv) -> Callable[[Any], str]:
        step = env.step
        return lambda call: step(call).text
