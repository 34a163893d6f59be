"""Outcomes: what one episode came to, worked out from its calls alone. No number that a file states is believed."""

from functools import lru_cache

import msgspec

from companyos.assurance.replay import states
from companyos.chaos import DIALS
from companyos.company import TOOLBOX, Approval, ApprovalType, Person, Ticket
from companyos.core.calls import BAD_ACTION, BAD_ARGUMENTS, NO_ANSWER, UNKNOWN_TOOL, Call
from companyos.core.episode import Transcript
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.core.world import World
from companyos.env import CompanyEnv, par
from companyos.env.rewards import parts_of_score
from companyos.families import Setting, family
from companyos.families.kit.case import Trouble
from companyos.families.kit.goals import Goal, add_up

DESK = "desk"  # who decides where nobody else has signed
IMPOSSIBLE = "cannot_be_done"
INVALID = frozenset({BAD_ACTION, UNKNOWN_TOOL, BAD_ARGUMENTS})


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One episode, as far as metrics look at it."""

    task_id: str
    trial: int
    family: str
    split: str
    doses: str  # as the task id writes them
    struck: tuple[str, ...]  # the dials that brought trouble, by name
    right: str  # resolution/reason
    right_decider: str
    said: str  # the agent's resolution/reason; empty where it never closed the ticket
    decider: str  # whose signatures the agent got: form and office of each
    success: bool
    score: float
    total: float  # the return, by reward profile `dense`
    steps: int
    par: int  # the expert's steps
    damage: tuple[str, ...]  # record and field
    invalid: int  # calls that were none: no such tool, or arguments that it does not take
    refused: int  # calls that a rule of the company turned down
    routed: int  # calls, but for waiting, to an app that owned a milestone still open …
    waits: int  # … which those that only let time pass do not count for
    faults: int  # targets at which a call was left without an answer …
    recovered: int  # … and of those, the ones that were got past
    tokens: int | None = None
    cost: float | None = None

    @property
    def cluster(self) -> str:
        """What stands or falls together: all twins, doses, weathers and trials of one seed."""
        return _seed_of(self.task_id)

    @property
    def choice(self) -> tuple[str, str]:
        """The class of what the agent decided: resolution, reason and decider."""
        return self.said, self.decider

    @property
    def impossible(self) -> bool:
        return self.right.startswith(IMPOSSIBLE)

    @property
    def called_impossible(self) -> bool:
        return self.said.startswith(IMPOSSIBLE)


@lru_cache(maxsize=65536)
def _seed_of(task_id: str) -> str:
    return TaskId.parse(task_id).key


def judge(transcript: Transcript, trial: int = 0, tokens: int | None = None, cost: float | None = None) -> Outcome:
    """Plays the calls of a transcript again and judges what comes of them. Raises `ReplayDiffers` where one is too many."""
    env, turns = episode_of(transcript), transcript.turns
    task = TaskId.parse(env.task_id)
    routed = sum(_is_routed(state, turn.call) for state, turn in zip(states(transcript, env), turns, strict=False))
    verdict, ending, world, shortest = env.verdict, env.setting.ending, env.world, par(task)
    codes = [turn.reply.code for turn in env.turns if not turn.reply.ok]
    faults, recovered = _faults(env)
    score = parts_of_score(verdict, env.step_count, lambda: shortest, env.potential / env.whole_potential) if verdict else {}
    ticket = world.get(Ticket, env.setting.case.ticket_id)
    return Outcome(
        task_id=str(task),
        trial=trial,
        family=task.family,
        split=task.split,
        doses=task.doses,
        struck=struck(env.setting, task.family, faults),
        right=ending.name,
        right_decider=ending.decider,
        said=f"{ticket.resolution}/{ticket.reason}" if ticket.resolution else "",
        decider=_decider(world, ticket, env.setting.case.actor),
        success=bool(env.success),
        score=add_up(score.values()),
        total=env.total,
        steps=env.step_count,
        par=shortest,
        damage=tuple(f"{harm.record} {harm.field}" for harm in verdict.damage) if verdict else (),
        invalid=sum(code in INVALID for code in codes),
        refused=sum(code not in INVALID and code != NO_ANSWER for code in codes),
        routed=routed,
        waits=sum(_waits(turn.call) for turn in env.turns),
        faults=faults,
        recovered=recovered,
        tokens=tokens,
        cost=cost,
    )


def episode_of(transcript: Transcript, reward: str = "dense") -> CompanyEnv:
    """The episode of a transcript before its first call. `BadTask` where chairs were handed over: one is measured alone."""
    header = transcript.header
    if header.actors:
        raise BadTask(f"{header.task_id}: played from {', '.join(header.actors)}'s chair as well; one is measured alone")
    return CompanyEnv(TaskId.parse(header.task_id), reward)


def struck(setting: Setting, name: str, faults: int) -> tuple[str, ...]:
    """The dials that brought trouble into an episode: in its start state, its tools, or faults that a call met."""
    marks = {cause.name: cause.mark for cause in family(name).specs()}
    found = {
        mark.dial
        for cause, mark in marks.items()
        if isinstance(mark, Trouble) and getattr(setting.causes, cause) != DIALS[mark.dial].levels[0]
    }
    met = {"flaky": faults > 0, "tool_clutter": setting.toolbox.names != TOOLBOX.names}
    return tuple(sorted(found | {dial for dial, so in met.items() if so}))


# -- where calls go ----------------------------------------------------------------------------------------------------


def _is_routed(env: CompanyEnv, call: Call) -> bool:
    """Whether a call goes where there is something left to reach; with no milestone open that is the desk, to close."""
    if _waits(call):
        return False
    ending, world = env.setting.ending, env.world
    at_hand = [ending, *(one.ending for one in ending.linked if world.get(Ticket, one.ticket_id).resolution is None)]
    still_open = [m.goal for one in at_hand for m in one.milestones if not m.goal.holds(world)]
    return call.app in map(owner, still_open) if still_open else call.app == owner(ending.goals[0])


def _waits(call: Call) -> bool:
    return call.tool == "ticketdesk.wait"


def owner(goal: Goal) -> str:
    """The app in whose records a goal comes true: the table that it names first."""
    return goal.tables[0].__module__.rpartition(".")[2]


# -- faults ------------------------------------------------------------------------------------------------------------


def _faults(env: CompanyEnv) -> tuple[int, int]:
    """At how many targets a call was left without an answer, and at how many of them one was answered later.

    Whoever succeeds has got past all of them, by whatever way.
    """
    met: dict[tuple[str, str], bool] = {}
    for turn in env.turns:
        target = (turn.call.tool, str(sorted(turn.call.params.items())))
        if turn.reply.code == NO_ANSWER:
            met[target] = False
        elif target in met:
            met[target] = True
    return len(met), len(met) if env.success else sum(met.values())


# -- who decided -------------------------------------------------------------------------------------------------------


def _decider(world: World, ticket: Ticket, actor: str) -> str:
    """The offices that signed what the actor asked for on the ticket, whoever sat in them that day."""
    signed = [
        request
        for request in world.all(Approval)
        if request.status == "approved" and request.requester == actor and request.ticket_id == ticket.id
    ]
    return " + ".join(sorted({f"{request.type}: {_office(world, ticket, request)}" for request in signed})) or DESK


def _office(world: World, ticket: Ticket, request: Approval) -> str:
    """The lowest office of the form that may sign for the amount: no other signature is given."""
    form, asker = world.get(ApprovalType, request.type), world.get(Person, ticket.requester)
    amount = ticket.amount if "amount" in form.same_as_ticket else request.data.get("amount")
    named = [office.format_map({**request.data, "department": asker.department}) for office in form.offices]
    limits = {person.role: person.limit or 0 for person in world.all(Person)}
    return next((name for name in named if not isinstance(amount, int | float) or limits[name] >= amount), named[-1])
