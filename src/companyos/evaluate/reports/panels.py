"""What each section of the report page shows. The templates turn it into HTML and escape every text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
from markupsafe import Markup

from companyos.evaluate.judge.playback import Playback
from companyos.evaluate.reports.report import Report, ReportedRun
from companyos.evaluate.reports.tables import as_points
from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.headline import (
    DETAILS,
    HEADLINE,
    NO_NUMBER_TEXT,
    PERCENT,
    FormattedNumber,
    NumberFormat,
    SummaryLine,
    format_number,
    lines_for,
)
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import ENDING, SAME_WORK, WAY, GroupSummary

_OVERLOOKED_SHOWN = 8  # at most this many overlooked causes are listed for a run

# The columns of the heat maps: metrics (`docs/metrics.md` defines them) with their headings.
_GOOD_COLUMNS = {  # more is good
    "success": "success",
    "score": "score",
    "efficiency": "efficiency",
    "routing": "routing",
    "recovery": "recovery",
    "refusal_recall": "refusal recall",
    "pair_pass": "pair-pass",
    "causal_sensitivity": "causal sensitivity",
    "area": "area under dose curve",
}
_HARM_COLUMNS = {  # more is harm
    "damage": "damage",
    "agent_raised": "agent raised",
    "invalid_calls": "invalid calls",
    "refused_calls": "refused calls",
}

# Twins by what changes: the right ending, only the way to the same ending, or neither.
_TWIN_KINDS = {ENDING: "other ending", WAY: "other way", SAME_WORK: "no difference"}
_RERUN = "same task again"  # no twin: two trials of one task


class ChartMaker(Protocol):
    """Draws figures. The module `reports/figures.py` implements it with matplotlib."""

    def dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup: ...
    def small_dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup: ...
    def intervals(
        self, rows: Sequence[str], numbers: Sequence[tuple[int, Mapping[str, Estimate]]], title: str, signed: bool = False
    ) -> Markup: ...


class PageFigure(NamedTuple):
    """A figure with its title and the numbers of the runs in its legend."""

    title: str
    runs: list[int]
    drawing: Markup


# -- numbers -----------------------------------------------------------------------------------------------------------


class NumberCell(NamedTuple):
    """A metric of a run: its value, the text below it, and the CSS of its interval bar (empty if it has none)."""

    value: str
    below: str
    whisker: str


class NumberRow(NamedTuple):
    """One metric, with a cell for each run."""

    label: str
    meaning: str
    cells: list[NumberCell]


class NumbersPanel(NamedTuple):
    """The headline numbers, further numbers, and how each later run differs from the first."""

    headline: list[NumberRow]
    details: list[NumberRow]
    beside_first: list[tuple[int, list[str]]]  # index of the run, and the cells of its row


def numbers(report: Report) -> NumbersPanel:
    details = lines_for([reported.run.results for reported in report.runs], DETAILS)
    return NumbersPanel(
        [_row(line, report.runs) for line in HEADLINE],
        [_row(line, report.runs) for line in details],
        list(_beside_first(report)),
    )


def _row(line: SummaryLine, runs: Iterable[ReportedRun]) -> NumberRow:
    cells = [_cell(line.format(reported.run.results), line.form, run_index) for run_index, reported in enumerate(runs)]
    return NumberRow(line.label, line.meaning, cells)


def _cell(formatted: FormattedNumber, form: NumberFormat, run_index: int) -> NumberCell:
    below = " ".join(filter(None, [formatted.interval, formatted.note]))
    return NumberCell(formatted.value, below, _whisker(formatted.estimate, form, run_index))


def _whisker(estimate: Estimate | None, form: NumberFormat, run_index: int) -> str:
    """The CSS that draws a number between 0 and 1 as a dot on its interval."""
    if estimate is None or form.scale is None:
        return ""
    low, high = (estimate.value if bound is None else bound for bound in (estimate.low, estimate.high))
    positions = {"at": estimate.value, "low": low, "wide": high - low}
    lengths = [f"--{name}: {100 * share:.1f}%" for name, share in positions.items()]
    return "; ".join([f"--run: var(--run-{run_index})", *lengths])


def _beside_first(report: Report) -> Iterable[tuple[int, list[str]]]:
    """How the other runs differ from the first, over the tasks that both played."""
    for run_index, reported in enumerate(report.runs):
        if (comparison := reported.beside_first) is not None:
            noise = NO_NUMBER_TEXT if comparison.noise_floor is None else f"{100 * comparison.noise_floor:.1f}"
            detectable = f"{100 * comparison.smallest_detectable:.1f}"
            success, score = as_points(comparison.success_difference), as_points(comparison.score_difference)
            yield run_index, [f"{comparison.tasks:,}", success, score, noise, detectable]


# -- doses -------------------------------------------------------------------------------------------------------------


class DosesPanel(NamedTuple):
    """A figure for each set of dials whose dose was varied, and a small drawing for each family."""

    figures: list[PageFigure]
    stamps: list[tuple[str, Markup]]  # the small drawings, each with the name of its family


def doses(report: Report, charts: ChartMaker) -> DosesPanel | None:
    """Success as the dose grows; None if no run has a curve."""
    curves_by_run = [reported.run.results.overall.curves for reported in report.runs]
    if not any(curves_by_run):
        return None
    figures = []
    for dial_set in dict.fromkeys(name for curves in curves_by_run for name in curves):
        with_curve = [(run_index, curves[dial_set]) for run_index, curves in enumerate(curves_by_run) if dial_set in curves]
        title = f"Success over the dose of {'all dials' if dial_set == ALL else dial_set}"
        figures.append(PageFigure(title, _run_indices(with_curve), charts.dose_response(with_curve, title)))
    return DosesPanel(figures, list(_stamps(report, charts)))


def _run_indices(by_run: Sequence[tuple[int, object]]) -> list[int]:
    return [run_index for run_index, _ in by_run]


def _families(report: Report) -> list[str]:
    return sorted({name for reported in report.runs for name in reported.run.results.families})


def _stamps(report: Report, charts: ChartMaker) -> Iterable[tuple[str, Markup]]:
    """Yield a small drawing for each family that has a dose-response curve."""
    for family in _families(report):
        summaries = [
            (run_index, reported.run.results.families.get(family)) for run_index, reported in enumerate(report.runs)
        ]
        with_curve = [
            (run_index, summary.curves[ALL]) for run_index, summary in summaries if summary and ALL in summary.curves
        ]
        if with_curve:
            yield family.replace("_", " "), charts.small_dose_response(with_curve, f"Success over dose, {family}")


# -- families ----------------------------------------------------------------------------------------------------------


class HeatCell(NamedTuple):
    """A cell of a heat map. `heat` is the strength of its colour in percent; `tone` is `good` or `harm`."""

    text: str
    tone: str
    heat: str
    title: str


class HeatMap(NamedTuple):
    """The metrics of every family of a run. A cell is None if there was nothing to count."""

    columns: list[str]
    rows: list[tuple[str, list[HeatCell | None]]]


class FamiliesPanel(NamedTuple):
    """Success by family, the cost of each dial, and a heat map for each run."""

    figures: list[PageFigure]
    heat_maps: list[HeatMap]


def families(report: Report, charts: ChartMaker) -> FamiliesPanel:
    success_by_run = [
        (run_index, {name: summary.numbers["success"] for name, summary in reported.run.results.families.items()})
        for run_index, reported in enumerate(report.runs)
    ]
    title = "Success by family"
    drawing = charts.intervals(_families(report), success_by_run, title)
    by_family = PageFigure(title, _run_indices(success_by_run), drawing)
    maps = [_heat_map(reported.run.results.families) for reported in report.runs]
    return FamiliesPanel([by_family, *_dials(report, charts)], maps)


def _dials(report: Report, charts: ChartMaker) -> list[PageFigure]:
    """What each dial costs: success in the episodes without its trouble, minus success in those with it."""
    costs_by_run = [(run_index, _cost_by_dial(reported)) for run_index, reported in enumerate(report.runs)]
    costs_by_run = [(run_index, costs) for run_index, costs in costs_by_run if costs]
    if not costs_by_run:
        return []
    highest: dict[str, float] = {}
    for _, costs in costs_by_run:
        for dial, cost in costs.items():
            highest[dial] = max(cost.value, highest.get(dial, cost.value))
    rows = sorted(highest, key=lambda dial: (-highest[dial], dial))
    title = "Success lost where a dial caused trouble, points"
    return [PageFigure(title, _run_indices(costs_by_run), charts.intervals(rows, costs_by_run, title, signed=True))]


def _cost_by_dial(reported: ReportedRun) -> dict[str, Estimate]:
    dials = reported.run.results.dials
    return {dial: summary.numbers["success_lost"] for dial, summary in dials.items() if "success_lost" in summary.numbers}


def _heat_map(summaries: Mapping[str, GroupSummary]) -> HeatMap:
    by_family = {family: _with_area(summary) for family, summary in summaries.items()}
    headings = _GOOD_COLUMNS | _HARM_COLUMNS
    columns = [name for name in headings if any(name in estimates for estimates in by_family.values())]
    rows = [
        (family.replace("_", " "), [_heat(estimates.get(name), name in _HARM_COLUMNS) for name in columns])
        for family, estimates in by_family.items()
    ]
    return HeatMap(["family", *(headings[name] for name in columns)], rows)


def _with_area(summary: GroupSummary) -> dict[str, Estimate]:
    """The metrics of a group, with the area under its dose-response curve."""
    return {**summary.numbers, **({"area": summary.curves[ALL].area} if ALL in summary.curves else {})}


def _heat(estimate: Estimate | None, harm: bool) -> HeatCell | None:
    """A cell of a heat map. `harm`: a high number is bad."""
    if estimate is None:
        return None
    heat = f"{100 * min(1.0, max(0.0, estimate.value)):.0f}"
    title = f"{format_number(estimate, PERCENT)} of {estimate.n:,}"
    return HeatCell(f"{100 * estimate.value:.0f}", "harm" if harm else "good", heat, title)


# -- causes ------------------------------------------------------------------------------------------------------------


class OverlookedCause(NamedTuple):
    """A cause that changes the right ending, with numbers over the pairs of tasks that differ in it.

    `decision_changed` is how often the agent ended the two tasks differently, `both_right` how often it was right on both.
    """

    cause: str
    decision_changed: str
    both_right: str
    pairs: str


class CausesPanel(NamedTuple):
    """How often agents decide differently on a task and its twin, and the causes that each run overlooks most."""

    figure: PageFigure
    overlooked: list[tuple[int, list[OverlookedCause]]]


def causes(report: Report, charts: ChartMaker) -> CausesPanel | None:
    """How often agents decide differently on a task and its twin, for each kind of twin; None if no run played twins."""
    rates_by_run = []
    for run_index, reported in enumerate(report.runs):
        on_rerun = reported.run.results.overall.numbers.get("differs_rerun")
        rates = {_TWIN_KINDS[kind]: rate for kind, rate in reported.decision_changed.items()}
        if rates:
            rates_by_run.append((run_index, rates | ({_RERUN: on_rerun} if on_rerun else {})))
    if not rates_by_run:
        return None
    rows = [row for row in (*_TWIN_KINDS.values(), _RERUN) if any(row in rates for _, rates in rates_by_run)]
    title = "How often the agent decides differently"
    figure = PageFigure(title, _run_indices(rates_by_run), charts.intervals(rows, rates_by_run, title))
    return CausesPanel(figure, [(run_index, _overlooked(report.runs[run_index])) for run_index, _ in rates_by_run])


def _overlooked(reported: ReportedRun) -> list[OverlookedCause]:
    """Of the causes that change the right ending, those with the lowest share of pairs passed."""
    measured = [  # `differs_ending`: how often the decisions differ, over the pairs whose right endings differ
        (name, summary.numbers["differs_ending"], summary.numbers["pair_pass"])
        for name, summary in reported.run.results.causes.items()
        if "differs_ending" in summary.numbers and "pair_pass" in summary.numbers
    ]
    lowest = sorted(measured, key=lambda row: (row[2].value, row[1].value, row[0]))[:_OVERLOOKED_SHOWN]
    return [OverlookedCause(name, _percent(changed), _percent(passed), f"{passed.n:,}") for name, changed, passed in lowest]


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.0f} %"


# -- episodes ----------------------------------------------------------------------------------------------------------


class EpisodesPanel(msgspec.Struct, frozen=True):
    """The data of the playback section of the page: the episodes, and the names of the agents."""

    episodes: tuple[Playback, ...]
    runs: list[str]


def episodes(report: Report) -> EpisodesPanel:
    return EpisodesPanel(report.episodes, [reported.run.plan.agent for reported in report.runs])
