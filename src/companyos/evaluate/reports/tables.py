"""Tables: comparisons and blame for the eye of whoever sits at a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from companyos.evaluate.judge.blame import Blame, Sheet
from companyos.evaluate.judge.blame_text import HOW, called, sentences
from companyos.evaluate.stats.compare import Comparison
from companyos.evaluate.stats.intervals import Estimate

_MOST = 8  # lines of one sort


def comparison_table(found: Comparison) -> RenderableType:
    """Both runs, by how much the second is better, and what so many tasks can tell."""
    table = Table("", "A", "B", "B − A, 95 %")
    table.add_row("success", percent(found.ours), percent(found.theirs), points(found.success))
    table.add_row("score", "", "", points(found.score))
    table.add_row("return", "", "", _signed(found.total, "{:+.2f}", 1.0))
    for name, difference in found.families.items():
        table.add_row(f"  {name}", "", "", points(difference))
    unpaired = f"; {found.unpaired} that only one of them played are left out" if found.unpaired else ""
    floor = "needs two trials of every task" if found.noise_floor is None else f"{100 * found.noise_floor:.1f} points"
    needed = "" if found.needed is None else f" To be as sure of the difference seen takes {found.needed} tasks."
    return Group(
        table,
        Text(f"{found.tasks} tasks that both played{unpaired}."),
        Text(f"Noise floor (two runs of one agent differ by no more, 95 %): {floor}."),
        Text(f"So many tasks find a difference of {100 * found.resolves:.1f} points in four of five cases.{needed}"),
    )


def percent(number: Estimate) -> str:
    if number.low is None or number.high is None:
        return f"{100 * number.value:.1f} %"
    return f"{100 * number.value:.1f} % ({100 * number.low:.1f}–{100 * number.high:.1f})"


def points(number: Estimate) -> str:
    return _signed(number, "{:+.1f}", 100.0)


def _signed(number: Estimate, form: str, unit: float) -> str:
    value = form.format(unit * number.value)
    if number.low is None or number.high is None:
        return value
    return f"{value} ({form.format(unit * number.low)} to {form.format(unit * number.high)})"


# -- blame -------------------------------------------------------------------------------------------------------------


def blame_table(blames: Sequence[Blame]) -> RenderableType:
    """Single episodes, each in a few sentences."""
    return Group(*(Text("\n".join([one.task_id, *(f"  {line}" for line in sentences(one))])) for one in blames))


def sheet_table(found: Sheet) -> RenderableType:
    """Many episodes: what breaks this agent."""
    failed = sum(found.kinds.values())
    luck = f", {found.luck} of them by luck" if found.successes else ""
    heading = Text(f"{found.episodes} episodes: {found.successes} succeeded{luck}; {failed} failed.")
    if not failed:
        return heading
    table = Table("failures", "")
    table.add_column("count", justify="right")
    _add(table, "lost by", {HOW[kind]: str(count) for kind, count in found.kinds.items()})
    if found.late:
        _add(table, "", {"of the first two, too late already": str(found.late)})
    _add(table, "at the call", _texts(found.tools))
    _add(table, "in the app", _texts(found.apps))
    _add(table, "blind to", _texts(found.blind))
    _add(table, "saw and misjudged", _texts(found.misjudged))
    _add(table, "struck by", {dial: f"{failed} of {struck}" for dial, (failed, struck) in found.dials.items()})
    return Group(heading, table)


def _texts(counts: Mapping[str, int]) -> dict[str, str]:
    return {called(name): str(count) for name, count in counts.items()}


def _add(table: Table, label: str, lines: Mapping[str, str]) -> None:
    for number, (name, count) in enumerate(lines.items()):
        if number == _MOST:
            table.add_row("", f"and {len(lines) - _MOST} more", "")
            return
        table.add_row(label if number == 0 else "", name, count)
