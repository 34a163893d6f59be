"""Report: what the page and the Markdown table of one or more runs show."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice, zip_longest
from pathlib import Path

import msgspec

from companyos.assurance.replay import ReplayedEpisode
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, BadDose, BadTask, ReplayDiffers
from companyos.core.groups import grouped
from companyos.core.parallel import pooled
from companyos.evaluate.judge.blame import Blame, blame
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.judge.playback import Playback, playback
from companyos.evaluate.runs.episode_file import EpisodeKey, saved_episode
from companyos.evaluate.runs.run import OUTCOMES_FILE, RESULTS_FILE, SUITE_FILE, BadRun, RunPlan, plan_of
from companyos.evaluate.stats.compare import Comparison, compare
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import ENDING, SAME_WORK, WAY, Results, summarise
from companyos.evaluate.suites.suite import Suite, read_suite

MAX_RUNS = 8  # as many as there are colours to tell them apart
FAILURES, SUCCESSES = 60, 40  # at most this many episodes of a run are examined: this takes some seconds
MAX_PLAYED = 12  # episodes that the page can play, of all runs together
MAX_BYTES = 1_500_000  # size of their data


class Run(msgspec.Struct, frozen=True):
    """A finished run, read from its folder."""

    folder: Path
    plan: RunPlan
    results: Results
    suite: Suite
    outcomes: tuple[Outcome, ...]


class ExaminedEpisode(msgspec.Struct, frozen=True):
    """An episode with its blame and, if the page can play it, its playback."""

    outcome: Outcome
    blame: Blame
    playback: Playback | None


class ReportedRun(msgspec.Struct, frozen=True):
    """A run with everything that its report shows."""

    run: Run
    examined: tuple[ExaminedEpisode, ...]
    decision_changed: dict[str, Estimate]  # how often the decisions on a task and its twin differ, by relevance
    beside_first: Comparison | None  # None for the first run, and for a run that shares no tasks with it


class Report(msgspec.Struct, frozen=True):
    """Everything that a page shows."""

    runs: tuple[ReportedRun, ...]
    episodes: tuple[Playback, ...]


Watch = Callable[[Iterator[ExaminedEpisode], int], Iterable[ExaminedEpisode]]


def report_on(folders: Sequence[Path], workers: int = 1, watch: Watch = lambda examined, total: examined) -> Report:
    """Read runs, examine a sample of their episodes and choose some to play. `BadRun` says what is wrong."""
    if len(folders) > MAX_RUNS:
        raise BadRun(f"{len(folders)} runs are too many for one page; give at most {MAX_RUNS}")
    runs = [read_run(folder) for folder in folders]
    samples = [sample(run.outcomes) for run in runs]
    played = set(playing_order(samples)[:MAX_PLAYED])
    jobs = [
        _Job(run_index, runs[run_index].folder, outcome, played=(run_index, index) in played)
        for run_index, outcomes in enumerate(samples)
        for index, outcome in enumerate(outcomes)
    ]
    examined = iter(list(watch(pooled(_examine, jobs, workers, chunk=4), len(jobs))))
    reported = tuple(
        ReportedRun(
            run=run,
            examined=tuple(islice(examined, len(outcomes))),
            decision_changed=differences(run),
            beside_first=compare(runs[0].outcomes, run.outcomes) if run is not runs[0] else None,
        )
        for run, outcomes in zip(runs, samples, strict=True)
    )
    return Report(reported, tuple(episodes_of(reported)))


# -- runs --------------------------------------------------------------------------------------------------------------


def read_run(folder: Path) -> Run:
    """Read a run from its folder. `BadRun` if the folder holds none, or an unfinished one."""
    plan = plan_of(folder)
    try:
        results = msgspec.json.decode((folder / RESULTS_FILE).read_bytes(), type=Results)
        lines = (folder / OUTCOMES_FILE).read_bytes().splitlines()
        outcomes = tuple(msgspec.json.decode(line, type=Outcome) for line in lines)
        tasks = read_suite(plan.suite, (folder / SUITE_FILE).read_text())
    except FileNotFoundError as missing:
        raise BadRun(f"{folder} has no {Path(missing.filename).name}: finish the run with `companyos eval`") from None
    except (msgspec.MsgspecError, BadTask, OSError, UnicodeDecodeError) as error:
        raise BadRun(f"{folder} cannot be read: {error}") from None
    if not outcomes:
        raise BadRun(f"{folder} holds no episode")
    return Run(folder, plan, results, tasks, outcomes)


def differences(run: Run) -> dict[str, Estimate]:
    """How often the agent decided differently on the two tasks of a pair, by what the pair's difference changes."""
    estimates = {}
    for relevance in (ENDING, WAY, SAME_WORK):
        subset = msgspec.structs.replace(run.suite, pairs=tuple(p for p in run.suite.pairs if p.relevance == relevance))
        in_pairs = {task for pair in subset.pairs for task in (pair.task, pair.twin)}
        results = msgspec.convert(
            summarise(subset, (played for played in run.outcomes if played.task_id in in_pairs)), Results
        )
        numbers = results.overall.numbers
        if number := numbers.get("differs_ending" if relevance == ENDING else "differs_other"):
            estimates[relevance] = number
    return estimates


