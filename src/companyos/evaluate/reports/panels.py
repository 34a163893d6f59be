"""What each section of the report page shows. The templates turn it into HTML and escape every text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
from markupsafe import Markup

from companyos.evaluate.judge.playback import Playback
from companyos.evaluate.reports.report import Report, ReportedRun
from companyos.evaluate.reports.tables import points
from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.headline import (
    DETAILS,
    HEADLINE,
    NO_VALUE,
    PERCENT,
    FormattedNumber,
    NumberFormat,
    SummaryLine,
    lines_for,
    write,
)
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import ENDING, NONE, WAY, Block

_MOST = 8  # causes in the list of those that an agent overlooks
_GOOD = {
    "success": "success",
    "score": "score",
    "efficiency": "efficiency",
    "routing": "routing",
    "recovery": "recovery",
    "refusal_recall": "refusal recall",
    "pair_pass": "pair-pass",
    "causal_sensitivity": "causal sens.",
    "area": "dose area",
}
_HARM = {"damage": "damage", "invalid_calls": "invalid calls", "refused_calls": "refused calls"}
_PAIRS = {ENDING: "other ending", WAY: "other way", NONE: "no difference", "rerun": "same task again"}


class ChartMaker(Protocol):
    """Draws the charts of the page. The module `figures` does so with matplotlib."""

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
    """A number of a run: the value, what is written below it, and the CSS of its interval bar (empty if it has none)."""

    value: str
    below: str
    whisker: str


class NumberRow(NamedTuple):
    """One number of all runs."""

    label: str
    meaning: str
    cells: list[NumberCell]


class NumbersPanel(NamedTuple):
    """The headline numbers, further numbers, and how each later run differs from the first."""

    headline: list[NumberRow]
    details: list[NumberRow]
    beside_first: list[tuple[int, list[str]]]


def numbers(report: Report) -> NumbersPanel:
    details = lines_for([one.run.results for one in report.runs], DETAILS)
    return NumbersPanel(
        [_row(line, report.runs) for line in HEADLINE],
        [_row(line, report.runs) for line in details],
        list(_beside_first(report)),
    )


def _row(line: SummaryLine, runs: Iterable[ReportedRun]) -> NumberRow:
    cells = [_cell(line.say(one.run.results), line.form, number) for number, one in enumerate(runs)]
    return NumberRow(line.label, line.meaning, cells)


def _cell(number: FormattedNumber, form: NumberFormat, run: int) -> NumberCell:
    below = " ".join(filter(None, [number.interval, number.note]))
    return NumberCell(number.value, below, _whisker(number.number, form, run))


def _whisker(number: Estimate | None, form: NumberFormat, run: int) -> str:
    """The CSS that draws a number between 0 and 1 as a dot on its interval."""
    if number is None or form.ends is None:
        return ""
    low, high = (number.value if end is None else end for end in (number.low, number.high))
    places = {"at": number.value, "low": low, "wide": high - low}
    return "; ".join([f"--run: var(--run-{run})", *(f"--{name}: {100 * share:.1f}%" for name, share in places.items())])


def _beside_first(report: Report) -> Iterable[tuple[int, list[str]]]:
    """How the other runs differ from the first, over the tasks that both played."""
    for number, one in enumerate(report.runs):
        if (found := one.beside_first) is not None:
            floor = NO_VALUE if found.noise_floor is None else f"{100 * found.noise_floor:.1f}"
            resolves = f"{100 * found.resolves:.1f}"
            yield number, [f"{found.tasks:,}", points(found.success), points(found.score), floor, resolves]


# -- doses -------------------------------------------------------------------------------------------------------------


class DosesPanel(NamedTuple):
    """A figure for each set of dials that was dosed, and a small drawing for each family."""

    figures: list[PageFigure]
    stamps: list[tuple[str, Markup]]


def doses(report: Report, charts: ChartMaker) -> DosesPanel | None:
    """Success as the dose grows; None if no run has a curve."""
    found = [one.run.results.overall.curves for one in report.runs]
    if not any(found):
        return None
    figures = []
    for dosed in dict.fromkeys(name for curves in found for name in curves):
        some = [(number, curves[dosed]) for number, curves in enumerate(found) if dosed in curves]
        title = f"Success over the dose of {'all dials' if dosed == ALL else dosed}"
        figures.append(PageFigure(title, [number for number, _ in some], charts.dose_response(some, title)))
    return DosesPanel(figures, list(_stamps(report, charts)))


def _families(report: Report) -> list[str]:
    return sorted({name for one in report.runs for name in one.run.results.families})


def _stamps(report: Report, charts: ChartMaker) -> Iterable[tuple[str, Markup]]:
    for family in _families(report):
        blocks = [(number, one.run.results.families.get(family)) for number, one in enumerate(report.runs)]
        some = [(number, block.curves[ALL]) for number, block in blocks if block and ALL in block.curves]
        if some:
            yield family.replace("_", " "), charts.small_dose_response(some, f"Success over dose, {family}")


# -- families ----------------------------------------------------------------------------------------------------------


class HeatCell(NamedTuple):
    """A cell of a heat map. `heat` is its colour in percent, `tone` says whether more is good or harm."""

    text: str
    tone: str
    heat: str
    title: str


class HeatMap(NamedTuple):
    """The numbers of every family of a run. A cell is None if there was nothing to count."""

    columns: list[str]
    rows: list[tuple[str, list[HeatCell | None]]]


class FamiliesPanel(NamedTuple):
    """Success by family, the cost of each dial, and a heat map for each run."""

    figures: list[PageFigure]
    heat_maps: list[HeatMap]


def families(report: Report, charts: ChartMaker) -> FamiliesPanel:
    found = [
        (n, {name: block.numbers["success"] for name, block in one.run.results.families.items()})
        for n, one in enumerate(report.runs)
    ]
    title = "Success by family"
    by_family = PageFigure(title, list(range(len(found))), charts.intervals(_families(report), found, title))
    maps = [_heat_map(one.run.results.families) for one in report.runs]
    return FamiliesPanel([by_family, *_dials(report, charts)], maps)


def _dials(report: Report, charts: ChartMaker) -> list[PageFigure]:
    """What each dial costs: success in the episodes without its trouble, minus success in those with it."""
    by_run = [
        (number, {dial: block.numbers["success_lost"] for dial, block in dials.items() if "success_lost" in block.numbers})
        for number, dials in enumerate(one.run.results.dials for one in report.runs)
    ]
    by_run = [(number, lost) for number, lost in by_run if lost]
    if not by_run:
        return []
    worst = {dial: max(lost[dial].value for _, lost in by_run if dial in lost) for _, lost in by_run for dial in lost}
    rows = sorted(worst, key=lambda dial: (-worst[dial], dial))
    title = "Success lost where a dial caused trouble, points"
    return [PageFigure(title, [number for number, _ in by_run], charts.intervals(rows, by_run, title, signed=True))]


def _heat_map(blocks: Mapping[str, Block]) -> HeatMap:
    by_family = {name: _with_area(block) for name, block in blocks.items()}
    columns = [name for name in (*_GOOD, *_HARM) if any(name in one for one in by_family.values())]
    rows = [
        (family.replace("_", " "), [_heat(some.get(name), name in _HARM) for name in columns])
        for family, some in by_family.items()
    ]
    return HeatMap(["family", *((_GOOD | _HARM)[name] for name in columns)], rows)


def _with_area(block: Block) -> dict[str, Estimate]:
    return {**block.numbers, **({"area": block.curves[ALL].area} if ALL in block.curves else {})}


def _heat(number: Estimate | None, harm: bool) -> HeatCell | None:
    if number is None:
        return None
    heat = f"{100 * min(1.0, max(0.0, number.value)):.0f}"
    title = f"{write(number, PERCENT)} of {number.n:,}"
    return HeatCell(f"{100 * number.value:.0f}", "harm" if harm else "good", heat, title)


# -- causes ------------------------------------------------------------------------------------------------------------


class OverlookedCause(NamedTuple):
    """A cause that changes the ending: how often the agent decided differently, and was right on both tasks."""

    cause: str
    differs: str
    both_right: str
    pairs: str


class CausesPanel(NamedTuple):
    """How often agents decide differently on a task and its twin, and the causes that each run overlooks most."""

    figure: PageFigure
    overlooked: list[tuple[int, list[OverlookedCause]]]


def causes(report: Report, charts: ChartMaker) -> CausesPanel | None:
    """How often agents decide differently, by what the two tasks differ in; None if no run played pairs."""
    found = []
    for number, one in enumerate(report.runs):
        rerun = one.run.results.overall.numbers.get("differs_rerun")
        rates = {_PAIRS[kind]: rate for kind, rate in one.differs.items()}
        if rates:
            found.append((number, rates | ({_PAIRS["rerun"]: rerun} if rerun else {})))
    if not found:
        return None
    rows = [row for row in _PAIRS.values() if any(row in rates for _, rates in found)]
    title = "How often the agent decides differently"
    figure = PageFigure(title, [number for number, _ in found], charts.intervals(rows, found, title))
    return CausesPanel(figure, [(number, _overlooked(report.runs[number])) for number, _ in found])


def _overlooked(reported: ReportedRun) -> list[OverlookedCause]:
    """The causes that change the ending on which the agent is right on both tasks least often."""
    measured = [
        (name, block.numbers["differs_ending"], block.numbers["pair_pass"])
        for name, block in reported.run.results.causes.items()
        if "differs_ending" in block.numbers and "pair_pass" in block.numbers
    ]
    least = sorted(measured, key=lambda one: (one[2].value, one[1].value, one[0]))[:_MOST]
    return [OverlookedCause(name, _percent(differs), _percent(passed), f"{passed.n:,}") for name, differs, passed in least]


def _percent(number: Estimate) -> str:
    return f"{100 * number.value:.0f} %"


# -- episodes ----------------------------------------------------------------------------------------------------------


class EpisodesPanel(msgspec.Struct, frozen=True):
    """The data of the player: the episodes, and the names of the agents."""

    episodes: tuple[Playback, ...]
    runs: list[str]


def episodes(report: Report) -> EpisodesPanel:
    return EpisodesPanel(report.episodes, [one.run.plan.agent for one in report.runs])
