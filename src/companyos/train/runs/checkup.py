"""Checkups: measurements of a model during training, always on the same held-out tasks.

The tasks come from the validation split; the test split is for the final evaluation. Besides success and score, a checkup
measures the three skills that are learnt one after the other: valid calls, calls in the right app, recovery from faults.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from companyos.assurance.twins import twins_with_other_ending
from companyos.chaos import Chaos
from companyos.core.episode import Transcript
from companyos.env import CompanyEnv, task_named
from companyos.evaluate.judge.outcome import judge
from companyos.evaluate.stats.metrics import summarise
from companyos.evaluate.suites.suite import Pair, suite_of

SPLIT = "validation"
# Names as in `docs/metrics.md`. A number without any data is left out.
NUMBERS = ("success", "score", "pair_pass", "invalid_calls", "routing", "recovery")


class Checkup(msgspec.Struct, frozen=True):
    """Single tasks, and pairs of tasks that differ in one fact which changes the right ending."""

    tasks: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every task that must be played, without duplicates."""
        both = (task_id for pair in self.pairs for task_id in (pair.task, pair.twin))
        return tuple(dict.fromkeys([*self.tasks, *both]))

    def numbers(self, episodes: Iterable[Transcript | CompanyEnv]) -> dict[str, Any]:
        """Return the numbers for finished episodes of these tasks, and the success by family.

        Tasks that are only part of a pair count only for the pairs.
        """
        written = [one.transcript() if isinstance(one, CompanyEnv) else one for one in episodes]
        outcomes = [judge(transcript) for transcript in written]
        alone = frozenset(self.tasks)
        of_tasks = summarise(suite_of("checkup", self.tasks), [one for one in outcomes if one.task_id in alone])
        of_pairs = summarise(suite_of("checkup", pairs=self.pairs), outcomes)
        found = {**of_pairs["overall"]["numbers"], **of_tasks["overall"]["numbers"]}
        families = {name: block["numbers"]["success"]["value"] for name, block in of_tasks["families"].items()}
        numbers = {name: found[name]["value"] for name in NUMBERS if name in found}
        return {**numbers, "families": families, "episodes": len(outcomes)}


def checkup_of(families: Sequence[str], chaos: Chaos, tasks: int, pairs: int, split: str = SPLIT) -> Checkup:
    """Return a checkup with this number of tasks and pairs. Families take turns. The same arguments give the same tasks."""
    alone = [str(task_named(families[n % len(families)], n // len(families), chaos, split)) for n in range(tasks)]
    return Checkup(tuple(alone), tuple(_pairs(families, chaos, split, tasks, pairs)))


def _pairs(families: Sequence[str], chaos: Chaos, split: str, first: int, count: int) -> Iterable[Pair]:
    """Yield pairs, from the first seed that no single task uses. Skip seeds where no single fact changes the ending."""
    seeds = dict.fromkeys(families, first)
    for number in range(count):
        name = families[number % len(families)]
        others: tuple[tuple[str, str], ...] = ()
        while not others:
            task_id = str(task_named(name, seeds[name], chaos, split))
            others = twins_with_other_ending(task_id)
            seeds[name] += 1
        cause, twin = others[number // len(families) % len(others)]
        yield Pair(task_id, twin, "ending", cause)
