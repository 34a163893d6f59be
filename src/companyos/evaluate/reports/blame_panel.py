"""What the blame section of the page shows: why each agent failed, and what it had been shown by then."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from companyos.evaluate.judge.blame import ACT, DAMAGE, TIME, Blame, summarise_blames
from companyos.evaluate.reports.report import Report, ReportedRun

_MOST = 8  # rows of a table of bars
BLIND, SAW, OTHER = "wrong, and blind", "wrong, though shown the facts", "wrong for another reason"
TOO_LATE, LUCKY, RIGHT = "not at all: time ran out", "right by luck", "right"
WAYS_TO_DECIDE = (BLIND, SAW, OTHER, TOO_LATE, LUCKY, RIGHT)
_LOST = {ACT: "an act that cannot be undone", DAMAGE: "damage that cannot be repaired", TIME: "lack of time"}


class Bars(NamedTuple):
    """A table of bars: name, count, and length in percent of the longest. `more` rows are left out."""

    title: str
    rows: list[tuple[str, int, str]]
    more: int


class RunBlame(NamedTuple):
    """Why the agent of one run failed."""

    about: str
    bars: list[Bars]


class BlamePanel(NamedTuple):
    """How the examined episodes of each run were decided, and why each agent failed."""

    decided: list[tuple[str, list[str]]]
    runs: list[RunBlame]


def blame_panel(report: Report) -> BlamePanel:
    columns = [Counter(_decided(one.blame) for one in run.examined) for run in report.runs]
    rows = [(way, [f"{column[way]:,}" for column in columns]) for way in WAYS_TO_DECIDE]
    rows.append(("examined", [f"{column.total():,}" for column in columns]))
    return BlamePanel(rows, [_run_blame(run) for run in report.runs])


def _decided(blame: Blame) -> str:
    if blame.success:
        return LUCKY if blame.luck else RIGHT
    if blame.kind == TIME:
        return TOO_LATE
    if blame.blind:
        return BLIND
    return SAW if blame.misjudged else OTHER


def _run_blame(reported: ReportedRun) -> RunBlame:
    summary = summarise_blames(one.blame for one in reported.examined)
    won = sum(one.success for one in reported.run.outcomes)
    failed = len(reported.run.outcomes) - won
    about = (
        f"Examined {summary.episodes - summary.successes:,} of {failed:,} failures and {summary.successes:,} of {won:,} "
        "successes, evenly from every family."
    )
    tables = {
        "Lost by": {_LOST[kind]: count for kind, count in summary.kinds.items()},
        "Decisive call": summary.tools,
        "In the app": summary.apps,
        "Blind to": summary.blind,
        "Saw and misjudged": summary.misjudged,
    }
    return RunBlame(about, [_bars(title, counts) for title, counts in tables.items() if counts])


def _bars(title: str, counts: Mapping[str, int]) -> Bars:
    most = max(counts.values())
    rows = [(name, count, f"{100 * count / most:.0f}") for name, count in list(counts.items())[:_MOST]]
    return Bars(title, rows, max(0, len(counts) - _MOST))
