"""The `Family` class: a kind of work with its hidden causes, the staging of its cases, a judge and an expert."""

import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from companyos.chaos import DIALS, Doses, Level, offered, read_doses
from companyos.company import Toolbox
from companyos.core.calls import Call, Procedure, Program, Reply, silent
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.core.world import Draw, Record, Streams, World
from companyos.families.kit import everyday
from companyos.families.kit.backdrop import Backdrop
from companyos.families.kit.builder import prepare_company
from companyos.families.kit.case import Case, Cause, Fact, Rule, Trouble, Value
from companyos.families.kit.company import SharedCompany, company_of
from companyos.families.kit.goals import CalledFor, Goal, Milestone, Signature, add_up
from companyos.families.kit.rulebooks import Rules
from companyos.rules import Rulebook, Ruling


class Ending(msgspec.Struct, frozen=True, dict=True):
    """The right ending of a case."""

    name: str
    resolution: str
    reason: str
    decider: str  # who decides: an office (job title), or `desk` if the agent's desk decides itself
    goals: tuple[Goal, ...]
    milestones: tuple[Milestone, ...]
    allowed: tuple[tuple[str, str | None], ...] = ()  # changes of its ticket that are not damage: field, value
    signatures: tuple[Signature, ...] = ()
    linked: tuple["Linked", ...] = ()  # other tickets that have to be closed correctly before this one
    shared: tuple[Milestone, ...] = ()  # milestones that do not depend on the right ending: these may pay early
    ruling: Ruling | None = None  # the decision by the rulebook, if the family has drawn rules

    @cached_property
    def named_goals(self) -> dict[str, Goal]:
        """The goals by their names in verdicts, such as `Ended` or `TicketIs:verified`."""
        named = {goal.name: goal for goal in self.goals}
        if len(named) < len(self.goals):
            raise RuntimeError(f"two goals of {self.name} have the same name")
        return named

    def asks(self, goal: str) -> str:
        """Return what a goal asks for, in words. `goal` is its name in a verdict."""
        linked = {f"{LINKED}{ticket.name}": ticket for ticket in self.linked}
        return linked[goal].asks if goal in linked else self.named_goals[goal].asks


LINKED = "Linked:"  # prefix of the goal that a linked ticket is closed correctly


class Linked(msgspec.Struct, frozen=True):
    """A ticket that is part of the work on another ticket. It is judged at the moment when it is closed."""

    name: str
    ticket_id: str
    ending: Ending
    worth: float  # the reward for closing it correctly

    @property
    def asks(self) -> str:
        return f"{self.ticket_id} was closed correctly, as {self.ending.resolution}, {self.ending.reason}."

    def closed_rightly(self, world: World) -> bool:
        return all(goal.holds(world) for goal in self.ending.goals)


class OpenMilestone(NamedTuple):
    """A milestone of a setting that does not hold at the start, so that the agent can still earn its reward."""

    position: int  # among all milestones of the setting
    worth: float  # what it adds to the reward at the end of the episode
    early_worth: float  # what it pays as soon as it is reached: 0, unless it is one of the ending's shared milestones
    goal: Goal


class Setting(msgspec.Struct, frozen=True):
    """The start state of a task. Episodes fork it and never change it."""

    world: World
    case: Case
    causes: Any
    ending: Ending
    max_steps: int
    doses: Doses
    goals: dict[str, Goal]  # of the ending, by name
    # The milestones to check after a write to each table; under None, those to check after the agent has read a metric.
    open_milestones: dict[type[Record] | None, tuple[OpenMilestone, ...]]
    linked: dict[str, Linked]  # by id: other tickets that must be closed correctly, too
    needed_changes: dict[str, CalledFor]  # by id of each ticket that the actor may work on: what its right ending needs
    potential: float  # the worth of all open milestones and linked tickets
    toolbox: Toolbox
    milestone_count: int  # those that hold at the start and shared ones included


class ExpertStyle:
    """The choices of an expert where several ways of working are right. This class always makes the default choice.

    A subclass (`agents.baselines`) chooses at random, so that the laws can check that every such way wins.
    """

    def order(self, name: str, steps: list[Any]) -> list[Any]:
        """Return the steps in the order in which the expert takes them. `name` names the choice."""
        return steps

    def chooses(self, name: str) -> bool:
        """Return whether the expert departs from its default in the way that `name` names."""
        return False

    def goes_by(self, book: Rulebook) -> Rulebook:
        """Return the rulebook by which the expert decides. `book` is the one that it has read."""
        return book