# -- episodes ----------------------------------------------------------------------------------------------------------


def sample(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The episodes to examine: failures, then successes, evenly from every family, and the same ones every time."""
    by_success = grouped(outcomes, lambda outcome: outcome.success)
    return [
        *spread_over_families(by_success.get(False, []), FAILURES),
        *spread_over_families(by_success.get(True, []), SUCCESSES),
    ]


def spread_over_families(outcomes: Sequence[Outcome], max_episodes: int) -> list[Outcome]:
    """Take one episode of each family in turn, in an order drawn by hash."""
    families = grouped(sorted(outcomes, key=_hash), lambda outcome: outcome.family)
    rounds = zip_longest(*(families[name] for name in sorted(families)))
    return [outcome for in_round in rounds for outcome in in_round if outcome is not None][:max_episodes]


def _hash(outcome: Outcome) -> bytes:
    return blake2b(f"{outcome.task_id}/{outcome.trial}".encode()).digest()


def playing_order(samples: Sequence[Sequence[Outcome]]) -> list[tuple[int, int]]:
    """The order in which a page offers episodes: failures first, one of each run in turn.

    An episode is given by the index of its run and its index in the sample of that run.
    """
    by_run = ([(run_index, index) for index in range(len(outcomes))] for run_index, outcomes in enumerate(samples))
    in_turns = [episode for in_round in zip_longest(*by_run) for episode in in_round if episode]
    return sorted(in_turns, key=lambda episode: samples[episode[0]][episode[1]].success)


class _Job(msgspec.Struct, frozen=True):
    """An episode to examine: the index and folder of its run, and whether the page can play it."""

    run: int
    folder: Path
    outcome: Outcome
    played: bool


def _examine(job: _Job) -> ExaminedEpisode:
    """Replay an episode once, for its blame and its playback."""
    outcome = job.outcome
    try:
        replayed = ReplayedEpisode(_transcript(job.folder, outcome))
        blamed = blame(replayed, outcome.raised)
    except (ReplayDiffers, BadTask, BadDose, BadChoice) as difference:
        raise BadRun(
            f"{job.folder}: {outcome.task_id}: {difference}; `companyos submit-check` names all that is wrong"
        ) from None
    return ExaminedEpisode(outcome, blamed, playback(job.run, outcome.trial, replayed, blamed) if job.played else None)


def _transcript(folder: Path, outcome: Outcome) -> Transcript:
    text = saved_episode(folder, EpisodeKey(outcome.task_id, outcome.trial))
    if text is None:
        raise BadRun(
            f"{folder} lacks an episode, trial {outcome.trial} of {outcome.task_id}: continue the run with `companyos eval`"
        )
    return Transcript.from_jsonl(text)


def episodes_of(runs: Sequence[ReportedRun]) -> Iterator[Playback]:
    """The episodes that the page plays, as long as there is room for their data."""
    room = MAX_BYTES
    samples = [[episode.outcome for episode in run.examined] for run in runs]
    for run_index, index in playing_order(samples):
        played = runs[run_index].examined[index].playback
        if played is None:
            return
        room -= len(msgspec.json.encode(played))
        if room < 0:
            return
        yield played
