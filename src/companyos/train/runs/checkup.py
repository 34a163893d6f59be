"""Checkups: what a model is worth while it learns, on the same held-out tasks every time.

Of the validation split: the test split is for the end. Beside success and score there are the three things that are learnt
one after the other: to make calls that are calls, to make them where there is something to do, and to get past what goes
wrong.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from companyos.assurance.twins import opposites
from companyos.chaos import Chaos
from companyos.core.episode import Transcript
from companyos.env import CompanyEnv, task_named
from companyos.evaluate.judge.outcome import judge
from companyos.evaluate.stats.metrics import summarise
from companyos.evaluate.suites.suite import Pair, suite_of

SPLIT = "validation"
# By the names of `docs/metrics.md`. One that there was nothing to count for is missing.
NUMBERS = ("success", "score", "pair_pass", "invalid_calls", "routing", "recovery")


class Checkup(msgspec.Struct, frozen=True):
    """Tasks that stand alone, and pairs of which one fact changes the right ending."""

    tasks: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every task that is to be played, once."""
        both = (task_id for pair in self.pairs for task_id in (pair.task, pair.twin))
        return tuple(dict.fromkeys([*self.tasks, *both]))

    def numbers(self, episodes: Iterable[Transcript | CompanyEnv]) -> dict[str, Any]:
        """What finished episodes of these tasks come to, in all and, as far as success goes, by family.

        Those that are only there for the sake of their twin count for pairs alone.
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
    """So many tasks and pairs, of these families in turn. Always the same ones."""
    alone = [str(task_named(families[n % len(families)], n // len(families), chaos, split)) for n in range(tasks)]
    return Checkup(tuple(alone), tuple(_pairs(families, chaos, split, tasks, pairs)))


def _pairs(families: Sequence[str], chaos: Chaos, split: str, first: int, count: int) -> Iterable[Pair]:
    """From a seed on that no task before has. Where no fact alone would change the ending, the next seed has to do."""
    seeds = dict.fromkeys(families, first)
    for number in range(count):
        name = families[number % len(families)]
        others: tuple[tuple[str, str], ...] = ()
        while not others:
            task_id = str(task_named(name, seeds[name], chaos, split))
            others = opposites(task_id)
            seeds[name] += 1
        cause, twin = others[number // len(families) % len(others)]
        yield Pair(task_id, twin, "ending", cause)
