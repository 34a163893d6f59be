"""Blame: at which call an episode was lost, whether by an act, by damage or for lack of time, and what was not looked at.

The decisive call is the one after the last state from which the family's expert, taking over, still wins. That is exact
relative to the expert, who wins wherever anybody can (see `tests/laws/test_takeover.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from companyos.assurance.replay import states
from companyos.assurance.twins import opposites
from companyos.company import Ticket
from companyos.core.calls import NO_ANSWER
from companyos.core.episode import Transcript, Turn
from companyos.core.errors import Stuck
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, work
from companyos.env.line_syntax import write_line
from companyos.env.teacher import Due, Teacher
from companyos.evaluate.judge.outcome import episode_of, struck

ACT, DAMAGE, TIME, NOTHING = "act", "damage", "time", "nothing"
_KINDS = {"irreversible": ACT, "damage": DAMAGE}  # by what `lost()` says after the decisive call


class Blame(msgspec.Struct, frozen=True):
    """What an episode failed on. Steps are counted from 1; 0 stands for none."""

    task_id: str
    success: bool
    kind: str  # act: the ticket was closed wrongly; damage: done for good; time; nothing: it succeeded, or is not over
    step: int  # the decisive call: the one after which no budget would have helped, or, for time, nothing left did
    tool: str  # of that call
    late: int  # from this call on the steps left were too few, whatever came later
    missed: tuple[str, ...]  # goals
    damage: tuple[str, ...]  # record and field
    blind: tuple[str, ...]  # facts that decide the ending and of which nothing had been shown before the act
    misjudged: tuple[str, ...]  # facts that had been shown, and the ticket was closed as if they were otherwise
    struck: tuple[str, ...]  # the dials that brought trouble
    due: str = ""  # what the teacher would have done instead of the decisive call, as a line
    working: tuple[str, ...] = ()  # the comparisons that lead to it

    @property
    def luck(self) -> bool:
        """A success that would have come to the same act had one of those facts been otherwise: it did not look."""
        return self.success and bool(self.blind)


def blame(transcript: Transcript) -> Blame:
    """Plays an episode again and finds where it was lost, and to which facts it was blind."""
    stages = [state.fork() for state in states(transcript, episode_of(transcript, "sparse"))]
    env = stages[-1]
    task, verdict, turns = TaskId.parse(env.task_id), env.verdict, env.turns
    kind, step, late = (NOTHING, 0, 0) if env.success or not env.done else _decisive(stages)
    due = Teacher(stages[step - 1]).due() if step else Due()
    facts = _facts(env, step if kind in (ACT, DAMAGE) else len(turns))
    return Blame(
        task_id=str(task),
        success=bool(env.success),
        kind=kind,
        step=step,
        tool=turns[step - 1].call.tool if step else "",
        late=late,
        missed=tuple(name for name, holds in verdict.goals.items() if not holds) if verdict else (),
        damage=tuple(f"{harm.record} {harm.field}" for harm in verdict.damage) if verdict else (),
        blind=tuple(fact.cause for fact in facts if fact.blind),
        misjudged=tuple(fact.cause for fact in facts if fact.taken and not fact.blind),
        struck=struck(env.setting, task.family, sum(turn.reply.code == NO_ANSWER for turn in turns)),
        due=write_line(due.call) if due.call is not None else "",
        working=due.working,
    )


# -- when it was lost --------------------------------------------------------------------------------------------------


def _decisive(stages: Sequence[CompanyEnv]) -> tuple[str, int, int]:
    """Kind and number of the decisive call, and of the one from which on it was too late.

    Whether it can be won may come and go (an answer that is awaited, damage that is put back), so the search goes back
    from the end, state by state; `lost()` spares the expert where nobody can win.
    """
    end = len(stages) - 1
    last = next((number for number in range(end, 0, -1) if _can_be_won(stages[number].fresh_budget())), 0)
    # On the first morning it can be won: that is what `prove` shows of every task.
    in_time = next((number for number in range(min(last, end - 1), 0, -1) if _can_be_won(stages[number].fork())), 0)
    if last == end:
        return TIME, in_time + 1, in_time + 1
    lost = stages[last + 1].lost()
    if lost is None:
        raise RuntimeError(f"{stages[0].task_id}: the expert cannot go on after call {last + 1}, though nothing is lost")
    return _KINDS[lost], last + 1, in_time + 1


def _can_be_won(env: CompanyEnv) -> bool:
    if env.lost() is not None or env.done:
        return False
    try:
        work(env)
    except Stuck:
        return False
    return bool(env.success)


# -- what was not seen -------------------------------------------------------------------------------------------------


class Fact(msgspec.Struct, frozen=True):
    """A fact on which the ending hangs, and what the agent made of it."""

    cause: str
    blind: bool  # it was shown the same, byte for byte, as on a twin that has it otherwise
    taken: bool  # it closed the ticket as would have been right there


def _facts(env: CompanyEnv, act: int) -> list[Fact]:
    """The facts that decide the ending, after the same calls were made on every twin that has another, up to the act."""
    ticket = env.world.get(Ticket, env.setting.case.ticket_id)
    found: dict[str, Fact] = {}
    for cause, other in opposites(env.task_id):
        twin = CompanyEnv(TaskId.parse(other), "sparse")
        right = twin.setting.ending
        taken = (right.resolution, right.reason) == (ticket.resolution, ticket.reason) and not env.success
        blind = _shows_the_same(twin, env.turns[: act - 1])
        known = found.get(cause, Fact(cause, False, False))
        found[cause] = Fact(cause, known.blind or blind, known.taken or taken)
    return list(found.values())


def _shows_the_same(twin: CompanyEnv, turns: Sequence[Turn]) -> bool:
    for turn in turns:
        twin.step(turn.action[0] if turn.action else turn.call)
        heard = twin.turns[-1]
        if heard.now != turn.now or msgspec.json.encode(heard.reply) != msgspec.json.encode(turn.reply):
            return False
    return True


# -- of many episodes --------------------------------------------------------------------------------------------------


class Sheet(msgspec.Struct, frozen=True):
    """Many episodes: what they were lost by, and at which calls, apps, dials and facts. Most frequent first."""

    episodes: int
    successes: int
    luck: int  # of the successes, those that had not looked
    late: int  # of the failures by act or damage, those for which it was too late already
    kinds: dict[str, int]
    tools: dict[str, int]  # of the decisive calls
    apps: dict[str, int]
    dials: dict[str, tuple[int, int]]  # failed, of those that it struck
    blind: dict[str, int]  # family.fact: decisive acts by those who had not been shown it
    misjudged: dict[str, int]  # family.fact: closed as if it were otherwise by those who had been shown it


def sheet(blames: Iterable[Blame]) -> Sheet:
    """Adds up."""
    every = list(blames)
    failed = [one for one in every if one.kind != NOTHING]
    acted = [one for one in failed if one.kind in (ACT, DAMAGE)]
    hit = Counter(dial for one in every for dial in one.struck)
    broken = Counter(dial for one in failed for dial in one.struck)
    return Sheet(
        episodes=len(every),
        successes=sum(one.success for one in every),
        luck=sum(one.luck for one in every),
        late=sum(one.late < one.step for one in acted),
        kinds=_most_first(one.kind for one in failed),
        tools=_most_first(one.tool for one in failed),
        apps=_most_first(one.tool.partition(".")[0] for one in failed),
        dials={dial: (broken[dial], count) for dial, count in sorted(hit.items(), key=lambda d: (-broken[d[0]], d[0]))},
        blind=_most_first(f"{_family(one)}.{fact}" for one in acted for fact in one.blind),
        misjudged=_most_first(f"{_family(one)}.{fact}" for one in acted for fact in one.misjudged),
    )


def _family(one: Blame) -> str:
    return TaskId.parse(one.task_id).family


def _most_first(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda count: (-count[1], count[0])))
