"""Gallery: what there is to work on, what can go wrong, and what agents came to, as far as their runs lie in a folder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.chaos import DIALS
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.reports.report import Run
from companyos.evaluate.stats.doses import ALL, Curve
from companyos.evaluate.stats.headline import DETAILS, HEADLINE, NOTHING, PERCENT, Said, write
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import Results
from companyos.families import FAMILIES
from companyos.families.kit.case import Fact
from companyos.serve.http.requests import caller_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.truth import Truth
from companyos.web.aside import Given, R
from companyos.web.charts import Line, plot, whisker
from companyos.web.episode.story import about_dial
from companyos.web.shelf import Log, Result, Shelf, is_number
from companyos.web.site import Site
from companyos.web.words import asked, in_words

MOST_LINES = 8  # of one picture: as many colours as there are
MOST_EPISODES = 200  # of a run, on one page
# What training logs call what people look for first, in their order. All else that is a number comes after.
_FIRST = ("success", "reward", "loss", "checkup/success", "checkup/pair_pass", "invalid", "routing", "twins", "dose")
_SHARES = ("success", "invalid", "routing", "twins", "dose", "teaching", "clipped", "pair_pass", "recovery", "invalid_calls")
_NO_CURVES = ("update", "elapsed", "seed")


class Gallery:
    """The pages at `/gallery`."""

    place, title = "/gallery", "Gallery"

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self._truth = shelf, Truth()

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._site, self._lane = site, lane
        site.templates.globals |= {"share": share}
        app.router.routes.extend(
            [
                Route("/gallery", self.all),
                Route("/gallery/run", self.run),
                Route("/gallery/training", self.training),
            ]
        )

    async def _read(self, function: Callable[[*Given], R], *given: *Given) -> R:
        """Read files in a process of its own; where there is no folder, there is nothing to read."""
        return function(*given) if self._shelf.folder is None else await self._site.aside.run(function, *given)

    async def all(self, request: Request) -> Response:
        """Families, dials, runs."""
        runs, logs = await self._read(_all, self._shelf)
        return self._site.page(
            "gallery.html",
            has_folder=self._shelf.folder is not None,
            runs=[(one, [line.say(one.results) for line in HEADLINE]) for one in runs],
            heads=[line.label for line in HEADLINE],
            doses=_together(runs),
            logs=[(log, *_summary(log)) for log in logs],
            families=[(name, *asked(one), *_counts(name)) for name, one in FAMILIES.items()],
            dials=[(in_words(dial), one.letter, about_dial(dial)) for dial, one in DIALS.items()],
        )

    async def run(self, request: Request) -> Response:
        """What one evaluation came to."""
        asked_for = request.query_params
        name, family, ending = (asked_for.get(key, "") for key in ("at", "family", "ended"))
        found, run = await self._read(_one, self._shelf, name)
        results = found.results
        outcomes = sorted(run.outcomes, key=lambda one: (one.success, one.task_id, one.trial)) if run else []
        told = await self._told(request, outcomes)
        chosen = [one for one in told if _is_chosen(one, family, ending)]
        return self._site.page(
            "run.html",
            it=found,
            numbers=[(line, line.say(results)) for line in (*HEADLINE, *DETAILS) if line.say(results).value != NOTHING],
            curves=[_dosed(dosed, curve) for dosed, curve in results.overall.curves.items()],
            families=[(in_words(name), name, block) for name, block in results.families.items()],
            columns=_columns(results),
            dials=_lost(results),
            episodes=[(one, _replay(name, one)) for one in chosen[:MOST_EPISODES]],
            counts=(len(chosen), len(outcomes)),
            withheld=len(outcomes) - len(told),
            filters={"family": family, "ended": ending},
        )

    async def _told(self, request: Request, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Those episodes whose right ending the visitor may see: not of tasks that have an unfinished session here."""
        if caller_of(request).trusted or not outcomes:
            return outcomes
        tasks = {one.task_id: task for one in outcomes if (task := _task(one.task_id)) is not None}
        open_tasks = await self._lane.run(lambda sessions: self._truth.unfinished(sessions, tasks.values()))
        return [one for one in outcomes if one.task_id not in tasks or tasks[one.task_id].key not in open_tasks]

    async def training(self, request: Request) -> Response:
        """What one training run has logged."""
        name = request.query_params.get("at", "")
        log = await self._read(self._shelf.log, name)
        series = _series(log.records)
        order = sorted(series, key=lambda one: (_FIRST.index(one) if one in _FIRST else len(_FIRST), one))
        drawn = [(_said(one), plot([Line(one, series[one])], one, "updates", _is_share(one, series[one]))) for one in order]
        seconds = log.records[-1].get("elapsed") if log.records else None
        return self._site.page("training.html", it=log, curves=drawn, updates=len(log.records), seconds=seconds)


def _all(shelf: Shelf) -> tuple[list[Result], list[Log]]:
    return shelf.runs(), shelf.logs()


