"""Comparisons as tables for the terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from companyos.evaluate.stats.compare import FIRST_BETTER, MIN_SEEDS, SECOND_BETTER, Comparison
from companyos.evaluate.stats.intervals import Estimate


def comparison_table(comparison: Comparison) -> RenderableType:
    """Both runs, their difference, and how small a difference this many tasks can detect."""
    table = Table("", "A", "B", "B − A, 95 %")
    table.add_row(
        "success",
        percent(comparison.first_success),
        percent(comparison.second_success),
        as_points(comparison.success_difference),
    )
    table.add_row("score", "", "", as_points(comparison.score_difference))
    table.add_row("return", "", "", _signed(comparison.return_difference, "{:+.2f}", 1.0))
    for name, difference in comparison.families.items():
        table.add_row(f"  {name}", "", "", as_points(difference))
    unpaired = f"; {comparison.unpaired} tasks that only one of them played are left out" if comparison.unpaired else ""
    noise = (
        "needs two trials of every task" if comparison.noise_floor is None else f"{100 * comparison.noise_floor:.1f} points"
    )
    detectable = f"{100 * comparison.smallest_detectable:.1f}"
    tasks_needed = None if comparison.needed is None else max(comparison.needed, MIN_SEEDS)
    needed = "" if tasks_needed is None else f" To detect the difference seen, {tasks_needed} tasks are needed."
    return Group(
        table,
        Text(_verdict(comparison), "bold"),
        Text(f"{comparison.tasks} tasks that both played{unpaired}."),
        Text(f"Noise floor (two runs of one agent differ by less in 95 % of cases): {noise}."),
        Text(f"This many tasks detect a difference of {detectable} points in four of five cases.{needed}"),
    )


def _verdict(comparison: Comparison) -> str:
    if comparison.verdict == SECOND_BETTER:
        return "B is better than A: the interval of the difference in success does not contain 0."
    if comparison.verdict == FIRST_BETTER:
        return "A is better than B: the interval of the difference in success does not contain 0."
    if comparison.seeds < MIN_SEEDS:
        return (
            f"Cannot tell which is better: they share the tasks of {comparison.seeds} seeds; {MIN_SEEDS} or more are needed."
        )
    return "Cannot tell which is better: the interval of the difference in success contains 0."


def percent(number: Estimate) -> str:
    if number.low is None or number.high is None:
        return f"{100 * number.value:.1f} %"
    return f"{100 * number.value:.1f} % ({100 * number.low:.1f}–{100 * number.high:.1f})"


def as_points(number: Estimate) -> str:
    """Return a difference in percentage points, with its interval."""
    return _signed(number, "{:+.1f}", 100.0)


def _signed(number: Estimate, form: str, unit: float) -> str:
    value = form.format(unit * number.value)
    if number.low is None or number.high is None:
        return value
    return f"{value} ({form.format(unit * number.low)} to {form.format(unit * number.high)})"
