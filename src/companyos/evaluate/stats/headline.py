"""The numbers that summarise a run: for each its label, its meaning and how it is written."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import Results

NO_NUMBER_TEXT = "–"  # written when there was nothing to count


class NumberFormat(NamedTuple):
    """How a kind of number is written."""

    text: str
    unit: float = 1.0  # the number is multiplied by this
    scale: tuple[float, float] | None = None  # the lowest and the highest possible value; None if there are none

    def format(self, number: float) -> str:
        return self.text.format(self.unit * number).replace("-", "−")


PERCENT = NumberFormat("{:.1f}", 100.0, (0.0, 1.0))
SHARE = NumberFormat("{:.3f}", 1.0, (0.0, 1.0))
SIGNED = NumberFormat("{:+.2f}")
WHOLE = NumberFormat("{:,.0f}")
MONEY = NumberFormat("{:.3f}")


class FormattedNumber(NamedTuple):
    """A number as text: value, interval and a note. `estimate` is the number behind it, if there is one."""

    value: str
    interval: str = ""
    note: str = ""
    estimate: Estimate | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, [self.value, self.interval and f"({self.interval})", self.note]))


class SummaryLine(NamedTuple):
    """One of the numbers that summarise a run."""

    label: str
    meaning: str
    form: NumberFormat
    format: Callable[[Results], FormattedNumber]
    metric: str = ""  # the name of the metric that the line shows; empty: the line is computed


def format_number(number: Estimate | None, form: NumberFormat, note: str = "") -> FormattedNumber:
    """Write a number with its interval. `form` says how, `note` is added."""
    if number is None:
        return FormattedNumber(NO_NUMBER_TEXT)
    sign = " %" if form is PERCENT else ""
    dash = " to " if form is SIGNED else "–"
    no_interval = number.low is None or number.high is None
    interval = "" if no_interval else f"{form.format(number.low or 0.0)}{dash}{form.format(number.high or 0.0)}"
    return FormattedNumber(form.format(number.value) + sign, interval, note, number)


def _metric(name: str, label: str, meaning: str, form: NumberFormat = PERCENT) -> SummaryLine:
    """A line that shows the metric `name` as it is."""
    return SummaryLine(label, meaning, form, lambda results: format_number(results.overall.numbers.get(name), form), name)


def _pass_k(results: Results) -> FormattedNumber:
    """pass^k for the largest number of trials."""
    names = [name for name in results.overall.numbers if name.startswith("pass^")]
    if not names:
        return FormattedNumber(NO_NUMBER_TEXT)
    largest = max(names, key=lambda name: int(name.removeprefix("pass^")))
    return format_number(results.overall.numbers[largest], PERCENT, f"k = {largest.removeprefix('pass^')}")


def _curve(results: Results) -> Curve | None:
    return results.overall.curves.get(ALL)


def _area(results: Results) -> FormattedNumber:
    """The area under the dose-response curve of all dials."""
    curve = _curve(results)
    return format_number(curve.area if curve else None, PERCENT)


def _ec50(results: Results) -> FormattedNumber:
    curve = _curve(results)
    if curve is None:
        return FormattedNumber(NO_NUMBER_TEXT)
    value, _, interval = curve.ec50.text.partition(" (")
    return FormattedNumber(value, interval.removesuffix(")"))


HEADLINE = (
    _metric("success", "Success", "every goal holds at the end, and nothing is damaged"),
    SummaryLine("pass^k", "k trials of one task all succeed", PERCENT, _pass_k),
    _metric("score", "Score", "0.9 to 1 for a success; up to 0.4 for the milestones of a failure", SHARE),
    _metric("pair_pass", "Pair-pass", "a task and its twin, which looks the same but must end differently, both succeed"),
    _metric(
        "causal_sensitivity",
        "Causal sensitivity",
        "how much more often it decides differently where the right ending differs",
        SIGNED,
    ),
    SummaryLine("Dose area", "mean success over all doses of trouble", PERCENT, _area),
    SummaryLine("EC50", "the dose of trouble that halves success", SHARE, _ec50),
)
DETAILS = (
    _metric("return", "Return", "in the reward profile dense", SIGNED),
    _metric("efficiency", "Efficiency", "the expert's steps divided by its own, in successes"),
    _metric("routing", "Routing", "calls to an app that had an open milestone"),
    _metric("recovery", "Recovery", "calls without an answer after which a later call was answered"),
    _metric("damage", "Damage", "episodes that left an unwanted change behind"),
    _metric("agent_raised", "Agent raised", "episodes that the agent lost by an exception; see *.error.txt"),
    _metric("invalid_calls", "Invalid calls", "unknown tool, or arguments that it does not accept"),
    _metric("refused_calls", "Refused calls", "refused by a rule of the company"),
    _metric("refusal_precision", "Refusals, precision", "share of the tasks it called impossible that are impossible"),
    _metric("refusal_recall", "Refusals, recall", "share of the impossible tasks that it called impossible"),
    _metric("tokens", "Tokens", "per episode, as the endpoint reports them", WHOLE),
    _metric("cost", "Cost", "per episode, as the endpoint reports it", MONEY),
    _metric("seconds", "Seconds", "per episode of a person, by the clock on the wall", WHOLE),
)


def lines_for(runs: Sequence[Results], lines: Iterable[SummaryLine]) -> list[SummaryLine]:
    """The lines for which at least one run has a number."""
    return [line for line in lines if any(line.format(results).value != NO_NUMBER_TEXT for results in runs)]


def markdown(columns: Sequence[str], runs: Sequence[Results]) -> str:
    """The numbers as a Markdown table, with one column per run."""
    rows = [["", *map(escape_cell, columns)], ["---", *["---:"] * len(columns)]]
    rows += [[line.label, *(str(line.format(results)) for results in runs)] for line in HEADLINE]
    rows += [[line.label, *(str(line.format(results)) for results in runs)] for line in lines_for(runs, DETAILS)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def escape_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    signs = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;", "[": "&#91;", "*": "&#42;", "_": "&#95;"}
    return "".join(signs.get(sign, sign) for sign in " ".join(text.split()))
