"""Families: a kind of work, with its hidden causes, its staging, what is right in it, and an expert who can do it."""

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from companyos.calls import Call, Program, Reply
from companyos.chaos import DIALS, Doses, Level, read_doses
from companyos.errors import BadTask
from companyos.families import everyday
from companyos.families.case import Case, Cause, Fact, Trouble, Value
from companyos.families.goals import Goal, Milestone, Signature
from companyos.task import TaskId
from companyos.world import Record, Streams, World


class Ending(msgspec.Struct, frozen=True, dict=True):
    """How a case ends when all is done right. `decider` is the office that decides, whoever sits in it today."""

    name: str
    resolution: str
    reason: str
    decider: str
    goals: tuple[Goal, ...]
    milestones: tuple[Milestone, ...]
    allowed: tuple[tuple[str, str | None], ...] = ()  # changes of the brief's ticket that it calls for: field, value
    signatures: tuple[Signature, ...] = ()

    @cached_property
    def named_goals(self) -> dict[str, Goal]:
        """The goals by the names that verdicts give them: `Ended`, `TicketIs:verified`."""
        named = {goal.name: goal for goal in self.goals}
        if len(named) < len(self.goals):
            raise RuntimeError(f"two goals of {self.name} have one name")
        return named


Watched = tuple[int, float, Goal]  # a milestone that does not hold yet: its place, its worth, its goal


class Setting(msgspec.Struct, frozen=True):
    """A task on its first morning: never stepped itself, only forked."""

    world: World
    case: Case
    causes: Any
    ending: Ending
    max_steps: int
    doses: Doses
    watched: dict[type[Record] | None, tuple[Watched, ...]]  # by the table whose changes they hang on; None: on reading
    potential: float  # what they are worth together


class Taste:
    """How an expert likes to work where several ways are right. The plain one takes the first; jitter takes any."""

    def order(self, name: str, steps: list[Any]) -> list[Any]:
        return steps

    def fancies(self, name: str) -> bool:
        return False


class Memory(msgspec.Struct, frozen=True):
    """What an expert knows when it sits down: the brief, and the calls and replies so far."""

    brief: str
    now: str  # the clock on the wall, `Tue 2026-03-10 09:30`
    turns: tuple[tuple[Call, Reply], ...] = ()


class Family(msgspec.Struct, frozen=True):
    """A kind of work, all its parts named. `max_steps` is frozen by dose: 1.75 times the 99th percentile of par there."""

    name: str
    phrase: str  # stands in every brief of this family and of no other
    causes: type[msgspec.Struct]
    stage: Callable[[Streams, str, Any], tuple[World, Case]]
    judge: Callable[[World, Case, Any], Ending]
    expert: Callable[[Memory, Taste], Program]
    max_steps: Mapping[int, int]

    def budget(self, doses: Doses) -> int:
        """The budget at the next tabled dose above the highest dial."""
        highest = max(doses.values())
        return next(steps for dose, steps in sorted(self.max_steps.items()) if dose >= highest)

    def draw_causes(self, facts: Streams, weather: Streams, doses: Doses, do: Mapping[str, str]) -> Any:
        """The hidden truths of one task: each by a draw of its own, unless `do` fixes it."""
        streams = {Fact: facts, Trouble: weather}
        return self.causes(**{c.name: _settle(c, streams[type(c.mark)], doses, do.get(c.name)) for c in self.specs(do)})

    def specs(self, do: Mapping[str, str] | None = None) -> tuple[Cause, ...]:
        found = cause_specs(self.causes)
        unknown = sorted(set(do or ()) - {cause.name for cause in found})
        if unknown:
            raise BadTask(f"{self.name} has no cause {unknown[0]!r}; valid: {', '.join(c.name for c in found)}")
        return found

    def set_up(self, task: TaskId) -> Setting:
        """The first morning of a task: furnished, staged, disturbed, and what is right in it."""
        doses = read_doses(task.doses)
        streams = Streams(task.key)
        weather = Streams(task.weather_key) if task.weather else streams
        causes = self.draw_causes(streams, weather, doses, dict(task.do))
        if task.do:
            natural = self.draw_causes(streams, weather, doses, {})
            for cause, _ in task.do:
                if getattr(causes, cause) == getattr(natural, cause):
                    raise BadTask(f"{task}: {cause} is so without being overridden; a task has one id")
        world, case = self.stage(streams, task.split, causes)
        case = everyday.stage(world, case)
        self.disturb(world, case, causes, weather)
        world.settle()
        ending = self.judge(world, case, causes)
        world.streams = weather  # what is drawn from here on is trouble
        unmet = [(i, m.worth, m.goal) for i, m in enumerate(ending.milestones) if not m.goal.holds(world)]
        watched: dict[type[Record] | None, tuple[Watched, ...]] = {
            kind: tuple(one for one in unmet if kind in one[2].tables or (one[2].reads and kind is None))
            for kind in (*world.kinds(), None)
        }
        potential = sum(worth for _, worth, _ in unmet)
        return Setting(world, case, causes, ending, self.budget(doses), doses, watched, potential)

    def disturb(self, world: World, case: Case, causes: Any, weather: Streams) -> None:
        """Lets every trouble strike where the family says, in the injectors' own order."""
        for name, trouble in _troubles(self.causes):
            injector, level = DIALS[trouble.dial], getattr(causes, name)
            if level != injector.levels[0]:
                injector.strike(world, target_of(trouble, case), level, weather.at(name, str(level)))


