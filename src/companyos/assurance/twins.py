"""Twins: tasks with the same seed that differ in exactly one hidden cause."""

from functools import lru_cache
from typing import Any

import msgspec

from companyos.company import Entry
from companyos.core.errors import BadTask
from companyos.core.task import MAX_LENGTH, TaskId
from companyos.core.world import World, view
from companyos.env import CompanyEnv, run_expert
from companyos.families import canonical, family, setting
from companyos.families.kit.case import Cause, Fact, Trouble, Value
from companyos.families.kit.family import footprint_of, write_value


class Twin(msgspec.Struct, frozen=True):
    """A task that differs from another in exactly one cause.

    Its relevance is what that changes: `ending` (the right ending), `way` (only the solution) or `none`.
    """

    cause: str
    value: str
    task_id: str
    relevance: str


def do(task_id: str, **causes: Value) -> str:
    """Return the task with these causes set. Everything else stays as the seed draws it."""
    task = TaskId.parse(task_id)
    fixed = dict(task.do) | {name: write_value(value) for name, value in causes.items()}
    changed = canonical(msgspec.structs.replace(task, do=tuple(sorted(fixed.items()))))
    if len(str(changed)) > MAX_LENGTH:
        raise BadTask(f"{changed} is longer than {MAX_LENGTH} characters; override fewer causes")
    return str(changed)


def weathers(task_id: str, count: int) -> list[str]:
    """Return the task and `count` - 1 versions of it in other weathers: the same facts, but other draws of the troubles.

    At dose 0 there are no troubles in any weather.
    """
    task = TaskId.parse(task_id)
    facts = {cause.name for cause in family(task.family).specs() if isinstance(cause.annotation, Fact)}
    kept = tuple((name, value) for name, value in task.do if name in facts)  # an overridden trouble is drawn again, too
    others = range(task.weather + 1, task.weather + count)
    return [task_id, *(str(msgspec.structs.replace(task, weather=number, do=kept)) for number in others)]


def twin_tasks(task_id: str, marked: type[Fact | Trouble] | None = None) -> list[tuple[Cause, str, str]]:
    """Return all tasks with one cause changed, or one cause of this mark: the cause, its new value, the task id."""
    task = TaskId.parse(task_id)
    causes = setting(task).causes
    return [
        (cause, write_value(value), do(task_id, **{cause.name: value}))
        for cause in family(task.family).specs()
        if marked is None or isinstance(cause.annotation, marked)
        for value in cause.alternatives
        if value != getattr(causes, cause.name)
    ]


@lru_cache(maxsize=4096)
def twins_with_other_ending(task_id: str) -> tuple[tuple[str, str], ...]:
    """Return the twins with another right ending: the name of the changed fact, and the task id."""
    ours = CompanyEnv(TaskId.parse(task_id))
    others = twin_tasks(task_id, Fact)  # a trouble never changes the ending
    return tuple((c.name, other) for c, _, other in others if not same_ending(ours, CompanyEnv(TaskId.parse(other))))


def twins(task_id: str) -> list[Twin]:
    """Return all twins of a task with their relevance."""
    ours = CompanyEnv(TaskId.parse(task_id), "sparse")
    run_expert(ours)
    return [Twin(cause.name, value, other, relevance(ours, other)) for cause, value, other in twin_tasks(task_id)]


def relevance(ours: CompanyEnv, other: str) -> str:
    """Return the relevance of a twin of a solved episode."""
    theirs = CompanyEnv(TaskId.parse(other), "sparse")
    if not same_ending(ours, theirs):
        return "ending"
    run_expert(theirs)
    return "none" if _carries_over(ours, theirs) and _carries_over(theirs, ours) else "way"


def same_ending(ours: CompanyEnv, theirs: CompanyEnv) -> bool:
    one, other = ours.setting.ending, theirs.setting.ending
    return (one.name, one.decider) == (other.name, other.decider)


def _carries_over(source: CompanyEnv, target: CompanyEnv) -> bool:
    """Return whether the calls that solved one task also solve the other."""
    blind = CompanyEnv(TaskId.parse(target.task_id), "sparse")
    for turn in source.turns:
        blind.step(turn.call)
    return bool(blind.success)


def differences(one: World, other: World) -> set[tuple[str, str, str]]:
    """Return kind, id and field of all differences between two worlds. Clock and counters have the kind `World`."""
    found: set[tuple[str, str, str]] = set()
    if (one.now, one.digest_of_rest()) != (other.now, other.digest_of_rest()):
        found.add(("World", "", "clock, agenda or counters"))
    for kind in one.kinds():
        left = {record.id: record for record in one.all(kind)}
        right = {record.id: record for record in other.all(kind)}
        for key in left.keys() | right.keys():
            if left.get(key) != right.get(key):
                before, after = (_shown(side.get(key)) for side in (left, right))
                names = before.keys() | after.keys()
                found |= {(kind.__name__, key, name) for name in names if before.get(name) != after.get(name)}
    return found


def _shown(record: Any) -> dict[str, Any]:
    return view(record) if record is not None else {}


def footprint(task_id: str, cause: Cause) -> set[tuple[str, str, str]]:
    """Return what a cause may change in the start state of a task. A declared field `*` stands for any detail of entries."""
    staged = setting(TaskId.parse(task_id))
    declared = footprint_of(cause, staged.case)
    said = {"copy_of"}.union(*(entry.details for entry in staged.world.all(Entry)))
    return declared | {(kind, key, name) for kind, key, field in declared if field == "*" for name in said}
