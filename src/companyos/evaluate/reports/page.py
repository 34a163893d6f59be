"""Writes a report as one HTML file that loads nothing else: no script, style, font or picture from another place."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from companyos.core.episode import CANARY
from companyos.evaluate.reports import panels
from companyos.evaluate.reports.blame_panel import blame_panel
from companyos.evaluate.reports.markup import jinja_environment
from companyos.evaluate.reports.report import Report, ReportedRun
from companyos.evaluate.runs.submission import WHAT_SUBMIT_CHECK_PROVES
from companyos.evaluate.stats.headline import NO_NUMBER_TEXT, markdown

_TEMPLATES = files("companyos.evaluate.reports") / "templates"
_LETTERS = "ABCDEFGH"  # the names of the runs in the page
_OPEN_MAPS = 2  # the heat maps of this many runs are unfolded


class Section(NamedTuple):
    """A part of the page: its id (also the name of its template), its title, and what the template shows."""

    id: str
    title: str
    panel: Any


def write(report: Report, charts: panels.ChartMaker, page: Path) -> Path:
    """Write the page, with charts made by `charts`, and beside it the Markdown table, whose path is returned."""
    table = page.with_suffix(".md")
    page.write_text(html(report, charts), encoding="utf-8")
    table.write_text(text(report), encoding="utf-8")
    return table


def text(report: Report) -> str:
    """The headline numbers as a Markdown table."""
    names = [_run_name(index, reported) for index, reported in enumerate(report.runs)]
    return markdown(names, [reported.run.results for reported in report.runs])


def html(report: Report, charts: panels.ChartMaker) -> str:
    """The whole page. Its content security policy allows only its own script to run, and nothing to be fetched."""
    sections = (
        Section("numbers", "Numbers", panels.numbers(report)),
        Section("doses", "Dose-response", panels.doses(report, charts)),
        Section("families", "Families and dials", panels.families(report, charts)),
        Section("causes", "Causes", panels.causes(report, charts)),
        Section("blame", "Blame", blame_panel(report)),
        Section("episodes", "Episodes", panels.episodes(report)),
    )
    program = _file("report.js")
    return (
        jinja_environment()
        .get_template("report.html")
        .render(
            report=report,
            sections=[section for section in sections if section.panel is not None],
            title=", ".join(_run_name(index, reported) for index, reported in enumerate(report.runs)),
            style=Markup(_file("report.css")),
            program=Markup(program),
            program_hash=b64encode(sha256(program.encode()).digest()).decode(),
            LETTERS=_LETTERS,
            OPEN_MAPS=_OPEN_MAPS,
            NO_NUMBER_TEXT=NO_NUMBER_TEXT,
            WHAT_SUBMIT_CHECK_PROVES=WHAT_SUBMIT_CHECK_PROVES,
            CANARY=CANARY,
        )
    )


def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _run_name(index: int, reported: ReportedRun) -> str:
    return f"{_LETTERS[index]} {reported.run.plan.agent} on {reported.run.plan.suite}"
