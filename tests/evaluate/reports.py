"""Helpers for tests of reports: a run with pairs, doses and trials, and a chart maker that needs no library."""

from collections.abc import Iterable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

from markupsafe import Markup

from companyos.core.calls import Call
from companyos.env import make
from companyos.evaluate.runs.run import evaluate, on_processes
from companyos.evaluate.stats.doses import Curve
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.suites.suite import suite
from tests.helpers import step, ticket

HOSTILE = "</script><script>document.title = 'lost'</script><img src=x onerror=\"document.title = 'lost'\">"


def mixed_suite(folder: Path, pairs: int = 2, seeds: int = 4) -> str:
    """Write a suite with some pairs of each relevance and some tasks at every dose; return its path."""
    twins, doses = suite("twins").pairs, suite("chaos").tasks
    lines = [pair.line for kind in ("ending", "way", "none") for pair in [p for p in twins if p.relevance == kind][:pairs]]
    path = folder / "mixed.txt"
    path.write_text("\n".join([*lines, *doses[: 5 * seeds]]))
    return str(path)


def mixed_run(folder: Path, agent: str = "naive", trials: int = 2) -> Path:
    run = folder / agent
    evaluate(agent, mixed_suite(folder), trials, run, on_processes(1))
    return run


def hostile_run(folder: Path, text: str = HOSTILE) -> Path:
    """A run whose agent name, calls and replies contain HTML that tries to become part of the page."""
    saved = folder / "<img src=x onerror=alert(1)>$x_$"
    saved.mkdir()
    tasks = suite("chaos").tasks[:15:5]  # at dose 0, so that every call is answered
    for task_id in tasks:
        env = make(task_id)
        step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text=text)
        step(env, "ticketdesk.get_history", ticket_id=ticket(env).id)
        env.step(Call(text, text, {text: text}))
        env.step(text)
        (saved / f"{task_id}.jsonl").write_text(env.transcript().to_jsonl())
    own = folder / "own.txt"
    own.write_text("\n".join(tasks))
    run = folder / "hostile"
    evaluate(f"saved:{saved}", str(own), 1, run, on_processes(1))
    return run


def _svg(title: str, descriptions: Iterable[str]) -> Markup:
    inside = Markup("").join(Markup("<desc>{}</desc>").format(one) for one in descriptions)
    return Markup("<svg><title>{}</title>{}</svg>").format(title, inside)


class Sketcher:
    """Names the content of a figure instead of drawing it."""

    def dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup:
        return _svg(title, [f"{run} at {', '.join(curve.doses)}" for run, curve in curves])

    def small_dose_response(self, curves: Sequence[tuple[int, Curve]], title: str) -> Markup:
        return self.dose_response(curves, title)

    def intervals(
        self, rows: Sequence[str], numbers: Sequence[tuple[int, Mapping[str, Estimate]]], title: str, signed: bool = False
    ) -> Markup:
        return _svg(title, [f"{run}: {', '.join(found)}" for run, found in numbers])


class Tags(HTMLParser):
    """What a browser reads from a page: its tags with their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]
