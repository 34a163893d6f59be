"""Families: a kind of work, with its hidden causes, its staging, what is right in it, and an expert who can do it."""

import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from companyos.chaos import DIALS, Doses, Level, offered, read_doses
from companyos.company import Toolbox
from companyos.core.calls import Call, Procedure, Program, Reply, silent
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.core.world import Record, Streams, World
from companyos.families.kit import everyday
from companyos.families.kit.backdrop import Backdrop, furnish
from companyos.families.kit.case import Case, Cause, Fact, Trouble, Value
from companyos.families.kit.goals import CalledFor, Goal, Milestone, Signature, added


class Ending(msgspec.Struct, frozen=True, dict=True):
    """How a case ends when all is done right. `decider` is the office that decides, whoever sits in it today."""

    name: str
    resolution: str
    reason: str
    decider: str
    goals: tuple[Goal, ...]
    milestones: tuple[Milestone, ...]
    allowed: tuple[tuple[str, str | None], ...] = ()  # changes of its ticket that it calls for: field, value
    signatures: tuple[Signature, ...] = ()
    linked: tuple["Linked", ...] = ()  # tickets that have to be closed before it, each rightly
    shared: tuple[Milestone, ...] = ()  # milestones that are the same whatever the right ending: these may pay on the way

    @cached_property
    def named_goals(self) -> dict[str, Goal]:
        """The goals by the names that verdicts give them: `Ended`, `TicketIs:verified`."""
        named = {goal.name: goal for goal in self.goals}
        if len(named) < len(self.goals):
            raise RuntimeError(f"two goals of {self.name} have one name")
        return named

    def asks(self, goal: str) -> str:
        """What a goal that a verdict names asks for, in words."""
        linked = {f"{LINKED}{one.name}": one for one in self.linked}
        return linked[goal].asks if goal in linked else self.named_goals[goal].asks


LINKED = "Linked:"  # before the name of a linked ticket: the goal that it is closed rightly


class Linked(msgspec.Struct, frozen=True):
    """A ticket that belongs to another's work. It is judged when it is closed, as if the episode ended there."""

    name: str
    ticket_id: str
    ending: Ending
    worth: float  # of closing it rightly, as a milestone on the way

    @property
    def asks(self) -> str:
        return f"{self.ticket_id} was closed rightly, as {self.ending.resolution}, {self.ending.reason}."

    def closed_rightly(self, world: World) -> bool:
        return all(goal.holds(world) for goal in self.ending.goals)


# A milestone that does not hold on the first morning: its place, its worth at the end, what it pays on the way, its goal.
Watched = tuple[int, float, float, Goal]


class Setting(msgspec.Struct, frozen=True):
    """A task on its first morning: never stepped itself, only forked."""

    world: World
    case: Case
    causes: Any
    ending: Ending
    max_steps: int
    doses: Doses
    goals: dict[str, Goal]  # of the ending, by name
    watched: dict[type[Record] | None, tuple[Watched, ...]]  # by the table whose changes they hang on; None: on reading
    linked: dict[str, Linked]  # by ticket
    given: dict[str, CalledFor]  # what is called for on each ticket that is the actor's to work on
    potential: float  # what the milestones are worth together, closing the linked tickets rightly among them
    toolbox: Toolbox
    places: int  # how many milestones there are, of the ending and shared ones


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
    signed: dict[str, str] | None = None  # where somebody has cleared the desk before: what they found signed, by form


