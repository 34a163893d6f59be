"""Curves and intervals as SVG, drawn by matplotlib (extra `report`). The same data gives the same bytes.

Colours are CSS variables of the page, so a figure is light or dark as the page is. The page writes the legend.
"""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from companyos.evaluate.reports.markup import printable
from companyos.evaluate.stats.doses import Curve
from companyos.evaluate.stats.intervals import Estimate

# Placeholder colours, which `_svg` replaces by CSS variables. The colour of run 3, for example, is `_SERIES` + "03".
_INK, _FAINT, _GRID = "#010101", "#010102", "#010103"
_CSS_NAMES = {_INK: "ink", _FAINT: "faint", _GRID: "grid"}
_SERIES = "#0102"
_WIDTH = 4.5  # inches: the width of a small screen, so that the text keeps its size there
_MAX_LABEL = 24  # characters of a row's name
_MARKERS = "osD^vPX*"
_DASHES: Sequence[Any] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1)),
    (0, (8, 3)),
    (0, (2, 3)),
    (0, (9, 1)),
)
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _FAINT,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def dose_response(curves: Sequence[tuple[int, Curve]], title: str) -> Markup:
    """Success over the dose, with one line and its interval per run. A cross marks half of the success at dose 0."""
    with _drawing(title):
        figure, axes = _axes(_WIDTH, 2.9)
        for run, curve in curves:
            _curve(axes, run, curve, marked=True)
            if curve.ec50.value is not None:
                half = next(iter(curve.doses.values())).value / 2
                axes.plot([curve.ec50.value], [half], marker="x", markersize=9, markeredgewidth=2, color=_colour(run))
        _percent_ticks(axes.yaxis, axes.set_ylim)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set(xlabel="dose of trouble", ylabel="success", xlim=(-0.03, 1.03))
        return _svg(figure, title)


def small_dose_response(curves: Sequence[tuple[int, Curve]], title: str) -> Markup:
    """The curves of `dose_response` without marks and labels, in a small size."""
    with _drawing(title):
        figure, axes = _axes(1.7, 1.05)
        for run, curve in curves:
            _curve(axes, run, curve, marked=False)
        axes.set(xticks=[0, 1], yticks=[0, 1], xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
        return _svg(figure, title)


def intervals(
    rows: Sequence[str], numbers: Sequence[tuple[int, Mapping[str, Estimate]]], title: str, signed: bool = False
) -> Markup:
    """One share per row and run, as a dot on its interval. With `signed`, differences of shares around 0."""
    with _drawing(title):
        figure, axes = _axes(_WIDTH, 0.55 + len(rows) * max(0.24, 0.14 * len(numbers)))
        for order, (run, estimates) in enumerate(numbers):
            shift = (order - (len(numbers) - 1) / 2) * 0.7 / len(numbers)  # runs are drawn below each other within a row
            points = [(height + shift, estimates[row]) for height, row in enumerate(rows) if row in estimates]
            below = [number.value - (number.value if number.low is None else number.low) for _, number in points]
            above = [(number.value if number.high is None else number.high) - number.value for _, number in points]
            axes.errorbar(
                [number.value for _, number in points],
                [height for height, _ in points],
                xerr=[below, above],
                fmt=_MARKERS[run],
                markersize=4.5,
                elinewidth=2,
                color=_colour(run),
                ecolor=_colour(run),
            )
        axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
        axes.tick_params(axis="y", labelcolor=_INK)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        if signed:
            axes.axvline(0, color=_FAINT, linewidth=1)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:+.0f}".replace("-", "−") if share else "0")
        else:
            _percent_ticks(axes.xaxis, axes.set_xlim)
        return _svg(figure, title)


# -- how they are drawn ------------------------------------------------------------------------------------------------


def _drawing(title: str) -> Any:
    # The title is the salt of the ids in the SVG, so no two figures of a page share an id.
    return rc_context({**_STYLE, "svg.hashsalt": title})


def _axes(width: float, height: float) -> tuple[Any, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _curve(axes: Any, run: int, curve: Curve, marked: bool) -> None:
    doses = [float(dose) for dose in curve.doses]
    estimates = list(curve.doses.values())
    low = [number.value if number.low is None else number.low for number in estimates]
    high = [number.value if number.high is None else number.high for number in estimates]
    colour = _colour(run)
    axes.fill_between(doses, low, high, color=colour, alpha=0.14, linewidth=0)
    marker = _MARKERS[run] if marked else ""
    axes.plot(
        doses, [number.value for number in estimates], color=colour, linestyle=_DASHES[run], marker=marker, markersize=4.5
    )


def _percent_ticks(axis: Any, set_limits: Any) -> None:
    set_limits(-0.03, 1.03)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0 %", "25 %", "50 %", "75 %", "100 %"])


def _label(name: str) -> str:
    """A row's name, cut so that it leaves room for the figure."""
    words = name.replace("_", " ")
    return words if len(words) <= _MAX_LABEL else words[: _MAX_LABEL - 1] + "…"


def _colour(run: int) -> str:
    return f"{_SERIES}{run:02d}"


def _svg(figure: Any, title: str) -> Markup:
    """The SVG for the page: without prolog, date and size, in the page's colours, with a label for screen readers."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"/>', "", svg)  # empty groups
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # ids that nothing refers to
    svg = re.sub(r" font-family: [^;]*;", "", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)  # one line
    svg = re.sub(f"{_SERIES}(\\d\\d)", lambda match: f"var(--run-{int(match[1])})", svg)
    for colour, name in _CSS_NAMES.items():
        svg = svg.replace(colour, f"var(--{name})")
    head, rest = svg[: svg.index(">")], svg[svg.index(">") :]
    head = re.sub(r' (?:width|height|version|xmlns\S*)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(printable(title))}"{rest.rstrip()}')
