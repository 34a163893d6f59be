"""The story of an episode: everything that its explanation in sentences needs, worked out from its replay."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from companyos.company import Approval, Comment, Person, Ticket
from companyos.company.people import away
from companyos.core.calls import NO_ANSWER, Call
from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.core.world import World, stamp
from companyos.env import CompanyEnv
from companyos.env.line_syntax import write_line
from companyos.env.teacher import Due, Teacher
from companyos.evaluate.judge.clauses import Clause, clause_for
from companyos.evaluate.judge.deciding import FactInWords
from companyos.evaluate.judge.outcome import INVALID
from companyos.families.kit.family import Ending
from companyos.families.kit.goals import Damage, damage
from companyos.families.kit.missed import ending_in_words, in_words, missed, missed_goal, with_article

WAITING, REPEATING, INVALID_CALLS, REFUSED, UNANSWERED = "waiting", "repeating", "invalid", "refused", "unanswered"
_POLLS = frozenset({"wait", "check_status", "list_approvals", "read_inbox"})


class ExpertPlan(msgspec.Struct, frozen=True):
    """What the expert would have done instead of the decisive call, until the task was solved."""

    call: str = ""  # its next call, as a line
    working: tuple[str, ...] = ()  # the comparisons that lead to that call
    # The first call that reads what the agent had not read; else the first that writes or has working lines. Empty if that
    # is the next call or the last one.
    reasoned_call: str = ""
    reasoned_working: tuple[str, ...] = ()
    reasoned_number: int = 0  # its number in the plan, counted from 1
    calls: int = 0  # the number of all calls
    last_call: str = ""
    last_working: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """The most frequent refusal of an episode."""

    text: str  # code and message
    count: int


class Harm(msgspec.Struct, frozen=True):
    """An unwanted change, in words. `kind` is `request`, `comment` or `field`."""

    kind: str
    text: str


class PendingRequest(msgspec.Struct, frozen=True):
    """A request that nobody has decided. `away_until` is empty if its approver is present."""

    request_id: str
    approver: str
    away_until: str = ""


class Story(msgspec.Struct, frozen=True):
    """How an episode ended, and how it should have. `ticket_id` is the ticket that the decisive call was about."""

    ticket_id: str
    closed: str  # resolution and reason in words; empty if the ticket was not closed
    required: str
    steps: int
    max_steps: int
    clause: Clause | None
    missed: tuple[str, ...]  # what should have been and what was instead, except the ending of `ticket_id`
    harm: tuple[Harm, ...]  # unwanted changes at the end
    lasting_harm: tuple[Harm, ...] = ()  # after the decisive call: unwanted changes that cannot be undone
    facts: tuple[FactInWords, ...] = ()  # the deciding facts that explain the failure best
    call: str = ""  # the decisive call as a line, or the action as it was sent
    plan: ExpertPlan = ExpertPlan()
    spent: Mapping[str, int] = {}  # how many calls went into waiting, repeating, invalid calls and so on
    refusal: Refusal | None = None
    pending: tuple[PendingRequest, ...] = ()

    @property
    def ending_is_right(self) -> bool:
        return self.closed == self.required


def tell_story(states: Sequence[CompanyEnv], step: int, facts: tuple[FactInWords, ...]) -> Story:
    """Return the story of a replayed episode. `step` is the number of the decisive call; 0 if there is none."""
    env = states[-1]
    turns, world, setting = env.turns, env.world, env.setting
    ticket_id, ending = _subject(env, turns[step - 1] if step else None)
    ticket = world.get(Ticket, ticket_id)
    own = ticket_id == setting.case.ticket_id
    families = (ticket.kind, TaskId.parse(env.task_id).family)
    closed = ending_in_words(ticket.resolution, ticket.reason) if ticket.resolution else ""
    required = ending_in_words(ending.resolution, ending.reason)
    unread = {record for fact in facts for record in fact.unread} if own and closed not in ("", required) else set()
    return Story(
        ticket_id=ticket_id,
        closed=closed,
        required=required,
        steps=env.step_count,
        max_steps=env.max_steps,
        clause=clause_for(setting.world, families, ending.resolution, ending.reason),
        missed=_missed_in_words(env, None if own else ending),
        harm=tuple(_harm_in_words(world, harm) for harm in env.verdict.damage) if env.verdict else (),
        lasting_harm=_lasting_harm(states[step]) if step else (),
        facts=facts if own else (),
        call=_sent(turns[step - 1]) if step else "",
        plan=_plan(states[step - 1], unread) if step else ExpertPlan(),
        spent=_spent(turns),
        refusal=_refusal(turns),
        pending=_pending(env),
    )


def _subject(env: CompanyEnv, decisive: Turn | None) -> tuple[str, Ending]:
    """Return the ticket that the decisive call closed and its right ending: a linked ticket, or the task's own."""
    closed = decisive.call.params.get("ticket_id") if decisive and decisive.call.method == "resolve_ticket" else None
    linked = env.setting.linked.get(closed) if isinstance(closed, str) else None
    if linked is not None:
        return linked.ticket_id, linked.ending
    return env.setting.case.ticket_id, env.setting.ending


