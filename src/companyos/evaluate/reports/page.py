"""Page: a report as one HTML file that asks nothing of anybody: no script, style, font or picture from elsewhere."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template

from companyos.core.episode import CANARY
from companyos.evaluate.reports import panels
from companyos.evaluate.reports.blame_panel import blames
from companyos.evaluate.reports.frame import LETTERS, Section, chip, section
from companyos.evaluate.reports.markup import Markup, data_block, joined, tag
from companyos.evaluate.reports.report import Report, Shown
from companyos.evaluate.runs.submission import WHAT_IT_PROVES
from companyos.evaluate.stats.headline import markdown

_TEMPLATES = files("companyos.evaluate.reports") / "templates"


def write(report: Report, artist: panels.Artist, page: Path) -> Path:
    """Writes the page, and beside it the table, whose place is given."""
    table = page.with_suffix(".md")
    page.write_text(html(report, artist), encoding="utf-8")
    table.write_text(text(report), encoding="utf-8")
    return table


def text(report: Report) -> str:
    """The headline as a table in Markdown."""
    names = [_name(number, one) for number, one in enumerate(report.shown)]
    return markdown(names, [one.run.results for one in report.shown])


def html(report: Report, artist: panels.Artist) -> str:
    """The whole page. Its policy lets no program run but the one below, and nothing be fetched."""
    sections = [
        panels.headline(report),
        panels.doses(report, artist),
        panels.families(report, artist),
        panels.causes(report, artist),
        blames(report),
        _episodes(report),
    ]
    there = [one for one in sections if one is not None]
    program = _template("report.js")
    return Template(_template("report.html")).substitute(
        title=joined(", ".join(_name(number, one) for number, one in enumerate(report.shown))),
        program_hash=b64encode(sha256(program.encode()).digest()).decode(),
        style=_template("report.css"),
        heading=_heading(report, there),
        body=tag("main", *(one.content for one in there)),
        footing=_footing(),
        program=program,
    )


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _name(number: int, shown: Shown) -> str:
    plan = shown.run.plan
    return f"{LETTERS[number]} {plan.agent} on {plan.suite}"


def _heading(report: Report, sections: Iterable[Section]) -> Markup:
    """Which runs these are, and what there is to see."""
    runs = [
        tag(
            "li",
            chip(number),
            tag("strong", one.run.plan.agent),
            f" on {one.run.plan.suite}, version {one.run.plan.version}: ",
            f"{len(one.run.suite.tasks):,} tasks, {_count(one.run.plan.trials, 'trial')} each",
        )
        for number, one in enumerate(report.shown)
    ]
    ways = tag("nav", *(tag("a", section.title, href=f"#{section.id}") for section in sections), aria_label="Sections")
    return tag("header", tag("h1", "CompanyOS report"), tag("ul", *runs, class_="runs"), ways)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _episodes(report: Report) -> Section:
    """A player, and what it plays."""
    about = (
        "Every call made again, step by step: failures first. The red mark is the decisive call, a dot a milestone reached."
    )
    player = tag("div", tag("noscript", tag("p", "Playing an episode takes JavaScript.")), id="player")
    data = {"runs": [one.run.plan.agent for one in report.shown], "episodes": report.episodes}
    return section("episodes", "Episodes", about, player, data_block("playbacks", data))


def _footing() -> Markup:
    return tag(
        "footer",
        tag(
            "p",
            "Numbers stand as the run's results.json states them; companyos submit-check recomputes them. ",
            WHAT_IT_PROVES,
        ),
        tag("p", "docs/metrics.md defines every number. Please keep this out of training data: ", tag("code", CANARY)),
    )
