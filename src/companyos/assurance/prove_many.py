"""Proofs of many tasks and their twins on several processes, and the distribution of par (the expert's steps)."""

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from companyos.assurance.prove import first_difference, first_irreversible, prove, solve
from companyos.assurance.twins import same_orders, twin_tasks
from companyos.core.errors import Unsolvable
from companyos.core.parallel import pooled
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.families import setting
from companyos.families.kit.family import write_value


class ProofResult(msgspec.Struct, frozen=True):
    """The result of proving one task. `failure` is empty if the proof succeeded."""

    task_id: str
    par: int = 0
    ending: str = ""
    twins: int = 0  # twins with another ending
    failure: str = msgspec.field(default="", name="fault")  # why the proof failed; `fault` is its name in JSON


class Spread(msgspec.Struct, frozen=True):
    """The distribution of some numbers. Each percentile is one of the numbers (nearest rank)."""

    count: int
    median: int
    p90: int
    p99: int
    most: int  # the maximum
    mean: float


def check_all(task_ids: Sequence[str], workers: int, with_twins: bool, chunk: int = 4) -> Iterator[ProofResult]:
    """Prove tasks, in order, on `workers` processes, `chunk` consecutive tasks at a time."""
    return pooled(partial(check, with_twins=with_twins), task_ids, workers, chunk=chunk)


def check(task_id: str, with_twins: bool) -> ProofResult:
    """Prove one task. With `with_twins`, also prove that it can be told apart from each twin with another ending.

    A reply must differ before the expert makes a call that cannot be undone.
    """
    try:
        proof = prove(task_id)
        twins = _tell_twins_apart(task_id) if with_twins else 0
    except Unsolvable as failure:
        return ProofResult(task_id, failure=str(failure))
    except Exception as bug:
        bug.add_note(f"while proving {task_id}")
        raise
    return ProofResult(task_id, proof.par, proof.outcome, twins)


def blame(task_id: str) -> str:
    """Name the causes that make a proof fail: causes for which another value makes the proof succeed."""
    causes = setting(TaskId.parse(task_id)).causes
    guilty_causes = [cause.name for cause, _, twin_id in twin_tasks(task_id) if not check(twin_id, with_twins=False).failure]
    if not guilty_causes:
        return "no change of a single cause makes the proof succeed"
    return "the cause: " + ", ".join(f"{name}={write_value(getattr(causes, name))}" for name in dict.fromkeys(guilty_causes))


def spread(numbers: Sequence[int]) -> Spread:
    """Summarise one or more numbers."""
    ordered = sorted(numbers)
    median, p90, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9, 0.99))
    return Spread(len(ordered), median, p90, p99, ordered[-1], statistics.fmean(ordered))


def _tell_twins_apart(task_id: str) -> int:
    """Count the twins with another ending. Raise `Unsolvable` if the expert does something irreversible before a reply
    differs from the twin's."""
    env = solve(CompanyEnv(TaskId.parse(task_id), "sparse"))
    irreversible = first_irreversible(env.turns, env.setting.case.ticket_id)
    count = 0
    for _, _, twin_id in twin_tasks(task_id):
        twin_env = CompanyEnv(TaskId.parse(twin_id), "sparse")
        if same_orders(env, twin_env):
            continue
        differs = first_difference(env.turns, solve(twin_env).turns)
        if differs >= irreversible:
            raise Unsolvable(f"{task_id}: {env.turns[irreversible].call.tool} comes before anything differs from {twin_id}")
        count += 1
    return count
