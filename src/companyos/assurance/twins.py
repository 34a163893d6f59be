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
from companyos.families.kit.case import Cause, Fact, Mark, Rule, Value
from companyos.families.kit.family import WHOLE_RECORD, Ending, footprint_of, write_value


class Twin(msgspec.Struct, frozen=True):
    """A task that differs from another in exactly one cause.

    Its relevance says what the changed cause changes: `ending` (the right ending), `way` (the ending is the same, but the
    expert's calls for one task do not solve the other) or `none`.
    """

    cause: str
    value: str
    task_id: str
    relevance: str


def do(task_id: str, **causes: Value) -> str:
    """Return the task with these causes set. Everything else stays as the seed draws it.

    The name is that of the do-operator of causal inference, which sets a variable instead of observing it.
    """
    task = TaskId.parse(task_id)
    fixed = dict(task.do) | {name: write_value(value) for name, value in causes.items()}
    changed = canonical(msgspec.structs.replace(task, do=tuple(sorted(fixed.items()))))
    if len(str(changed)) > MAX_LENGTH:
        raise BadTask(f"{changed} is longer than {MAX_LENGTH} characters; override fewer causes")
    return str(changed)


def weathers(task_id: str, count: int) -> list[str]:
    """Return the task and `count` - 1 versions of it with other weathers.

    The weather of a task is its draw of the troubles. Another weather has the same facts but other troubles; at dose 0
    there are none.
    """
    task = TaskId.parse(task_id)
    facts = {cause.name for cause in family(task.family).specs() if isinstance(cause.annotation, Fact | Rule)}
    kept = tuple((name, value) for name, value in task.do if name in facts)  # an overridden trouble is drawn again, too
    numbers = range(task.weather + 1, task.weather + count)
    return [task_id, *(str(msgspec.structs.replace(task, weather=number, do=kept)) for number in numbers)]


def twin_tasks(task_id: str, mark: type[Mark] | None = None) -> list[tuple[Cause, str, str]]:
    """Return all twins of a task: the changed cause, its new value and the task id.

    `mark` selects facts, troubles or rules. A twin with another rule is a clause twin.
    """
    task = TaskId.parse(task_id)
    causes, kind = setting(task).causes, family(task.family)
    return [
        (cause, write_value(value), do(task_id, **{cause.name: value}))
        for cause in kind.specs()
        if mark is None or isinstance(cause.annotation, mark)
        for value in kind.alternatives(cause, causes, task.split)
    ]


@lru_cache(maxsize=4096)
def twins_with_other_ending(task_id: str, mark: type[Fact | Rule] = Fact) -> tuple[tuple[str, str], ...]:
    """Return the twins with another right ending: the name of the changed fact, and the task id.

    With the mark `Rule`, these are the clause twins: the same morning with one rule changed. Then another ending is also one
    with other fields to set or other facts to cite.
    """
    env = CompanyEnv(TaskId.parse(task_id))
    candidates = twin_tasks(task_id, mark)  # a trouble never changes the ending
    same = same_orders if mark is Rule else same_ending
    return tuple(
        (cause.name, twin_id) for cause, _, twin_id in candidates if not same(env, CompanyEnv(TaskId.parse(twin_id)))
    )


def twins(task_id: str) -> list[Twin]:
    """Return all twins of a task with their relevance."""
    env = CompanyEnv(TaskId.parse(task_id), "sparse")
    run_expert(env)
    return [Twin(cause.name, value, twin_id, relevance(env, twin_id)) for cause, value, twin_id in twin_tasks(task_id)]


def relevance(solved: CompanyEnv, twin_id: str) -> str:
    """Return the relevance of a twin. `solved` is the task after the expert has solved it."""
    twin_env = CompanyEnv(TaskId.parse(twin_id), "sparse")
    if not same_ending(solved, twin_env):
        return "ending"
    run_expert(twin_env)
    return "none" if _carries_over(solved, twin_env) and _carries_over(twin_env, solved) else "way"


def same_ending(env: CompanyEnv, twin_env: CompanyEnv) -> bool:
    """Return whether two tasks have the same right ending, signed by the same office."""
    ending, twin_ending = env.setting.ending, twin_env.setting.ending
    return (ending.name, ending.decider) == (twin_ending.name, twin_ending.decider)


def same_orders(env: CompanyEnv, twin_env: CompanyEnv) -> bool:
    """Return whether two tasks have the same right ending, with the same fields to set and the same facts to cite."""
    return same_ending(env, twin_env) and _orders(env.setting.ending) == _orders(twin_env.setting.ending)


def _orders(ending: Ending) -> tuple[object, ...]:
    """Return what the rules of a ruling order, whichever check decided."""
    return ending.ruling.ending[1:] if ending.ruling is not None else ()


def _carries_over(solved: CompanyEnv, target: CompanyEnv) -> bool:
    """Return whether the calls of a solved episode also solve the task of `target`."""
    env = CompanyEnv(TaskId.parse(target.task_id), "sparse")
    for turn in solved.turns:
        env.step(turn.call)
    return bool(env.success)


def differences(world: World, twin_world: World) -> set[tuple[str, str, str]]:
    """Return kind, id and field of all differences between two worlds. Clock and counters have the kind `World`."""
    differing: set[tuple[str, str, str]] = set()
    if (world.now, world.digest_of_rest()) != (twin_world.now, twin_world.digest_of_rest()):
        differing.add(("World", "", "clock, agenda or counters"))
    for kind in world.kinds():
        for record_id in world.own(kind).keys() | twin_world.own(kind).keys():  # twins share the other records
            record, twin_record = world.peek(kind, record_id), twin_world.peek(kind, record_id)
            if record != twin_record:
                fields, twin_fields = _fields(record), _fields(twin_record)
                names = fields.keys() | twin_fields.keys()
                differing |= {
                    (kind.__name__, record_id, name) for name in names if fields.get(name) != twin_fields.get(name)
                }
    return differing


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record as an agent sees them; none if there is no record."""
    return view(record) if record is not None else {}


def beyond(found: set[tuple[str, str, str]], declared: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Return the differences between two worlds that a footprint does not declare."""
    return {one for one in found if one not in declared and (*one[:2], WHOLE_RECORD) not in declared}


def footprint(task_id: str, cause: Cause) -> set[tuple[str, str, str]]:
    """Return what a cause may change in the start state of a task. A declared field `*` stands for any detail of entries."""
    staged = setting(TaskId.parse(task_id))
    declared = footprint_of(cause, staged.case)
    details = {"copy_of"}.union(*(entry.details for entry in staged.world.all(Entry)))
    return declared | {(kind, record, name) for kind, record, field in declared if field == "*" for name in details}
