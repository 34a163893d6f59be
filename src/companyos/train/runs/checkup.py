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
# Names as in `docs/metrics.md`. A metric without any data is left out.
METRICS = ("success", "score", "pair_pass", "invalid_calls", "routing", "recovery")


class Checkup(msgspec.Struct, frozen=True):
    """Single tasks, and pairs of tasks that differ in one fact which changes the right ending."""

    tasks: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every task that must be played, without duplicates."""
        of_pairs = (task_id for pair in self.pairs for task_id in (pair.task, pair.twin))
        return tuple(dict.fromkeys([*self.tasks, *of_pairs]))

    def numbers(self, episodes: Iterable[Transcript | CompanyEnv]) -> dict[str, Any]:
        """Return the metrics of finished episodes of these tasks, and the success by family.

        Tasks that are only part of a pair count only for the metric of pairs.
        """
        outcomes = [judge(episode.transcript() if isinstance(episode, CompanyEnv) else episode) for episode in episodes]
        single_tasks = frozenset(self.tasks)
        of_tasks = summarise(
            suite_of("checkup", self.tasks), [outcome for outcome in outcomes if outcome.task_id in single_tasks]
        )
        of_pairs = summarise(suite_of("checkup", pairs=self.pairs), outcomes)
        metrics = {**of_pairs["overall"]["numbers"], **of_tasks["overall"]["numbers"]}
        families = {name: summary["numbers"]["success"]["value"] for name, summary in of_tasks["families"].items()}
        numbers = {name: metrics[name]["value"] for name in METRICS if name in metrics}
        return {**numbers, "families": families, "episodes": len(outcomes)}


def checkup_of(families: Sequence[str], chaos: Chaos, tasks: int, pairs: int, split: str = SPLIT) -> Checkup:
    """Return a checkup with this number of tasks and pairs. Families take turns. The same arguments give the same tasks."""
    task_ids = [str(task_named(families[n % len(families)], n // len(families), chaos, split)) for n in range(tasks)]
    return Checkup(tuple(task_ids), tuple(_pairs(families, chaos, split, first_seed=tasks, count=pairs)))


def _pairs(families: Sequence[str], chaos: Chaos, split: str, first_seed: int, count: int) -> Iterable[Pair]:
    """Yield pairs, with seeds from `first_seed` on. Skip seeds where no single fact changes the ending."""
    seeds = dict.fromkeys(families, first_seed)
    for number in range(count):
        name = families[number % len(families)]
        twins: tuple[tuple[str, str], ...] = ()  # the changed cause and the id of each
        while not twins:
            task_id = str(task_named(name, seeds[name], chaos, split))
            twins = twins_with_other_ending(task_id)
            seeds[name] += 1
        cause, twin = twins[number // len(families) % len(twins)]
        yield Pair(task_id, twin, "ending", cause)