def _one(shelf: Shelf, name: str) -> tuple[Result, Run | None]:
    return shelf.result(name), shelf.run(name)


def share(number: Estimate | None) -> Markup | str:
    """A share with its interval, as a number and as a picture."""
    if number is None:
        return NOTHING
    said = write(number, PERCENT)
    drawn = whisker(number.value, number.low, number.high)
    return Markup("{}<b>{}</b> <small>{}</small>").format(drawn, said.value, said.interval)


# -- evaluations -------------------------------------------------------------------------------------------------------


def _counts(name: str) -> tuple[int, int]:
    """How many facts and how many troubles a family has."""
    specs = FAMILIES[name].specs()
    facts = sum(isinstance(cause.mark, Fact) for cause in specs)
    return facts, len(specs) - facts


def _line(name: str, curve: Curve) -> Line:
    doses = [(float(dose), found) for dose, found in curve.doses.items()]
    bands = [(x, one.low, one.high) for x, one in doses if one.low is not None and one.high is not None]
    return Line(name, [(x, one.value) for x, one in doses], bands)


def _dosed(dosed: str, curve: Curve) -> tuple[str, str, Markup]:
    title = f"Success over the dose of {'all dials' if dosed == ALL else in_words(dosed).lower()}"
    said = f"area {100 * curve.area.value:.1f} %, halved at {curve.ec50.text}"
    return title, said, plot([_line("success", curve)], title, "dose of trouble", share=True)


def _together(runs: Sequence[Result]) -> tuple[Markup, list[str]] | None:
    """Runs that were dosed, in one picture."""
    dosed = [(one.agent, one.results.overall.curves[ALL]) for one in runs if ALL in one.results.overall.curves]
    if not dosed:
        return None
    lines = [_line(agent, curve) for agent, curve in dosed[:MOST_LINES]]
    return plot(lines, "Success over the dose of all dials", "dose of trouble", True, 240), [line.name for line in lines]


def _columns(results: Results) -> list[tuple[str, str]]:
    """The numbers that some family has, of those that are shares of something."""
    shown = {line.label: name for line, name in zip((*HEADLINE, *DETAILS), _NAMES, strict=True) if name}
    return [(label, name) for label, name in shown.items() if any(name in one.numbers for one in results.families.values())]


# The numbers of a block that stand behind the lines of the headline, in their order; none where it is made of a curve.
_NAMES = (
    "success", "", "score", "pair_pass", "", "", "", "", "efficiency", "routing", "recovery", "damage", "invalid_calls",
    "refused_calls", "refusal_precision", "refusal_recall", "", "",
)  # fmt: skip


def _lost(results: Results) -> list[tuple[str, Said, int]]:
    """What each dial costs, the dearest first."""
    found = [
        (in_words(dial), block.numbers["success_lost"], block.episodes)
        for dial, block in results.dials.items()
        if "success_lost" in block.numbers
    ]
    return [(dial, write(lost, PERCENT), struck) for dial, lost, struck in sorted(found, key=lambda one: -one[1].value)]


def _task(task_id: str) -> TaskId | None:
    """A task by its id; None where it is of another version of the benchmark, of which this server holds no session."""
    try:
        return TaskId.parse(task_id)
    except BadTask:
        return None


def _is_chosen(one: Outcome, family: str, ending: str) -> bool:
    return (not family or one.family == family) and (not ending or one.success == (ending == "success"))


def _replay(run: str, one: Outcome) -> str:
    return f"/replay/episode?{urlencode({'run': run, 'task': one.task_id, 'trial': one.trial})}"


# -- training ----------------------------------------------------------------------------------------------------------

Points = list[tuple[float, float]]


def _series(records: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    """All that was logged more than once as a number, by name, over updates; of what lies deeper, only checkups."""
    found: dict[str, Points] = {}
    for record in records:
        inner = {f"checkup/{name}": value for name, value in _mapping(record.get("checkup")).items()}
        for name, value in {**record, **inner}.items():
            if name not in _NO_CURVES and is_number(value):
                found.setdefault(name, []).append((float(record["update"]), float(value)))
    return {name: points for name, points in found.items() if len(points) > 1}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _summary(log: Log) -> tuple[str, Markup | None, int]:
    """What is looked for first in a log: its name, its curve, and how many updates there were."""
    series = _series(log.records)
    name = next((one for one in _FIRST if one in series), "")
    drawn = plot([Line(name, series[name])], _said(name), "updates", _is_share(name, series[name]), 150) if name else None
    return _said(name), drawn, len(log.records)


def _is_share(name: str, points: Points) -> bool:
    return name.rpartition("/")[2] in _SHARES and all(0 <= value <= 1 for _, value in points)


def _said(name: str) -> str:
    before, _, last = name.rpartition("/")
    return in_words(last) + (" on held-out tasks" if before == "checkup" else "")
