"""Headline: the numbers that a run is told by, each with its name, its meaning and its way of being written."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import Results

NOTHING = "–"  # where there was nothing to count


class Form(NamedTuple):
    """How numbers of a sort are written."""

    text: str
    unit: float = 1.0
    ends: tuple[float, float] | None = None  # between which they lie

    def write(self, number: float) -> str:
        return self.text.format(self.unit * number).replace("-", "−")


PERCENT = Form("{:.1f}", 100.0, (0.0, 1.0))
SHARE = Form("{:.3f}", 1.0, (0.0, 1.0))
SIGNED = Form("{:+.2f}")
WHOLE = Form("{:,.0f}")
MONEY = Form("{:.3f}")


class Said(NamedTuple):
    """A number in words: its value, its interval, what else is to be said, and the number itself where it is one."""

    value: str
    interval: str = ""
    note: str = ""
    number: Estimate | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, [self.value, self.interval and f"({self.interval})", self.note]))


class Line(NamedTuple):
    """One of the numbers that a run is told by."""

    label: str
    meaning: str
    form: Form
    say: Callable[[Results], Said]


def write(number: Estimate | None, form: Form, note: str = "") -> Said:
    if number is None:
        return Said(NOTHING)
    sign = " %" if form is PERCENT else ""
    dash = " to " if form is SIGNED else "–"
    unsure = number.low is None or number.high is None
    interval = "" if unsure else f"{form.write(number.low or 0.0)}{dash}{form.write(number.high or 0.0)}"
    return Said(form.write(number.value) + sign, interval, note, number)


def _plain(name: str, label: str, meaning: str, form: Form = PERCENT) -> Line:
    return Line(label, meaning, form, lambda results: write(results.overall.numbers.get(name), form))


def _all_k(results: Results) -> Said:
    """pass^k for the most trials that there are."""
    tried = [name for name in results.overall.numbers if name.startswith("pass^")]
    if not tried:
        return Said(NOTHING)
    most = max(tried, key=lambda name: int(name.removeprefix("pass^")))
    return write(results.overall.numbers[most], PERCENT, f"k = {most.removeprefix('pass^')}")


def _curve(results: Results) -> Curve | None:
    return results.overall.curves.get(ALL)


def _area(results: Results) -> Said:
    curve = _curve(results)
    return write(curve.area if curve else None, PERCENT)


def _ec50(results: Results) -> Said:
    curve = _curve(results)
    if curve is None:
        return Said(NOTHING)
    value, _, interval = curve.ec50.text.partition(" (")
    return Said(value, interval.removesuffix(")"))


HEADLINE = (
    _plain("success", "Success", "every goal holds at the end, and nothing was damaged"),
    Line("pass^k", "k trials of one task all succeed", PERCENT, _all_k),
    _plain("score", "Score", "0.9 and more for a success; else at most 0.4, for what stands", SHARE),
    _plain("pair_pass", "Pair-pass", "both of two tasks that look alike and must end otherwise"),
    _plain(
        "causal_sensitivity", "Causal sensitivity", "how much more often it decides otherwise where that is right", SIGNED
    ),
    Line("Dose area", "success, on average over all doses of trouble", PERCENT, _area),
    Line("EC50", "the dose of trouble that halves success", SHARE, _ec50),
)
DETAILS = (
    _plain("return", "Return", "by the reward profile dense", SIGNED),
    _plain("efficiency", "Efficiency", "the expert's steps by its own, where it succeeded"),
    _plain("routing", "Routing", "calls to an app in which there was something left to reach"),
    _plain("recovery", "Recovery", "calls without an answer that were got past"),
    _plain("damage", "Damage", "episodes that left behind what nobody called for"),
    _plain("invalid_calls", "Invalid calls", "no such tool, or arguments that it does not take"),
    _plain("refused_calls", "Refused calls", "turned down by a rule of the company"),
    _plain("refusal_precision", "Refusals, precision", "of the tasks it called impossible, those that were"),
    _plain("refusal_recall", "Refusals, recall", "of the impossible tasks, those it called so"),
    _plain("tokens", "Tokens", "an episode, as the endpoint says", WHOLE),
    _plain("cost", "Cost", "an episode, as the endpoint says", MONEY),
)


def lines_for(runs: Sequence[Results], lines: Iterable[Line]) -> list[Line]:
    """Those lines that there is something to say in."""
    return [line for line in lines if any(line.say(results).value != NOTHING for results in runs)]


def markdown(columns: Sequence[str], runs: Sequence[Results]) -> str:
    """The numbers as a table in Markdown, a run a column."""
    rows = [["", *map(plain, columns)], ["---", *["---:"] * len(columns)]]
    rows += [[line.label, *(str(line.say(results)) for results in runs)] for line in HEADLINE]
    rows += [[line.label, *(str(line.say(results)) for results in runs)] for line in lines_for(runs, DETAILS)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def plain(text: str) -> str:
    """A text that stands in a cell of a Markdown table as it is, whatever signs it holds."""
    signs = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;", "[": "&#91;", "*": "&#42;", "_": "&#95;"}
    return "".join(signs.get(sign, sign) for sign in " ".join(text.split()))
