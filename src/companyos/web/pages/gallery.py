"""The gallery: families, dials, and the results of runs in the results folder (`companyos serve --results DIR`)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

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
from companyos.evaluate.stats.headline import (
    DETAILS,
    HEADLINE,
    NO_NUMBER_TEXT,
    PERCENT,
    SHARE,
    FormattedNumber,
    format_number,
)
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import Results
from companyos.families import FAMILIES
from companyos.families.kit.case import Fact
from companyos.serve.http.requests import client_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.truth import TruthAccess
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.background import Args, T
from companyos.web.charts import ChartLine, interval_chart, plot
from companyos.web.episode.turn_recorder import dial_description
from companyos.web.labels import in_words, title_and_question
from companyos.web.results_folder import EvaluationSummary, ResultsFolder, TrainingLog, is_number
from companyos.web.site import Site

MAX_CURVES = 8  # in one chart; the style sheet has that many colours
MAX_EPISODES = 200  # listed on the page of a run
# The names in training logs that people look for first, in this order. Other numbers follow.
_FIRST_PLOTTED = ("success", "reward", "loss", "checkup/success", "checkup/pair_pass", "invalid", "routing", "twins", "dose")
_SHARE_NAMES = (
    "success",
    "invalid",
    "routing",
    "twins",
    "dose",
    "teaching",
    "clipped",
    "pair_pass",
    "recovery",
    "invalid_calls",
)
_NOT_PLOTTED = ("update", "elapsed", "seed")


class GalleryPages:
    """The pages under `/gallery`."""

    prefix, title = "/gallery", "Gallery"

    def __init__(self, results_folder: ResultsFolder) -> None:
        self._results, self._truth_access = results_folder, TruthAccess()

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue = site, queue
        site.templates.globals |= {"share": share}
        app.router.routes.extend(
            [
                Route("/gallery", self.overview),
                Route("/gallery/run", self.run),
                Route("/gallery/training", self.training),
            ]
        )

    async def _read(self, function: Callable[[*Args], T], *args: *Args) -> T:
        """Read files in the background process. The sample run is small and needs none."""
        return function(*args) if self._results.is_sample else await self._site.background.run(function, *args)

    async def overview(self, request: Request) -> Response:
        """The main page: results, training runs, families and dials."""
        runs, logs = await self._read(_runs_and_logs, self._results)
        return self._site.page(
            "gallery.html",
            is_sample=self._results.is_sample,
            runs=[(run, [line.format(run.results) for line in HEADLINE]) for run in runs],
            heads=[line.label for line in HEADLINE],
            doses=_compare_doses(runs),
            logs=[(log, *_summary(log)) for log in logs],
            families=[(name, *title_and_question(family), *_cause_counts(name)) for name, family in FAMILIES.items()],
            dials=[(in_words(name), dial.letter, dial_description(name)) for name, dial in DIALS.items()],
        )

    async def run(self, request: Request) -> Response:
        """The results of one evaluation run."""
        name, family, ending = (request.query_params.get(key, "") for key in ("at", "family", "ended"))
        summary, run = await self._read(_summary_and_run, self._results, name)
        results = summary.results
        outcomes = sorted(run.outcomes, key=lambda outcome: (outcome.success, outcome.task_id, outcome.trial)) if run else []
        visible = await self._visible(request, outcomes)
        chosen = [outcome for outcome in visible if _is_chosen(outcome, family, ending)]
        return self._site.page(
            "gallery_run.html",
            run=summary,
            numbers=[
                (line, line.format(results))
                for line in (*HEADLINE, *DETAILS)
                if line.format(results).value != NO_NUMBER_TEXT
            ],
            curves=[_dose_chart(dial, curve) for dial, curve in results.overall.curves.items()],
            families=[(in_words(name), name, group) for name, group in results.families.items()],
            columns=_columns(results),
            dials=_cost_of_dials(results),
            episodes=[
                (outcome, _replay_address(name, outcome, family, ending), row_id(outcome.task_id, outcome.trial))
                for outcome in chosen[:MAX_EPISODES]
            ],
            counts=(len(chosen), len(outcomes)),
            withheld=len(outcomes) - len(visible),
            filters={"family": family, "ended": ending},
        )

    async def _visible(self, request: Request, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Return the episodes that the visitor may see. Tasks with an unfinished session on this server stay hidden."""
        if client_of(request).trusted or not outcomes:
            return outcomes
        ids = {outcome.task_id for outcome in outcomes}
        tasks = {task_id: task for task_id in ids if (task := _task_or_none(task_id)) is not None}
        open_tasks = await self._queue.run(lambda sessions: self._truth_access.unfinished(sessions, tasks.values()))
        hidden = {task_id for task_id, task in tasks.items() if task.key in open_tasks}
        return [outcome for outcome in outcomes if outcome.task_id not in hidden]

    async def training(self, request: Request) -> Response:
        """The curves of one training run."""
        log = await self._read(self._results.log, request.query_params.get("at", ""))
        series = _series(log.records)
        order = sorted(
            series, key=lambda name: (_FIRST_PLOTTED.index(name) if name in _FIRST_PLOTTED else len(_FIRST_PLOTTED), name)
        )
        curves = [(_curve_title(name), _training_chart(name, series[name], name)) for name in order]
        seconds = log.records[-1].get("elapsed") if log.records else None
        return self._site.page("gallery_training.html", log=log, curves=curves, updates=len(log.records), seconds=seconds)


