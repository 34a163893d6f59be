"""What the blame section of the page shows: why each agent failed, and what it had been shown by then."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from companyos.evaluate.judge.blame import ACT, DAMAGE, RAISED, TIME, Blame, summarise_blames
from companyos.evaluate.judge.habits import habits
from companyos.evaluate.reports.report import Report, ReportedRun
from companyos.families import family
from companyos.families.kit.missed import in_words

_MAX_ROWS = 8  # of a table of bars
# How an episode was decided. Blind: every reply until then was the same as on a twin that must end differently.
BLIND, SAW, OTHER = "wrong, and blind", "wrong, though shown the facts", "wrong for another reason"
TOO_LATE, AGENT_RAISED = "not at all: time ran out", "not at all: the agent raised"
LUCKY, RIGHT = "right by luck", "right"
DECISIONS = (BLIND, SAW, OTHER, TOO_LATE, AGENT_RAISED, LUCKY, RIGHT)
_LOST = {
    ACT: "an act that cannot be undone",
    DAMAGE: "damage that cannot be repaired",
    TIME: "lack of time",
    RAISED: "an exception of the agent",
}


class Bars(NamedTuple):
    """A table of bars: name, count, and length in percent of the longest. `more` rows are left out."""

    title: str
    rows: list[tuple[str, int, str]]
    more: int


class RunBlame(NamedTuple):
    """Why the agent of one run failed."""

    about: str  # how many episodes were examined
    bars: list[Bars]


class BlamePanel(NamedTuple):
    """How the examined episodes of each run were decided, and why each agent failed."""

    decided: list[tuple[str, list[str]]]  # how an episode was decided, and how many of each run were
    runs: list[RunBlame]


def blame_panel(report: Report) -> BlamePanel:
    """Count how the examined episodes of all runs were decided."""
    columns = [Counter(_decided(examined.blame) for examined in run.examined) for run in report.runs]
    shown = [decision for decision in DECISIONS if decision != AGENT_RAISED or any(column[decision] for column in columns)]
    rows = [(decision, [f"{column[decision]:,}" for column in columns]) for decision in shown]
    rows.append(("examined", [f"{column.total():,}" for column in columns]))
    return BlamePanel(rows, [_run_blame(run) for run in report.runs])


def _decided(blame: Blame) -> str:
    """Return how an episode was decided: one of `DECISIONS`."""
    if blame.success:
        return LUCKY if blame.luck else RIGHT
    if blame.kind == TIME:
        return TOO_LATE
    if blame.kind == RAISED:
        return AGENT_RAISED
    if blame.blind:
        return BLIND
    return SAW if blame.misjudged else OTHER


def _run_blame(reported: ReportedRun) -> RunBlame:
    blames = [examined.blame for examined in reported.examined]
    summary = summarise_blames(blames)
    won = sum(outcome.success for outcome in reported.run.outcomes)
    failed = len(reported.run.outcomes) - won
    about = (
        f"Examined {summary.episodes - summary.successes:,} of {failed:,} failures and {summary.successes:,} of {won:,} "
        "successes, evenly from every family."
    )
    tables = {
        "Decisive mistake": {habit.habit: habit.count for habit in habits(blames)},
        "Lost by": {_LOST[kind]: count for kind, count in summary.kinds.items()},
        "Decisive call": summary.tools,
        "In the app": summary.apps,
        "Blind to": _facts_in_words(summary.blind),
        "Saw and misjudged": _facts_in_words(summary.misjudged),
    }
    return RunBlame(about, [_bars(title, counts) for title, counts in tables.items() if counts])


def _facts_in_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Replace names of facts, such as `vendor_onboarding.conflict`, by the family and the meaning of the fact."""
    in_text = {}
    for name, count in counts.items():
        family_name, _, fact = name.partition(".")
        meaning = next(cause.meaning for cause in family(family_name).specs() if cause.name == fact)
        in_text[f"{in_words(family_name)}: {meaning or in_words(fact)}"] = count
    return in_text


def _bars(title: str, counts: Mapping[str, int]) -> Bars:
    longest = max(counts.values())
    rows = [(name, count, f"{100 * count / longest:.0f}") for name, count in list(counts.items())[:_MAX_ROWS]]
    return Bars(title, rows, max(0, len(counts) - _MAX_ROWS))
