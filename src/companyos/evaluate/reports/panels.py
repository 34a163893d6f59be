"""Panels: the parts of a report's page, each a section of HTML. Every text that comes from a run is escaped by `markup`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from companyos.evaluate.reports.frame import Section, breakable, chip, legend, scrolling, section, table_of
from companyos.evaluate.reports.markup import Content, Markup, tag
from companyos.evaluate.reports.report import Report, Shown
from companyos.evaluate.reports.tables import points
from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.headline import DETAILS, HEADLINE, NOTHING, PERCENT, Form, Line, Said, lines_for, write
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import ENDING, NONE, WAY, Block

_MOST = 8  # lines of a sort
_OPEN = 2  # runs whose heat map is seen at once
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


class Artist(Protocol):
    """Who draws: `figures`, which takes matplotlib."""

    def dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup: ...
    def small_dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup: ...
    def intervals(
        self, rows: Sequence[str], numbers: Sequence[tuple[int, Mapping[str, Estimate]]], title: str, signed: bool = False
    ) -> Markup: ...


# -- numbers -----------------------------------------------------------------------------------------------------------


def headline(report: Report) -> Section:
    """A number a line, a run a column."""
    runs = [one.run.results for one in report.shown]
    columns = [
        tag("th", chip(n), one.run.plan.agent, tag("small", one.run.plan.suite), scope="col")
        for n, one in enumerate(report.shown)
    ]
    body = [_line(line, report.shown) for line in HEADLINE]
    more = [_line(line, report.shown) for line in lines_for(runs, DETAILS)]
    table = tag(
        "table",
        tag("thead", tag("tr", tag("th", tag("span", "Number", class_="unseen"), scope="col"), *columns)),
        tag("tbody", *body),
        tag("tbody", *more, class_="details"),
        class_="numbers",
    )
    about = "With 95 % intervals: by how much each would have moved had other tasks been drawn. “–”: nothing to count here."
    return section("numbers", "Numbers", about, scrolling("Numbers by run", table), _beside_first(report))


def _line(line: Line, shown: Sequence[Shown]) -> Markup:
    cells = [tag("td", _number(line.say(one.run.results), line.form, n)) for n, one in enumerate(shown)]
    return tag("tr", tag("th", line.label, tag("small", line.meaning), scope="row"), *cells)


def _number(said: Said, form: Form, run: int) -> Content:
    below = " ".join(filter(None, [said.interval, said.note]))
    return [tag("b", said.value), tag("small", below) if below else None, _whisker(said.number, form, run)]


def _whisker(number: Estimate | None, form: Form, run: int) -> Markup | None:
    """A number between 0 and 1 as a dot on its interval."""
    if number is None or form.ends is None:
        return None
    low, high = (number.value if end is None else end for end in (number.low, number.high))
    places = {"at": number.value, "low": low, "wide": high - low}
    style = "; ".join([f"--run: var(--run-{run})", *(f"--{name}: {100 * share:.1f}%" for name, share in places.items())])
    return tag("span", class_="whisker", style=style, aria_hidden="true")


def _beside_first(report: Report) -> Markup | None:
    """By how much the other runs differ from the first, over the tasks that both played."""
    rows = []
    for number, one in enumerate(report.shown):
        if (found := one.beside_first) is None:
            continue
        floor = NOTHING if found.noise_floor is None else f"{100 * found.noise_floor:.1f}"
        cells = [f"{found.tasks:,}", points(found.success), points(found.score), floor, f"{100 * found.resolves:.1f}"]
        rows.append(tag("tr", _who(number, one), *(tag("td", cell) for cell in cells)))
    if not rows:
        return None
    names = ("", "tasks of both", "success, points", "score, points", "noise floor", "resolves")
    return tag("div", tag("h3", "Beside ", chip(0)), scrolling("Differences from the first run", table_of(names, rows)))


def _who(number: int, shown: Shown) -> Markup:
    return tag("th", chip(number), " ", shown.run.plan.agent, tag("small", shown.run.plan.suite), scope="row")


# -- doses -------------------------------------------------------------------------------------------------------------


def doses(report: Report, artist: Artist) -> Section | None:
    """Success as trouble grows; one figure for each set of dials that was dosed, and a small one a family."""
    found = [one.run.results.overall.curves for one in report.shown]
    if not any(found):
        return None
    figures = []
    for dosed in dict.fromkeys(name for curves in found for name in curves):
        some = [(number, curves[dosed]) for number, curves in enumerate(found) if dosed in curves]
        title = f"Success over the dose of {'all dials' if dosed == ALL else dosed}"
        figures.append(
            tag("figure", tag("figcaption", title, legend(report, (n for n, _ in some))), artist.dose_response(some, title))
        )
    stamps = [_stamp(name, report, artist) for name in _families(report)]
    about = (
        "The same tasks with more and more going wrong. Shaded: 95 %. A cross marks EC50, where success is half of that at "
        "dose 0."
    )
    return section(
        "doses", "Dose-response", about, tag("div", *figures, tag("div", *stamps, class_="stamps"), class_="figures")
    )


def _families(report: Report) -> list[str]:
    return sorted({name for one in report.shown for name in one.run.results.families})


def _stamp(family: str, report: Report, artist: Artist) -> Markup | None:
    blocks = [(number, one.run.results.families.get(family)) for number, one in enumerate(report.shown)]
    some = [(number, block.curves[ALL]) for number, block in blocks if block and ALL in block.curves]
    if not some:
        return None
    return tag(
        "figure",
        artist.small_dose_response(some, f"Success over dose, {family}"),
        tag("figcaption", family.replace("_", " ")),
    )


# -- families ----------------------------------------------------------------------------------------------------------


def families(report: Report, artist: Artist) -> Section:
    """Where the agent is good and where it is not: success by family, and a heat map of every number for each run."""
    names = _families(report)
    found = [
        (n, {name: block.numbers["success"] for name, block in one.run.results.families.items()})
        for n, one in enumerate(report.shown)
    ]
    title = "Success by family"
    caption = tag("figcaption", title, legend(report, range(len(found))))
    figure = tag("figure", caption, artist.intervals(names, found, title))
    maps = [_heat_map(number, one) for number, one in enumerate(report.shown)]
    about = (
        "Where it is good and where it is not. In the maps blue is more of what one wants, orange more of what one does "
        "not. Families are small: mind the intervals."
    )
    figures = tag("div", figure, _dials(report, artist), class_="figures")
    return section("families", "Families and dials", about, figures, *maps)


def _dials(report: Report, artist: Artist) -> Markup | None:
    """What each dial of trouble costs, over all episodes of the run: those it spared beside those it struck."""
    found = [
        (number, {dial: block.numbers["success_lost"] for dial, block in dials.items() if "success_lost" in block.numbers})
        for number, dials in enumerate(one.run.results.dials for one in report.shown)
    ]
    found = [(number, lost) for number, lost in found if lost]
    if not found:
        return None
    worst = {dial: max(lost[dial].value for _, lost in found if dial in lost) for _, lost in found for dial in lost}
    rows = sorted(worst, key=lambda dial: (-worst[dial], dial))
    title = "Success lost where a dial struck, points"
    caption = tag("figcaption", title, legend(report, (number for number, _ in found)))
    return tag("figure", caption, artist.intervals(rows, found, title, signed=True))


def _heat_map(number: int, shown: Shown) -> Markup:
    blocks = shown.run.results.families
    cells = {name: _of_family(block) for name, block in blocks.items()}
    columns = [name for name in (*_GOOD, *_HARM) if any(name in one for one in cells.values())]
    head = ["family", *((_GOOD | _HARM)[column] for column in columns)]
    rows = [
        tag("tr", tag("th", name.replace("_", " "), scope="row"), *(_heat(found.get(c), c in _HARM) for c in columns))
        for name, found in cells.items()
    ]
    title = tag("summary", chip(number), f"{shown.run.plan.agent} on {shown.run.plan.suite}: family by number, in %")
    return tag(
        "details", title, scrolling("Heat map of families and numbers", table_of(head, rows, "heat")), open=number < _OPEN
    )


def _of_family(block: Block) -> dict[str, Estimate]:
    return {**block.numbers, **({"area": block.curves[ALL].area} if ALL in block.curves else {})}


def _heat(number: Estimate | None, harm: bool) -> Markup:
    if number is None:
        return tag("td", NOTHING, class_="none")
    said = write(number, PERCENT)
    heat = f"--heat: {100 * min(1.0, max(0.0, number.value)):.0f}%"
    title = f"{said} of {number.n:,}"
    return tag("td", f"{100 * number.value:.0f}", class_="harm" if harm else "good", style=heat, title=title)


# -- causes ------------------------------------------------------------------------------------------------------------


def causes(report: Report, artist: Artist) -> Section | None:
    """How often the agent decides otherwise, by what the two tasks differ in, beside how often it does so for no reason."""
    found = []
    for number, one in enumerate(report.shown):
        rerun = one.run.results.overall.numbers.get("differs_rerun")
        rates = {_PAIRS[kind]: rate for kind, rate in one.differs.items()}
        if rates:
            found.append((number, rates | ({_PAIRS["rerun"]: rerun} if rerun else {})))
    if not found:
        return None
    rows = [row for row in _PAIRS.values() if any(row in rates for _, rates in found)]
    title = "How often the agent decides otherwise"
    figure = tag(
        "figure", tag("figcaption", title, legend(report, (n for n, _ in found))), artist.intervals(rows, found, title)
    )
    overlooked = [_overlooked(number, report.shown[number]) for number, _ in found]
    about = (
        "Two tasks that begin with the same bytes and differ in one hidden truth. Whoever looks decides otherwise where it "
        "changes the ending, and only there. “Same task again” is the agent's own noise, between two trials."
    )
    return section("causes", "Causes", about, tag("div", figure, *overlooked, class_="figures"))


def _overlooked(number: int, shown: Shown) -> Markup:
    """The causes that change the ending and that the agent minds least."""
    minded = [
        (name, block.numbers["differs_ending"], block.numbers["pair_pass"])
        for name, block in shown.run.results.causes.items()
        if "differs_ending" in block.numbers and "pair_pass" in block.numbers
    ]
    least = sorted(minded, key=lambda one: (one[2].value, one[1].value, one[0]))[:_MOST]
    rows = [
        tag("tr", tag("th", breakable(name), scope="row"), _share(differs), _share(passed), tag("td", f"{passed.n:,}"))
        for name, differs, passed in least
    ]
    table = table_of(("family.cause", "differs", "both right", "pairs"), rows, "small")
    return tag("div", tag("h3", chip(number), "Causes it minds least"), scrolling("Causes minded least", table))


def _share(number: Estimate) -> Markup:
    return tag("td", f"{100 * number.value:.0f} %")