def _runs_and_logs(results_folder: ResultsFolder) -> tuple[list[EvaluationSummary], list[TrainingLog]]:
    return results_folder.runs(), results_folder.logs()


def _summary_and_run(results_folder: ResultsFolder, name: str) -> tuple[EvaluationSummary, Run | None]:
    return results_folder.result(name), results_folder.run(name)


def share(number: Estimate | None) -> Markup | str:
    """Return a share with its interval, as a number and as a chart."""
    if number is None:
        return NO_NUMBER_TEXT
    text = format_number(number, PERCENT)
    chart = interval_chart(number.value, number.low, number.high)
    return Markup("{}<b>{}</b> <small>{}</small>").format(chart, text.value, text.interval)


# -- evaluations -------------------------------------------------------------------------------------------------------


def _cause_counts(name: str) -> tuple[int, int]:
    """Return the number of a family's facts and troubles."""
    specs = FAMILIES[name].specs()
    facts = sum(isinstance(cause.annotation, Fact) for cause in specs)
    return facts, len(specs) - facts


def _dose_line(name: str, curve: Curve) -> ChartLine:
    """Return success by dose as a line with its intervals."""
    doses = [(float(dose), success) for dose, success in curve.doses.items()]
    bands = [(x, y.low, y.high) for x, y in doses if y.low is not None and y.high is not None]
    return ChartLine(name, [(x, y.value) for x, y in doses], bands)


def _dose_chart(dial: str, curve: Curve) -> tuple[str, str, Markup]:
    """Return the title, the summary and the chart of success by the dose of a dial."""
    title = f"Success over the dose of {'all dials' if dial == ALL else in_words(dial).lower()}"
    summary = f"area {100 * curve.area.value:.1f} %, halved at {curve.ec50.text}"
    return title, summary, plot([_dose_line("success", curve)], title, "dose of trouble", share=True)


def _compare_doses(runs: Sequence[EvaluationSummary]) -> tuple[Markup, list[str]] | None:
    """Return one chart with the dose curves of all runs that have one, and the names of the curves."""
    with_curve = [run for run in runs if ALL in run.results.overall.curves][:MAX_CURVES]
    if not with_curve:
        return None
    runs_of_agent = Counter(run.agent for run in with_curve)
    lines = [
        _dose_line(
            run.agent if runs_of_agent[run.agent] == 1 else f"{run.agent} in {run.name}", run.results.overall.curves[ALL]
        )
        for run in with_curve
    ]
    return plot(lines, "Success over the dose of all dials", "dose of trouble", True, 240), [line.name for line in lines]


