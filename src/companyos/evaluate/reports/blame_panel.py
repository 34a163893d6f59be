"""Blame's panel: what breaks each agent, and what it had been shown by then."""

from collections import Counter
from collections.abc import Mapping

from companyos.evaluate.judge.blame import ACT, DAMAGE, TIME, Blame, sheet
from companyos.evaluate.reports.frame import Section, about_text, breakable, chip, scrolling, section, table_of
from companyos.evaluate.reports.markup import Markup, tag
from companyos.evaluate.reports.report import Report, Shown

_MOST = 8  # lines of a sort
BLIND, SAW, OTHERWISE = "wrongly, and blind", "wrongly, having seen", "wrongly, otherwise"
TOO_LATE, LUCKY, RIGHT = "never: time ran out", "rightly, by luck", "rightly"
SIGHTS = (BLIND, SAW, OTHERWISE, TOO_LATE, LUCKY, RIGHT)
_LOST = {ACT: "an act that nothing takes back", DAMAGE: "damage that cannot be put back", TIME: "lack of time"}


def blames(report: Report) -> Section:
    """What breaks each agent."""
    about = (
        "The decisive call is the one after the last state from which the expert, taking over, still wins. Blind: all that "
        "it was shown was the same, byte for byte, as on a twin that must end otherwise. Luck: a success that was blind."
    )
    panels = [_blame(number, one) for number, one in enumerate(report.shown)]
    return section("blame", "Blame", about, _sights(report), *panels)


def _sights(report: Report) -> Markup:
    """How episodes were decided, and what their agent had been shown by then."""
    columns = [Counter(_sight(one.blame) for one in shown.looked) for shown in report.shown]
    rows = [
        tag("tr", tag("th", sight, scope="row"), *(tag("td", f"{column[sight]:,}") for column in columns))
        for sight in SIGHTS
    ]
    looked = tag("tr", tag("th", "looked at", scope="row"), *(tag("td", f"{column.total():,}") for column in columns))
    table = table_of(["decided", *(chip(number) for number in range(len(columns)))], [*rows, looked], "small")
    return scrolling("How episodes were decided", table)


def _sight(found: Blame) -> str:
    if found.success:
        return LUCKY if found.luck else RIGHT
    if found.kind == TIME:
        return TOO_LATE
    if found.blind:
        return BLIND
    return SAW if found.misjudged else OTHERWISE


def _blame(number: int, shown: Shown) -> Markup:
    found = sheet(one.blame for one in shown.looked)
    won = sum(one.success for one in shown.run.outcomes)
    failed = len(shown.run.outcomes) - won
    looked = (
        f"Looked at {found.episodes - found.successes:,} of {failed:,} that failed and {found.successes:,} of {won:,} that "
        "succeeded, of every family alike."
    )
    bars = (
        _bars("Lost by", {_LOST[kind]: count for kind, count in found.kinds.items()}),
        _bars("Decisive call", found.tools),
        _bars("In the app", found.apps),
        _bars("Blind to", found.blind),
        _bars("Saw and misjudged", found.misjudged),
    )
    title = tag("h3", chip(number), f"{shown.run.plan.agent} on {shown.run.plan.suite}")
    return tag("div", title, about_text(looked), tag("div", *bars, class_="bars"))


def _bars(title: str, counts: Mapping[str, int]) -> Markup | None:
    if not counts:
        return None
    most = max(counts.values())
    rows = [
        tag(
            "tr",
            tag("th", breakable(name), scope="row"),
            tag("td", tag("i", style=f"--share: {100 * count / most:.0f}%"), str(count)),
        )
        for name, count in list(counts.items())[:_MOST]
    ]
    if len(counts) > _MOST:
        rows.append(tag("tr", tag("td", f"and {len(counts) - _MOST} more", colspan=2)))
    return tag("table", tag("caption", title), tag("tbody", *rows))