class Family(msgspec.Struct, frozen=True, eq=False):
    """A kind of work, all its parts named. `max_steps` is frozen by dose: 1.75 times the 99th percentile of par there."""

    name: str
    phrase: str  # stands in every brief of this family and of no other
    causes: type[msgspec.Struct]
    actor: str  # the role that is played from outside
    stage: Callable[[Backdrop, Streams, Any], Case]
    judge: Callable[[World, Case, Any], Ending]
    procedure: Callable[[Memory, Taste], Procedure]  # how its expert works; yields working lines beside the calls
    max_steps: Mapping[int, int]
    long: bool = False  # its tasks are many times as long as others': laws take smaller samples, rounds leave it out
    hire: Callable[[Backdrop], None] | None = None  # brings in its own specialists, of whom the actor may be one

    @property
    def words(self) -> str:
        """What its file says of itself: its name and what its work asks, in one line; then more."""
        return sys.modules[self.stage.__module__].__doc__ or ""

    def expert(self, memory: Memory, taste: Taste) -> Program:
        """The expert as a program of calls. `aloud(family.procedure(memory, taste))` gives its working lines, too."""
        return silent(self.procedure(memory, taste))

    def budget(self, doses: Doses) -> int:
        """The budget at the next tabled dose above the highest dial."""
        highest = max(doses.values())
        return next(steps for dose, steps in sorted(self.max_steps.items()) if dose >= highest)

    def draw_causes(self, facts: Streams, weather: Streams, doses: Doses) -> Any:
        """The hidden truths of one task as its seed and its weather have them, each by a draw of its own."""
        streams = {Fact: facts, Trouble: weather}
        return self.causes(**{cause.name: _drawn(cause, streams[type(cause.mark)], doses) for cause in self.specs()})

    def read_causes(self, do: Mapping[str, str]) -> dict[str, Level]:
        """Causes by name that a task id overrides; `BadTask` lists the values that one can have."""
        return {cause.name: _read_value(cause, do[cause.name]) for cause in self.specs(do) if cause.name in do}

    def specs(self, do: Mapping[str, str] | None = None) -> tuple[Cause, ...]:
        found = cause_specs(self.causes)
        unknown = sorted(set(do or ()) - {cause.name for cause in found})
        if unknown:
            raise BadTask(f"{self.name} has no cause {unknown[0]!r}; valid: {', '.join(c.name for c in found)}")
        return found

    def canonical(self, task: TaskId) -> TaskId:
        """Return the task under its one id: without the overrides whose value the seed has drawn anyway.

        Nothing tells the caller which ones those were. A refusal would say what the seed's own value is.
        """
        natural = _natural(self, task.key, task.weather_key, task.doses)
        fixed = self.read_causes(dict(task.do))
        kept = tuple((name, text) for name, text in task.do if fixed[name] != getattr(natural, name))
        return msgspec.structs.replace(task, do=kept)

    def set_up(self, task: TaskId) -> Setting:
        """The first morning of a task: furnished, staged, disturbed, and what is right in it."""
        doses, natural = read_doses(task.doses), _natural(self, task.key, task.weather_key, task.doses)
        causes = msgspec.structs.replace(natural, **self.read_causes(dict(task.do)))
        calm, case = _staged(self, task.key, task.split, self.without_troubles(causes))
        world, weather = calm.fork(), Streams(task.weather_key)
        self.disturb(world, case, causes, weather)
        world.settle()
        ending = self.judge(world, case, causes)
        budget, toolbox = self.budget(doses), offered(world.streams, doses)  # seen at once: the same in every weather
        world.streams = weather  # what is drawn from here on is trouble
        milestones = _milestones(ending)
        unmet = [one for one in milestones if not one[3].holds(world)]
        watched: dict[type[Record] | None, tuple[Watched, ...]] = {
            kind: tuple(one for one in unmet if kind in one[3].tables or (one[3].reads and kind is None))
            for kind in (*world.kinds(), None)
        }
        potential = added(one[1] for one in unmet) + added(one.worth for one in ending.linked)
        linked = {one.ticket_id: one for one in ending.linked}
        endings = {case.ticket_id: ending} | {ticket: one.ending for ticket, one in linked.items()}
        given = {ticket: CalledFor(one.allowed, one.signatures) for ticket, one in endings.items()}
        return Setting(
            world, case, causes, ending, budget, doses, ending.named_goals, watched, linked, given, potential, toolbox,
            len(milestones),
        )  # fmt: skip

    def without_troubles(self, causes: Any) -> Any:
        """The same truths of the case on a day on which nothing goes wrong."""
        return msgspec.structs.replace(causes, **{name: DIALS[t.dial].levels[0] for name, t in _troubles(self.causes)})

    def disturb(self, world: World, case: Case, causes: Any, weather: Streams) -> None:
        """Lets every trouble strike where the family says, in the injectors' own order."""
        for name, trouble in _troubles(self.causes):
            injector, level = DIALS[trouble.dial], getattr(causes, name)
            if level != injector.levels[0]:
                injector.strike(world, target_of(trouble, case), level, weather.at(name, str(level)))


def _milestones(ending: Ending) -> list[Watched]:
    """The milestones of an ending in their order, then the shared ones that it does not need itself."""
    early = {milestone.goal: milestone.worth for milestone in ending.shared}
    own = [(i, m.worth, early.pop(m.goal, 0.0), m.goal) for i, m in enumerate(ending.milestones)]
    return own + [(i, 0.0, worth, goal) for i, (goal, worth) in enumerate(early.items(), len(own))]


@lru_cache(maxsize=64)
def _natural(family: Family, key: str, weather_key: str, doses: str) -> Any:
    """What seed, weather and doses make true before anything is overridden: all twins of a task begin from it."""
    return family.draw_causes(Streams(key), Streams(weather_key), read_doses(doses))


@lru_cache(maxsize=64)
def _staged(family: Family, key: str, split: str, facts: Any) -> tuple[World, Case]:
    """A case as its facts have it, before any trouble: one for all doses, weathers and twins that differ in trouble."""
    streams = Streams(key)
    company = furnish(streams, split, family.actor, family.hire)
    world = company.world
    case = everyday.stage(world, family.stage(company, streams, facts))
    world.settle()
    return world, case


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
        plain, (mark, *meaning) = hint.__origin__, hint.__metadata__
        alternatives = get_args(plain) if get_origin(plain) is Literal else (False, True)
        if isinstance(mark, Trouble) and alternatives != DIALS[mark.dial].levels:
            raise TypeError(f"{causes.__module__}: {name} must have the levels of dial {mark.dial}")
        if isinstance(mark, Fact) and not meaning:
            raise TypeError(f"{causes.__module__}: {name} must say what it means")
        specs.append(Cause(name, alternatives, mark, *meaning))
    return tuple(specs)


@cache
def _troubles(causes: type[msgspec.Struct]) -> tuple[tuple[str, Trouble], ...]:
    """The troubles by name, in the order in which the injectors disturb."""
    marks = [(cause.name, cause.mark) for cause in cause_specs(causes) if isinstance(cause.mark, Trouble)]
    order = list(DIALS)
    return tuple(sorted(marks, key=lambda named: order.index(named[1].dial)))


def _drawn(cause: Cause, streams: Streams, doses: Doses) -> Level:
    draw = streams.at("cause", cause.name)
    if isinstance(cause.mark, Trouble):
        return DIALS[cause.mark.dial].level(draw, doses[cause.mark.dial] / 100)
    luck = draw.random()
    for value, odds in zip(cause.alternatives, cause.mark.odds, strict=True):
        luck -= odds
        if luck < 0:
            return value
    return cause.alternatives[-1]


def _read_value(cause: Cause, text: str) -> Level:
    for value in cause.alternatives:
        if write_value(value) == text:
            return value
    raise BadTask(f"{cause.name} cannot be {text!r}; valid: {', '.join(map(write_value, cause.alternatives))}")


def write_value(value: Value | Level) -> str:
    """A cause's value as task ids write it."""
    return str(int(value)) if isinstance(value, bool) else str(value)