def _columns(results: Results) -> list[tuple[str, str]]:
    """Return the columns (label, name) of the families' table: shares that at least one family has."""
    shares = [line for line in (*HEADLINE, *DETAILS) if line.metric and line.form in (PERCENT, SHARE)]
    return [
        (line.label, line.metric)
        for line in shares
        if any(line.metric in summary.numbers for summary in results.families.values())
    ]


def _cost_of_dials(results: Results) -> list[tuple[str, FormattedNumber, int]]:
    """Return each dial's cost in success, the most expensive first."""
    costs = [
        (in_words(dial), summary.numbers["success_lost"], summary.episodes)
        for dial, summary in results.dials.items()
        if "success_lost" in summary.numbers
    ]
    return [
        (dial, format_number(lost, PERCENT), episodes)
        for dial, lost, episodes in sorted(costs, key=lambda cost: -cost[1].value)
    ]


def _task_or_none(task_id: str) -> TaskId | None:
    """Return the task of an id, or None for a task of another benchmark version, which has no session here."""
    try:
        return TaskId.parse(task_id)
    except BadTask:
        return None


def _is_chosen(outcome: Outcome, family: str, ending: str) -> bool:
    return (not family or outcome.family == family) and (not ending or outcome.success == (ending == "success"))


def _replay_address(run: str, outcome: Outcome, family: str, ending: str) -> str:
    """Return the address of an episode's replay, with the filters of the list, to which that page leads back."""
    filters = {name: value for name, value in (("family", family), ("ended", ending)) if value}
    return f"/replay/episode?{urlencode({'run': run, 'task': outcome.task_id, 'trial': outcome.trial} | filters)}"


def row_id(task_id: str, trial: int | str) -> str:
    """Return the id of an episode's row on the page of its run."""
    return f"{task_id}.{trial}"


def list_address(query: Mapping[str, str]) -> str:
    """Return the address of the row from which the replay of an episode was opened, with the same filters."""
    filters = {name: query[name] for name in ("family", "ended") if name in query}
    row = row_id(query.get("task", ""), query.get("trial", "0"))
    return f"/gallery/run?{urlencode({'at': query.get('run', '')} | filters)}#{quote(row)}"


# -- training ----------------------------------------------------------------------------------------------------------

Points = list[tuple[float, float]]


def _series(records: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    """Return all numbers that were logged more than once, by name.

    A checkup is a small evaluation during training. Its numbers are included; other nested values are not.
    """
    series: dict[str, Points] = {}
    for record in records:
        checkup = {f"checkup/{name}": value for name, value in _mapping_or_empty(record.get("checkup")).items()}
        for name, value in {**record, **checkup}.items():
            if name not in _NOT_PLOTTED and is_number(value):
                series.setdefault(name, []).append((float(record["update"]), float(value)))
    return {name: points for name, points in series.items() if len(points) > 1}


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _summary(log: TrainingLog) -> tuple[str, Markup | None, int]:
    """Return the title and chart of a log's most interesting number, and the number of updates."""
    series = _series(log.records)
    name = next((name for name in _FIRST_PLOTTED if name in series), "")
    chart = _training_chart(name, series[name], _curve_title(name), 150) if name else None
    return _curve_title(name), chart, len(log.records)


def _training_chart(name: str, points: Points, title: str, height: int = 190) -> Markup:
    return plot([ChartLine(name, points)], title, "updates", _is_share(name, points), height)


def _is_share(name: str, points: Points) -> bool:
    """Return whether a logged number is a share, which is plotted in percent."""
    return name.rpartition("/")[2] in _SHARE_NAMES and all(0 <= value <= 1 for _, value in points)


def _curve_title(name: str) -> str:
    """Return the title of a logged number: `checkup/success` becomes "Success on held-out tasks"."""
    group, _, metric = name.rpartition("/")
    return in_words(metric) + (" on held-out tasks" if group == "checkup" else "")