class EpisodeSoFar(msgspec.Struct, frozen=True):
    """What an expert knows when it begins or takes over an episode: the brief, and the calls and replies so far."""

    brief: str
    now: str  # the simulated time, such as `Tue 2026-03-10 09:30`
    turns: tuple[tuple[Call, Reply], ...] = ()
    # The requests already approved for the ticket, by form, if a caller has already cleaned up after earlier turns.
    signed: dict[str, str] | None = None


class Family(msgspec.Struct, frozen=True, eq=False):
    """A kind of work.

    `max_steps` is the step budget by dose (the strength of chaos, in percent). Its numbers are fixed: 1.75 times the 99th
    percentile of par, which is the number of steps that the expert takes.
    """

    name: str
    phrase: str  # occurs in every brief of this family and in no other family's
    causes: type[msgspec.Struct]  # the hidden causes: one field each, annotated with `Fact`, `Trouble` or `Rule`
    actor: str  # the job title of the person whom the agent plays
    stage: Callable[[Backdrop, Streams, Any], Case]  # adds a case to a company
    judge: Callable[[World, Case, Any], Ending]  # returns the right ending of a case
    # The expert: yields calls, and its reasoning as working lines.
    procedure: Callable[[EpisodeSoFar, ExpertStyle], Procedure]
    max_steps: Mapping[int, int]
    long: bool = False  # the tasks are several times longer than usual: see `SHORT_FAMILIES`
    hire: Callable[[Backdrop], None] | None = None  # adds the people whom only this family needs
    rules: Rules | None = None  # None: the policies of the family are fixed texts

    @property
    def description(self) -> str:
        """The docstring of the family's module or package: a line `name: question`, then a paragraph."""
        return sys.modules[self.stage.__module__.removesuffix(".stage")].__doc__ or ""

    def expert(self, so_far: EpisodeSoFar, style: ExpertStyle) -> Program:
        """Return the expert as a program of calls, without its working lines."""
        return silent(self.procedure(so_far, style))

    def budget(self, doses: Doses) -> int:
        """Return the step budget: that of the lowest dose in `max_steps` that is not below the highest dial."""
        highest = max(doses.values())
        return next(steps for dose, steps in sorted(self.max_steps.items()) if dose >= highest)

    def draw_causes(self, facts: Streams, weather: Streams, doses: Doses, split: str) -> Any:
        """Draw the causes of a task, each from a stream of its own. `weather` is the source of randomness for troubles.

        If the rules are drawn as well, the facts are drawn again until a rule of the wanted kind decides.
        """
        fixed: dict[str, Level] = {}
        if self.rules is not None:
            fixed |= self.rules.draw(facts, split)
        for name, trouble in _troubles(self.causes):
            fixed[name] = DIALS[trouble.dial].level(weather.at("cause", name), doses[trouble.dial] / 100)

        def draw(attempt: int) -> Any:
            return self.causes(**fixed, **_drawn_facts(self.causes, facts, attempt))

        return draw(0) if self.rules is None else self.rules.aimed(draw, facts)

    def alternatives(self, cause: Cause, causes: Any, split: str) -> list[Value]:
        """Return the values that a cause could have instead in a task of this split."""
        others = [value for value in cause.values(split) if value != getattr(causes, cause.name)]
        if self.rules is None or not isinstance(cause.annotation, Rule) or split == "test":
            return others
        variants = self.rules.variants(causes)
        return [value for value in others if self.rules.is_known({**variants, cause.name: str(value)})]

    def read_causes(self, do: Mapping[str, str], split: str) -> dict[str, Level]:
        """Return the values that a task id gives to causes. `do` maps names of causes to values as text.

        Raises `BadTask`, which lists what is valid, for an unknown cause or a value that the split does not have.
        """
        return {cause.name: _read_value(cause, do[cause.name], split) for cause in self.specs(do) if cause.name in do}

    def specs(self, do: Mapping[str, str] | None = None) -> tuple[Cause, ...]:
        """Return the declared causes. Raises `BadTask` if `do` names another one."""
        specs = cause_specs(self.causes)
        unknown = sorted(set(do or ()) - {cause.name for cause in specs})
        if unknown:
            raise BadTask(f"{self.name} has no cause {unknown[0]!r}; valid: {', '.join(cause.name for cause in specs)}")
        return specs

    def canonical(self, task: TaskId) -> TaskId:
        """Return the task without the overrides that set a cause to the value that the seed draws anyway.

        The caller is not told which ones those were, because that would reveal the hidden value.
        """
        natural = _causes_of_seed(self, task.split, task.key, task.weather_key, task.doses)
        fixed = self.read_causes(dict(task.do), task.split)
        kept = tuple((name, text) for name, text in task.do if fixed[name] != getattr(natural, name))
        return msgspec.structs.replace(task, do=kept)

    def set_up(self, task: TaskId) -> Setting:
        """Build the start state of a task: the company, the case in it, the troubles, and the right ending."""
        doses = read_doses(task.doses)
        natural = _causes_of_seed(self, task.split, task.key, task.weather_key, task.doses)
        causes = msgspec.structs.replace(natural, **self.read_causes(dict(task.do), task.split))
        company = company_of(task.split, task.seed, task.size)
        untroubled, case = _staged(self, task.key, company, self.without_troubles(causes))
        world, weather = untroubled.fork(), Streams(task.weather_key)  # the weather is the source of randomness for troubles
        self.disturb(world, case, causes, weather)
        world.settle()
        ending = self.judge(world, case, causes)
        # The agent sees the offered tools in its first observation, so they must not depend on the weather.
        toolbox = offered(world.streams, doses)
        world.streams = weather  # everything drawn during the episode is trouble
        milestones = _milestones(ending)
        unmet = [milestone for milestone in milestones if not milestone.goal.holds(world)]
        potential = add_up(milestone.worth for milestone in unmet) + add_up(ticket.worth for ticket in ending.linked)
        linked = {ticket.ticket_id: ticket for ticket in ending.linked}
        endings = {case.ticket_id: ending} | {ticket_id: ticket.ending for ticket_id, ticket in linked.items()}
        return Setting(
            world=world,
            case=case,
            causes=causes,
            ending=ending,
            max_steps=self.budget(doses),
            doses=doses,
            goals=ending.named_goals,
            open_milestones=_by_table(unmet, world),
            linked=linked,
            needed_changes={key: CalledFor(right.allowed, right.signatures) for key, right in endings.items()},
            potential=potential,
            toolbox=toolbox,
            milestone_count=len(milestones),
        )

    def without_troubles(self, causes: Any) -> Any:
        """Return the same causes with every trouble switched off."""
        calm = {name: DIALS[trouble.dial].levels[0] for name, trouble in _troubles(self.causes)}
        return msgspec.structs.replace(causes, **calm)

    def disturb(self, world: World, case: Case, causes: Any, weather: Streams) -> None:
        """Apply the troubles to the world, in the order of the dials."""
        for name, trouble in _troubles(self.causes):
            injector, level = DIALS[trouble.dial], getattr(causes, name)
            if level != injector.levels[0]:
                injector.strike(world, target_of(trouble, case), level, weather.at(name, str(level)))


