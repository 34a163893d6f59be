"""Judges one episode: replays its calls and works out its outcome. Numbers that the transcript states are not used."""

from functools import lru_cache

import msgspec

from companyos.assurance.replay import ReplayedEpisode
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

REWARD = "dense"  # the reward profile in which every return is counted
DESK = "desk"  # the decider of an episode in which nobody signed an approval
IMPOSSIBLE = "cannot_be_done"
INVALID = frozenset({BAD_ACTION, UNKNOWN_TOOL, BAD_ARGUMENTS})


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one episode, with everything that the metrics count."""

    task_id: str
    trial: int
    family: str
    split: str
    doses: str  # as the task id writes them
    struck: tuple[str, ...]  # the chaos dials that caused trouble in this episode
    right: str  # the right resolution and reason, joined by a slash
    right_decider: str
    said: str  # the agent's resolution and reason; empty if it never closed the ticket
    decider: str  # the approvals that the agent obtained: form and office of each
    success: bool
    score: float
    total: float  # the return in the reward profile `REWARD`
    steps: int
    par: int  # how many steps the expert needs
    damage: tuple[str, ...]  # record and field of each unwanted change
    invalid: int  # calls of an unknown tool or with arguments that it does not accept
    refused: int  # calls that a rule of the company refused
    routed: int  # calls, without waits, to an app that had an open milestone
    waits: int  # calls that only let time pass
    faults: int  # targets (tool and arguments) at which a call got no answer
    recovered: int  # those of them that answered a later call; all of them in a success
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None  # by the clock on the wall; of a person who played in a study
    raised: str = ""  # the exception with which the agent left the episode; empty if it raised none

    @property
    def cluster(self) -> str:
        """The seed of the task. Twins, doses, weathers and trials of one seed are not independent samples."""
        return _seed_of(self.task_id)

    @property
    def choice(self) -> tuple[str, str]:
        """What the agent decided: resolution with reason, and decider."""
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


def judge(
    episode: Transcript | ReplayedEpisode,
    trial: int = 0,
    tokens: int | None = None,
    cost: float | None = None,
    seconds: float | None = None,
    raised: str = "",
) -> Outcome:
    """Return the outcome of an episode. Raises `ReplayDiffers` when it has calls after its end."""
    replayed = replay_alone(episode)
    env = replayed.end
    task = TaskId.parse(env.task_id)
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
        total=_total(replayed),
        steps=env.step_count,
        par=shortest,
        damage=damage_of(env),
        invalid=sum(code in INVALID for code in codes),
        refused=sum(code not in INVALID and code != NO_ANSWER for code in codes),
        routed=sum(_is_routed(before, turn.call) for before, turn in zip(replayed.states, env.turns, strict=False)),
        waits=sum(_waits(turn.call) for turn in env.turns),
        faults=faults,
        recovered=recovered,
        tokens=tokens,
        cost=cost,
        seconds=seconds,
        raised=raised,
    )


def replay_alone(episode: Transcript | ReplayedEpisode) -> ReplayedEpisode:
    """Replay an episode, unless that was done already.

    Raises `BadTask` when another actor took part, because an agent is measured alone.
    """
    transcript = episode.recorded if isinstance(episode, ReplayedEpisode) else episode
    header = transcript.header
    if header.actors:
        raise BadTask(f"{header.task_id}: played from {', '.join(header.actors)}'s chair as well; one is measured alone")
    return episode if isinstance(episode, ReplayedEpisode) else ReplayedEpisode(transcript, REWARD)


def _total(replayed: ReplayedEpisode) -> float:
    """Return the return in the reward profile `REWARD`."""
    if replayed.end.reward != REWARD:
        replayed = ReplayedEpisode(replayed.recorded, REWARD)
    return replayed.end.total


def damage_of(env: CompanyEnv) -> tuple[str, ...]:
    """Return record and field of each unwanted change that an ended episode left behind."""
    return tuple(f"{harm.record} {harm.field}" for harm in env.verdict.damage) if env.verdict else ()


def struck(setting: Setting, name: str, faults: int) -> tuple[str, ...]:
    """Return the dials that caused trouble in an episode: in its start state, among its tools, or as faults of calls."""
    marks = {cause.name: cause.annotation for cause in family(name).specs()}
    dials = {
        mark.dial
        for cause, mark in marks.items()
        if isinstance(mark, Trouble) and getattr(setting.causes, cause) != DIALS[mark.dial].levels[0]
    }
    if faults:
        dials.add("flaky")
    if setting.toolbox.names != TOOLBOX.names:
        dials.add("tool_clutter")
    return tuple(sorted(dials))


# -- routing: does a call go to an app with work to do? ----------------------------------------------------------------


def _is_routed(env: CompanyEnv, call: Call) -> bool:
    """Return whether a call goes to an app with an open milestone; if none is open, to the app that closes tickets."""
    if _waits(call):
        return False
    ending, world = env.setting.ending, env.world
    open_linked = [linked for linked in ending.linked if world.get(Ticket, linked.ticket_id).resolution is None]
    milestones = [*ending.milestones, *(milestone for linked in open_linked for milestone in linked.ending.milestones)]
    open_goals = [milestone.goal for milestone in milestones if not milestone.goal.holds(world)]
    return call.app in map(owner, open_goals) if open_goals else call.app == owner(ending.goals[0])


def _waits(call: Call) -> bool:
    return call.tool == "ticketdesk.wait"


def owner(goal: Goal) -> str:
    """Return the app whose records decide whether a goal holds: the app of the first table that the goal names."""
    return goal.tables[0].__module__.rpartition(".")[2]


# -- faults ------------------------------------------------------------------------------------------------------------


def _faults(env: CompanyEnv) -> tuple[int, int]:
    """Count the targets at which a call got no answer, and those among them that answered a later call.

    In a success, all targets count as answered, whatever way the agent took around them.
    """
    answered_later: dict[tuple[str, str], bool] = {}  # by target
    for turn in env.turns:
        target = (turn.call.tool, str(sorted(turn.call.params.items())))
        if turn.reply.code == NO_ANSWER:
            answered_later[target] = False
        elif target in answered_later:
            answered_later[target] = True
    return len(answered_later), len(answered_later) if env.success else sum(answered_later.values())


# -- who decided -------------------------------------------------------------------------------------------------------


def _decider(world: World, ticket: Ticket, actor: str) -> str:
    """Return the offices that approved the actor's requests on the ticket, whichever person held the office that day."""
    approved = [
        request
        for request in world.all(Approval)
        if request.status == "approved" and request.requester == actor and request.ticket_id == ticket.id
    ]
    return " + ".join(sorted({f"{request.type}: {_office(world, ticket, request)}" for request in approved})) or DESK


def _office(world: World, ticket: Ticket, request: Approval) -> str:
    """Return the lowest office on the form that may sign for the amount. No other office's signature is accepted."""
    form, requester = world.get(ApprovalType, request.type), world.get(Person, ticket.requester)
    amount = ticket.amount if "amount" in form.same_as_ticket else request.data.get("amount")
    # A form names its offices with placeholders, for example "{department} Lead"; the lowest office comes first.
    offices = [office.format_map({**request.data, "department": requester.department}) for office in form.offices]
    limits = {person.role: person.limit or 0 for person in world.all(Person)}
    return next((name for name in offices if not isinstance(amount, int | float) or limits[name] >= amount), offices[-1])
