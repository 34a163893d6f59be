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

# Placeholder colours, which `_svg` replaces by CSS variables. `_SERIES` and the number of a run give its colour.
_INK, _FAINT, _GRID = "#010101", "#010102", "#010103"
_NAMES = {_INK: "ink", _FAINT: "faint", _GRID: "grid"}
_SERIES = "#0102"
_WIDE = 4.5  # inches: the width of a small screen, so that the text keeps its size there
_LONGEST = 24  # characters of a row's name
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
        figure, axes = _axes(_WIDE, 2.9)
        for run, curve in curves:
            _curve(axes, run, curve, marked=True)
            if curve.ec50.value is not None:
                half = next(iter(curve.doses.values())).value / 2
                axes.plot([curve.ec50.value], [half], marker="x", markersize=9, markeredgewidth=2, color=_colour(run))
        _shares(axes.yaxis, axes.set_ylim)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set(xlabel="dose of trouble", ylabel="success", xlim=(-0.03, 1.03))
        return _svg(figure, title)


def small_dose_response(curves: Sequence[tuple[int, Curve]], title: str) -> Markup:
    """The same in a small size, for one of many figures."""
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
        figure, axes = _axes(_WIDE, 0.55 + len(rows) * max(0.24, 0.14 * len(numbers)))
        for order, (run, found) in enumerate(numbers):
            shift = (order - (len(numbers) - 1) / 2) * 0.7 / len(numbers)
            some = [(place + shift, found[row]) for place, row in enumerate(rows) if row in found]
            low = [one.value - (one.value if one.low is None else one.low) for _, one in some]
            high = [(one.value if one.high is None else one.high) - one.value for _, one in some]
            axes.errorbar(
                [one.value for _, one in some],
                [place for place, _ in some],
                xerr=[low, high],
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
            _shares(axes.xaxis, axes.set_xlim)
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
    found = list(curve.doses.values())
    low = [one.value if one.low is None else one.low for one in found]
    high = [one.value if one.high is None else one.high for one in found]
    colour = _colour(run)
    axes.fill_between(doses, low, high, color=colour, alpha=0.14, linewidth=0)
    marker = _MARKERS[run] if marked else ""
    axes.plot(doses, [one.value for one in found], color=colour, linestyle=_DASHES[run], marker=marker, markersize=4.5)


def _shares(axis: Any, set_limits: Any) -> None:
    set_limits(-0.03, 1.03)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0 %", "25 %", "50 %", "75 %", "100 %"])


def _label(name: str) -> str:
    """A name, cut so that it leaves room for the figure."""
    words = name.replace("_", " ")
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def _colour(run: int) -> str:
    return f"{_SERIES}{run:02d}"


def _svg(figure: Any, title: str) -> Markup:
    """The SVG for the page: without prolog, date and size, in the page's colours, with a label for screen readers."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="[^"]*"/>', "", drawn)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)
    drawn = re.sub(r" font-family: [^;]*;", "", drawn)
    drawn = re.sub(r"\s*\n\s*", " ", drawn)
    drawn = re.sub(f"{_SERIES}(\\d\\d)", lambda found: f"var(--run-{int(found[1])})", drawn)
    for colour, name in _NAMES.items():
        drawn = drawn.replace(colour, f"var(--{name})")
    head, rest = drawn[: drawn.index(">")], drawn[drawn.index(">") :]
    head = re.sub(r' (?:width|height|version|xmlns\S*)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(printable(title))}"{rest.rstrip()}')