def target_of(trouble: Trouble, case: Case) -> str:
    return "/".join(part[1:] if part.startswith("=") else case.roles[part] for part in trouble.target)


def footprint_of(cause: Cause, case: Case) -> set[tuple[str, str, str]]:
    """Kind, id and field of all that this cause may change in the start state."""
    mark = cause.mark
    if isinstance(mark, Fact):
        return {(kind, case.roles[role], field) for kind, role, field in mark.footprint}
    ids = [case.roles[part] for part in mark.target if not part.startswith("=")]
    return {(kind, target, field) for kind, field in DIALS[mark.dial].footprint for target in ids}


@cache
def cause_specs(causes: type[msgspec.Struct]) -> tuple[Cause, ...]:
    """The causes that a `Causes` class declares, from its hints alone."""
    specs = []
    for name, hint in get_type_hints(causes, include_extras=True).items():
        plain, mark = hint.__origin__, hint.__metadata__[0]
        alternatives = get_args(plain) if get_origin(plain) is Literal else (False, True)
        if isinstance(mark, Trouble) and alternatives != DIALS[mark.dial].levels:
            raise TypeError(f"{causes.__module__}: {name} must have the levels of dial {mark.dial}")
        specs.append(Cause(name, alternatives, mark))
    return tuple(specs)


@cache
def _troubles(causes: type[msgspec.Struct]) -> tuple[tuple[str, Trouble], ...]:
    """The troubles by name, in the order in which the injectors disturb."""
    marks = [(cause.name, cause.mark) for cause in cause_specs(causes) if isinstance(cause.mark, Trouble)]
    order = list(DIALS)
    return tuple(sorted(marks, key=lambda named: order.index(named[1].dial)))


def _settle(cause: Cause, streams: Streams, doses: Doses, fixed: str | None) -> Level:
    if fixed is not None:
        for value in cause.alternatives:
            if write_value(value) == fixed:
                return value
        raise BadTask(f"{cause.name} cannot be {fixed!r}; valid: {', '.join(map(write_value, cause.alternatives))}")
    draw = streams.at("cause", cause.name)
    if isinstance(cause.mark, Trouble):
        return DIALS[cause.mark.dial].level(draw, doses[cause.mark.dial] / 100)
    luck = draw.random()
    for value, odds in zip(cause.alternatives, cause.mark.odds, strict=True):
        luck -= odds
        if luck < 0:
            return value
    return cause.alternatives[-1]


def write_value(value: Value | Level) -> str:
    """A cause's value as task ids write it."""
    return str(int(value)) if isinstance(value, bool) else str(value)