def _milestones(ending: Ending) -> list[OpenMilestone]:
    """Return the milestones of an ending in their order, then the shared ones that this ending does not need."""
    early = {milestone.goal: milestone.worth for milestone in ending.shared}
    own = [OpenMilestone(i, m.worth, early.pop(m.goal, 0.0), m.goal) for i, m in enumerate(ending.milestones)]
    return own + [OpenMilestone(i, 0.0, worth, goal) for i, (goal, worth) in enumerate(early.items(), len(own))]


def _by_table(unmet: list[OpenMilestone], world: World) -> dict[type[Record] | None, tuple[OpenMilestone, ...]]:
    """Return the milestones that a write to each table can reach; under None, those that reading a metric can reach."""
    return {
        kind: tuple(m for m in unmet if kind in m.goal.tables or (m.goal.reads and kind is None))
        for kind in (*world.kinds(), None)
    }


@lru_cache(maxsize=64)
def _causes_of_seed(family: Family, split: str, key: str, weather_key: str, doses: str) -> Any:
    """Return the causes that are drawn for a task before overrides. A task and its twins share this result."""
    return family.draw_causes(Streams(key), Streams(weather_key), read_doses(doses), split)


@lru_cache(maxsize=64)
def _staged(family: Family, key: str, company: SharedCompany, facts: Any) -> tuple[World, Case]:
    """Stage a case from its facts, without troubles. The result serves all doses, and all twins that differ in troubles."""
    streams = Streams(key)
    backdrop = prepare_company(company, streams, family.actor, family.hire)
    world = backdrop.world
    case = everyday.stage(world, family.stage(backdrop, streams, facts))
    world.settle()
    return world, case


