"""Frame: what the parts of a report's page are put together from."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from companyos.evaluate.reports.markup import Content, Markup, tag
from companyos.evaluate.reports.report import Report

LETTERS = "ABCDEFGH"  # by which runs are called


class Section(NamedTuple):
    """A part of the page that one can go to."""

    id: str
    title: str
    content: Markup


def section(id: str, title: str, about: str, *content: Content) -> Section:
    inside = tag(
        "section", tag("h2", title, id=f"{id}-title"), about_text(about), *content, id=id, aria_labelledby=f"{id}-title"
    )
    return Section(id, title, inside)


def about_text(text: str) -> Markup:
    return tag("p", text, class_="about")


def breakable(name: str) -> list[Content]:
    """A name of several words that may go on in the next line after a dot or a low line."""
    return [piece for part in re.findall(r"[^._]*[._]?", name) for piece in (part, tag("wbr"))]


def table_of(head: Iterable[Content], rows: Iterable[Markup], class_: str | None = None) -> Markup:
    return tag(
        "table",
        tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))),
        tag("tbody", *rows),
        class_=class_,
    )


def chip(number: int) -> Markup:
    return tag("span", LETTERS[number], class_="chip", style=f"--run: var(--run-{number})")


def scrolling(label: str, content: Markup) -> Markup:
    """What is wider than a small screen: it scrolls by itself, with the keyboard too."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def legend(report: Report, runs: Iterable[int]) -> Markup:
    return tag("span", *(tag("span", chip(n), report.shown[n].run.plan.agent) for n in sorted(set(runs))), class_="legend")
