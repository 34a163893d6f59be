"""Plots of training runs as PNG files, from their logs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from companyos.core.errors import Misuse
from companyos.train.runs.journal import MODEL, Record, records, settings

STAGES, PROGRESS = "stages.png", "progress.png"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}
PIXELS_PER_INCH = 150
Curve = list[tuple[float, float]]
Find = Callable[[Record], Any]


def _checked(name: str) -> Find:
    """Return a function that finds a number of the checkup in a log record."""
    return lambda record: record.get("checkup", {}).get(name)


def _logged(*names: str) -> Find:
    """Return a function that finds the first of these numbers in a log record. Not every loop logs every number."""
    return lambda record: next((record[name] for name in names if record.get(name) is not None), None)


# The three skills that are learnt one after the other: title of the panel, and its number on held-out tasks.
_STAGES: dict[str, Find] = {
    "1. Invalid calls": _checked("invalid_calls"),
    "2. Calls in the right app": _checked("routing"),
    "3. Recovery from faults": _checked("recovery"),
}
_PROGRESS: dict[str, Find] = {
    "Reward of an update's attempts": _logged("reward"),
    "Success of an update's attempts": _logged("success"),
    "Loss": _logged("loss"),
    "Success on held-out tasks": _checked("success"),
    "Both of two held-out twins": _checked("pair_pass"),
}
_NOT_PERCENTAGES = ("Reward of an update's attempts", "Loss")  # all other panels have an axis from 0 to 100 %


def draw(runs: Sequence[Path], out: Path) -> list[Path]:
    """Draw the logs of runs into the same panels. Return the paths of the pictures."""
    logs = {run.name or str(run): list(records(run)) for run in runs}
    begins = beginnings(runs)
    if len(runs) > 1:  # runs of different lengths are compared over time, not over updates
        logs = {name: [_over_minutes(record, begins[name]) for record in log] for name, log in logs.items()}
    figures = {name: _with_data(panels, logs) for name, panels in {STAGES: _STAGES, PROGRESS: _PROGRESS}.items()}
    if not any(figures.values()):
        raise Misuse("there is nothing to draw yet: no update was logged")
    out.mkdir(parents=True, exist_ok=True)
    x_label = "minutes" if len(runs) > 1 else "updates"
    for name, panels in figures.items():
        if panels:
            # Without metadata, the same logs give the same bytes.
            _figure(logs, panels, x_label).savefig(out / name, dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return [out / name for name, panels in figures.items() if panels]


def _with_data(panels: dict[str, Find], logs: dict[str, list[Record]]) -> dict[str, Find]:
    """Return the panels that have data."""
    return {title: find for title, find in panels.items() if any(curve(log, find) for log in logs.values())}


def curve(log: Sequence[Record], find: Find) -> Curve:
    """Return the points of one number over updates."""
    return [(record["update"], float(number)) for record in log if (number := find(record)) is not None]


def beginnings(runs: Sequence[Path]) -> dict[str, float]:
    """Return the start of each run in minutes. A run that continues the model of another starts at the end of that one."""
    begins: dict[str, float] = {}
    ends: dict[str, float] = {}
    for run in runs:
        name, model = run.name or str(run), Path(settings(run).get("model", ""))
        begins[name] = ends.get(model.parent.name, 0.0) if model.name == MODEL else 0.0
        ends[name] = begins[name] + max((record["elapsed"] / 60 for record in records(run)), default=0.0)
    return begins


def _over_minutes(record: Record, start: float) -> Record:
    """Return a record in which the number of the update is replaced by the time in minutes."""
    return {**record, "update": start + record["elapsed"] / 60}


def _figure(logs: dict[str, list[Record]], panels: dict[str, Find], x_label: str) -> Figure:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
        for axes, (title, find) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            _panel(axes, title, {name: curve(log, find) for name, log in logs.items()}, x_label)
        if len(logs) > 1:
            lines, names = figure.axes[0].get_legend_handles_labels()
            figure.legend(lines, names, loc="outside lower center", ncols=min(4, len(logs)), frameon=False)
    return figure


def _panel(axes: Any, title: str, curves: dict[str, Curve], x_label: str) -> None:
    for number, (name, points) in enumerate(curves.items()):
        updates, values = [update for update, _ in points], [value for _, value in points]
        # Few points get markers; many are drawn as a line.
        axes.plot(updates, values, color=f"C{number}", label=name, marker="o" if len(points) < 40 else "", markersize=3.5)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if title not in _NOT_PERCENTAGES:
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
