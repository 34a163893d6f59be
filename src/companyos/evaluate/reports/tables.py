"""Comparisons and blame as tables for the terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from companyos.evaluate.judge.blame import Blame, BlameSummary
from companyos.evaluate.judge.blame_text import HOW, called, sentences
from companyos.evaluate.stats.compare import FIRST_BETTER, MIN_SEEDS, SECOND_BETTER, Comparison
from companyos.evaluate.stats.intervals import Estimate

_MAX_ROWS = 8  # of one kind


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


# -- blame -------------------------------------------------------------------------------------------------------------


def blame_table(blames: Sequence[Blame]) -> RenderableType:
    """A few sentences about each episode."""
    return Group(*(Text("\n".join([one.task_id, *(f"  {line}" for line in sentences(one))])) for one in blames))


def blame_summary_table(found: BlameSummary) -> RenderableType:
    """Why the agent failed, over many episodes."""
    failed = sum(found.kinds.values())
    luck = f", {found.luck} of them by luck" if found.successes else ""
    heading = Text(f"{found.episodes} episodes: {found.successes} succeeded{luck}; {failed} failed.")
    if not failed:
        return heading
    table = Table("failures", "")
    table.add_column("count", justify="right")
    _add(table, "lost by", {HOW[kind]: str(count) for kind, count in found.kinds.items()})
    if found.late:
        _add(table, "", {"after too few steps were left": str(found.late)})
    _add(table, "at the call", _texts(found.tools))
    _add(table, "in the app", _texts(found.apps))
    _add(table, "blind to", _texts(found.blind))
    _add(table, "saw and misjudged", _texts(found.misjudged))
    _add(table, "trouble by", {dial: f"{failed} of {struck}" for dial, (failed, struck) in found.dials.items()})
    return Group(heading, table)


def _texts(counts: Mapping[str, int]) -> dict[str, str]:
    return {called(name): str(count) for name, count in counts.items()}


def _add(table: Table, label: str, lines: Mapping[str, str]) -> None:
    for number, (name, count) in enumerate(lines.items()):
        if number == _MAX_ROWS:
            table.add_row("", f"and {len(lines) - _MAX_ROWS} more", "")
            return
        table.add_row(label if number == 0 else "", name, count)