def _missed_in_words(env: CompanyEnv, linked: Ending | None) -> tuple[str, ...]:
    """Return the missed goals in words, except the ending itself. For a linked ticket, only its own goals."""
    if env.verdict is None:
        return ()
    if linked is not None:
        return tuple(missed_goal(goal, env.world) for goal in linked.goals[1:] if not goal.holds(env.world))
    ending = env.setting.ending
    names = [name for name, holds in env.verdict.goals.items() if not holds and name != ending.goals[0].name]
    return tuple(missed(ending, name, env.world) for name in names)


def _harm_in_words(world: World, harm: Damage) -> Harm:
    record = world.lookup(harm.record)
    if isinstance(record, Approval):
        form = with_article(in_words(record.type))
        return Harm("request", f"{record.id}, {form} request to {record.approver}, is {record.status}")
    if isinstance(record, Comment):
        return Harm("comment", f"a comment was written on {record.ticket_id}")
    return Harm("field", f"{harm.record}'s {in_words(harm.field)} was set to {getattr(record, harm.field) or 'empty'}")


def _lasting_harm(env: CompanyEnv) -> tuple[Harm, ...]:
    harms = damage(env.world, env.setting.case.actor, env.setting.needed_changes)
    return tuple(_harm_in_words(env.world, harm) for harm in harms if not harm.can_be_put_back)


def _sent(turn: Turn) -> str:
    return msgspec.json.encode(turn.action[0]).decode() if turn.action else write_line(turn.call)


def _plan(env: CompanyEnv, unread: Collection[str]) -> ExpertPlan:
    plan = Teacher(env).plan()
    if not plan:
        return ExpertPlan()
    next_call, last_call = plan[0], plan[-1]
    number = _reasoned_number(env, plan, unread)
    reasoned = plan[number - 1]
    return ExpertPlan(
        call=_line(next_call),
        working=next_call.working,
        reasoned_call=_line(reasoned) if number > 1 else "",
        reasoned_working=reasoned.working if number > 1 else (),
        reasoned_number=number if number > 1 else 0,
        calls=len(plan),
        last_call=_line(last_call),
        last_working=last_call.working,
    )


def _reasoned_number(env: CompanyEnv, plan: Sequence[Due], unread: Collection[str]) -> int:
    """Return the number of the call in a plan that explains most; 1 if only the last call explains anything."""
    before_the_last = list(enumerate(plan[:-1], 1))
    own_ticket = env.setting.case.ticket_id  # most calls name it, but only one reads it
    for number, due in before_the_last:
        call = _call(due)
        named = {value for value in call.params.values() if isinstance(value, str)}
        if named.intersection(unread) - ({own_ticket} if call.method != "get_ticket" else set()):
            return number
    for number, due in before_the_last:
        tool = env.toolbox.find(_call(due))
        if due.working or (tool is not None and tool.writes):
            return number
    return 1


def _call(due: Due) -> Call:
    assert due.call is not None
    return due.call


def _line(due: Due) -> str:
    return write_line(_call(due))


def _spent(turns: Sequence[Turn]) -> dict[str, int]:
    """Count the calls that did not advance the work, by kind; the most frequent kind first."""
    counts: Counter[str] = Counter()
    replies: dict[bytes, bytes] = {}
    for turn in turns:
        key, reply = msgspec.json.encode(turn.call, order="deterministic"), msgspec.json.encode(turn.reply)
        if turn.reply.code in INVALID:
            counts[INVALID_CALLS] += 1
        elif turn.reply.code == NO_ANSWER:
            counts[UNANSWERED] += 1
        elif turn.call.method in _POLLS:
            counts[WAITING] += 1
        elif _was_refused(turn):
            counts[REFUSED] += 1
        elif replies.get(key) == reply:
            counts[REPEATING] += 1
        replies[key] = reply
    return dict(counts.most_common())


def _was_refused(turn: Turn) -> bool:
    """Return whether a rule of the company refused a call that was not made to look for news."""
    reply = turn.reply
    return not reply.ok and reply.code not in (*INVALID, NO_ANSWER) and turn.call.method not in _POLLS


def _refusal(turns: Sequence[Turn]) -> Refusal | None:
    """Return the most frequent refusal; the earliest of those that are equally frequent."""
    texts = Counter(f"{turn.reply.code}: {turn.reply.message}" for turn in turns if _was_refused(turn))
    return Refusal(*texts.most_common(1)[0]) if texts else None


def _pending(env: CompanyEnv) -> tuple[PendingRequest, ...]:
    """Return the requests of the actor that nobody has decided."""
    world = env.world
    requests = [a for a in world.all(Approval) if a.requester == env.setting.case.actor and a.status == "pending"]
    return tuple(PendingRequest(request.id, request.approver, _away_until(world, request.approver)) for request in requests)


def _away_until(world: World, handle: str) -> str:
    person = world.get(Person, handle)
    return stamp(person.away_until or 0) if away(person, world.now) else ""