def target_of(trouble: Trouble, case: Case) -> str:
    """Return the target of a trouble with the ids of the case's records in place of the roles."""
    return "/".join(part[1:] if part.startswith("=") else case.roles[part] for part in trouble.target)


WHOLE_RECORD = "(all fields)"  # in a footprint: every field of a record, and whether it exists


def footprint_of(cause: Cause, case: Case) -> set[tuple[str, str, str]]:
    """Return the kind, id and field of everything that this cause may change in the start state."""
    annotation = cause.annotation
    if isinstance(annotation, Fact):
        return {(kind, case.roles[role], field) for kind, role, field in annotation.shown_in}
    if isinstance(annotation, Rule):
        papers = {(kind, paper, WHOLE_RECORD) for paper in case.papers for kind in ("Policy", "Draft")}
        return papers | {("Mind", case.roles["policy_owner"], "explains")}
    ids = [case.roles[part] for part in annotation.target if not part.startswith("=")]
    return {(kind, target, field) for kind, field in DIALS[annotation.dial].footprint for target in ids}


@cache
def cause_specs(causes: type[msgspec.Struct]) -> tuple[Cause, ...]:
    """Return the causes that a `Causes` class declares in its type hints.

    For example, `expired: Annotated[bool, Fact(...), "the certificate has expired"]` declares one.
    """
    specs = []
    for name, hint in get_type_hints(causes, include_extras=True).items():
        value_type, (annotation, *meaning) = hint.__origin__, hint.__metadata__
        alternatives = get_args(value_type) if get_origin(value_type) is Literal else (False, True)
        if isinstance(annotation, Trouble) and alternatives != DIALS[annotation.dial].levels:
            raise TypeError(f"{causes.__module__}: {name} must have the levels of dial {annotation.dial}")
        if isinstance(annotation, Fact) and not meaning:
            raise TypeError(f"{causes.__module__}: {name} must say what it means")
        specs.append(Cause(name, alternatives, annotation, *meaning))
    return tuple(specs)


@cache
def _troubles(causes: type[msgspec.Struct]) -> tuple[tuple[str, Trouble], ...]:
    """Return the names and annotations of the troubles, in the order of the dials."""
    troubles = [(cause.name, cause.annotation) for cause in cause_specs(causes) if isinstance(cause.annotation, Trouble)]
    order = list(DIALS)
    return tuple(sorted(troubles, key=lambda named: order.index(named[1].dial)))


def _drawn_facts(causes: type[msgspec.Struct], streams: Streams, attempt: int) -> dict[str, Value]:
    """Draw every fact, from the stream with its name. Each attempt draws all of them anew."""
    again = ("again", attempt) if attempt else ()
    facts = [cause for cause in cause_specs(causes) if isinstance(cause.annotation, Fact)]
    return {cause.name: _drawn_fact(cause, streams.at("cause", cause.name, *again)) for cause in facts}


def _drawn_fact(cause: Cause, draw: Draw) -> Value:
    assert isinstance(cause.annotation, Fact)
    luck = draw.random()
    for value, odds in zip(cause.alternatives, cause.annotation.odds, strict=True):
        luck -= odds
        if luck < 0:
            return value
    return cause.alternatives[-1]


def _read_value(cause: Cause, text: str, split: str) -> Level:
    """Return the value of a cause that is written so in task ids."""
    values = cause.values(split)
    for value in values:
        if write_value(value) == text:
            return value
    raise BadTask(f"{cause.name} cannot be {text!r}; valid: {', '.join(map(write_value, values))}")


def write_value(value: Value | Level) -> str:
    """Return a cause's value as it is written in task ids."""
    return str(int(value)) if isinstance(value, bool) else str(value)
