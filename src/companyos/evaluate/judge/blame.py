"""Blame: finds the call at which an episode was lost, the kind of loss, and the deciding facts that were not looked at.

The decisive call is the one after the last state from which the family's expert, taking over, still wins. This is exact,
because the expert wins from every state that can be won (`tests/laws/test_takeover.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from companyos.assurance.replay import ReplayedEpisode
from companyos.core.calls import NO_ANSWER
from companyos.core.episode import Transcript
from companyos.core.errors import Stuck
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, run_expert
from companyos.evaluate.judge.deciding import deciding_facts, told_facts
from companyos.evaluate.judge.outcome import damage_of, replay_alone, struck
from companyos.evaluate.judge.story import Story, tell_story

ACT, DAMAGE, TIME, RAISED, NOTHING = "act", "damage", "time", "raised", "nothing"
_KINDS = {"irreversible": ACT, "damage": DAMAGE}  # by what `lost()` returns after the decisive call


class Blame(msgspec.Struct, frozen=True):
    """Why an episode failed. Steps are counted from 1; 0 means none."""

    task_id: str
    success: bool
    kind: str  # act: a wrong, final act; damage: not repairable; time: out of steps; raised; nothing: a success, or not over
    step: int  # the decisive call; for kind `time`, the call after which the steps left were too few
    tool: str  # the tool of the decisive call
    late: int  # the call after which the steps left were too few, whatever happened later
    missed: tuple[str, ...]  # the goals that do not hold
    damage: tuple[str, ...]  # record and field of each unwanted change
    blind: tuple[str, ...]  # facts that decide the ending and that no reply had shown before the decisive act
    misjudged: tuple[str, ...]  # facts that a reply had shown, but the agent acted as if they were otherwise
    struck: tuple[str, ...]  # the chaos dials that caused trouble
    due: str = ""  # what the teacher (the expert, resuming here) would have called instead, as a line
    working: tuple[str, ...] = ()  # the comparisons by which the teacher arrives at that call
    story: Story | None = None  # what `blame_text` tells a reader
    raised: str = ""  # for kind `raised`: the exception with which the agent left the episode

    @property
    def luck(self) -> bool:
        """Whether a success was blind: the agent would have acted the same if a deciding fact had been otherwise."""
        return self.success and bool(self.blind)


def blame(episode: Transcript | ReplayedEpisode, raised: str = "") -> Blame:
    """Find the call at which an episode was lost, and the deciding facts that its agent had not been shown.

    `raised` is the exception with which the agent left the episode, if it did.
    """
    replayed = replay_alone(episode)
    states, env = replayed.states, replayed.end
    task, verdict, turns = TaskId.parse(env.task_id), env.verdict, env.turns
    not_over = RAISED if raised else NOTHING
    kind, step, late = (not_over, 0, 0) if env.success or not env.done else _decisive(states)
    act = step if kind in (ACT, DAMAGE) else len(turns)
    facts = deciding_facts(env, act)
    story = tell_story(states, step, told_facts(env, facts, act))
    return Blame(
        task_id=str(task),
        success=bool(env.success),
        kind=kind,
        step=step,
        tool=turns[step - 1].call.tool if step else "",
        late=late,
        missed=tuple(name for name, holds in verdict.goals.items() if not holds) if verdict else (),
        damage=damage_of(env),
        blind=tuple(fact.cause for fact in facts if fact.blind),
        misjudged=tuple(fact.cause for fact in facts if fact.assumed_otherwise and not fact.blind),
        struck=struck(env.setting, task.family, sum(turn.reply.code == NO_ANSWER for turn in turns)),
        due=story.plan.call,
        working=story.plan.working,
        story=story,
        raised=raised,
    )


# -- when it was lost --------------------------------------------------------------------------------------------------


def _decisive(states: Sequence[CompanyEnv]) -> tuple[str, int, int]:
    """Return the kind and number of the decisive call, and the number of the call after which it was too late.

    A state can become winnable again (an awaited answer arrives, damage is repaired), so the search goes backwards from
    the end, state by state. Where `lost()` says that nobody can win, the expert is not run.
    """
    end = len(states) - 1
    last = next((number for number in range(end, 0, -1) if _can_be_won(states[number].fresh_budget())), 0)
    # State 0, the start, needs no check: `prove` shows that every task can be won.
    in_time = next((number for number in range(min(last, end - 1), 0, -1) if _can_be_won(states[number].fork())), 0)
    if last == end:
        return TIME, in_time + 1, in_time + 1
    lost = states[last + 1].lost()
    if lost is None:
        raise RuntimeError(f"{states[0].task_id}: the expert cannot go on after call {last + 1}, though nothing is lost")
    return _KINDS[lost], last + 1, in_time + 1


def decisive_call(episode: Transcript | ReplayedEpisode) -> int:
    """Return the number of the call that lost a failed episode, counted from 1. Blames the last call if it is not over."""
    _, step, _ = _decisive(replay_alone(episode).states)
    return step


def _can_be_won(env: CompanyEnv) -> bool:
    """Return whether the expert wins from here. It plays on in `env`, so pass a fork."""
    if env.lost() is not None or env.done:
        return False
    try:
        run_expert(env)
    except Stuck:
        return False
    return bool(env.success)


# -- many episodes -----------------------------------------------------------------------------------------------------


class BlameSummary(msgspec.Struct, frozen=True):
    """How many episodes were lost, by kind, tool, app, dial and fact. Every table has the most frequent entry first."""

    episodes: int
    successes: int
    luck: int  # successes that were blind
    late: int  # failures by act or damage in which the steps left were too few already
    kinds: dict[str, int]
    tools: dict[str, int]  # of the decisive calls
    apps: dict[str, int]
    dials: dict[str, tuple[int, int]]  # failed episodes, and all episodes in which the dial caused trouble
    blind: dict[str, int]  # family.fact: decisive acts before which no reply had shown the fact
    misjudged: dict[str, int]  # family.fact: decisive acts as if the fact were otherwise, though a reply had shown it


def summarise_blames(blames: Iterable[Blame]) -> BlameSummary:
    """Count the blames of many episodes."""
    all_blames = list(blames)
    failed = [blame for blame in all_blames if blame.kind != NOTHING]
    acted = [blame for blame in failed if blame.kind in (ACT, DAMAGE)]
    episodes_by_dial = Counter(dial for blame in all_blames for dial in blame.struck)
    failures_by_dial = Counter(dial for blame in failed for dial in blame.struck)
    dials = sorted(episodes_by_dial, key=lambda dial: (-failures_by_dial[dial], dial))
    return BlameSummary(
        episodes=len(all_blames),
        successes=sum(blame.success for blame in all_blames),
        luck=sum(blame.luck for blame in all_blames),
        late=sum(blame.late < blame.step for blame in acted),
        kinds=_by_frequency(blame.kind for blame in failed),
        tools=_by_frequency(blame.tool for blame in failed if blame.step),
        apps=_by_frequency(blame.tool.partition(".")[0] for blame in failed if blame.step),
        dials={dial: (failures_by_dial[dial], episodes_by_dial[dial]) for dial in dials},
        blind=_by_frequency(f"{_family(blame)}.{fact}" for blame in acted for fact in blame.blind),
        misjudged=_by_frequency(f"{_family(blame)}.{fact}" for blame in acted for fact in blame.misjudged),
    )


def _family(blame: Blame) -> str:
    return TaskId.parse(blame.task_id).family


def _by_frequency(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs, the most frequent first."""
    counts = Counter(names)
    return {name: counts[name] for name in sorted(counts, key=lambda name: (-counts[name], name))}
