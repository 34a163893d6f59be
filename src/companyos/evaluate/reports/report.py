"""Report: one or more runs as a page that needs nothing but itself, and as a table in Markdown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice, zip_longest
from pathlib import Path

import msgspec

from companyos.core.episode import Transcript
from companyos.core.errors import BadDose, BadTask, ReplayDiffers
from companyos.core.parallel import pooled
from companyos.evaluate.judge.blame import Blame, blame
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.judge.playback import Playback, playback
from companyos.evaluate.runs.episode_file import Episode, kept
from companyos.evaluate.runs.run import OUTCOMES, RESULTS, SUITE, BadRun, Plan, plan_of
from companyos.evaluate.stats.compare import Comparison, compare
from companyos.evaluate.stats.groups import grouped
from companyos.evaluate.stats.intervals import Estimate
from companyos.evaluate.stats.metrics import ENDING, NONE, WAY, Results, summarise
from companyos.evaluate.suites.suite import Suite, read_suite

MOST_RUNS = 8  # that colours can tell apart
FAILURES, SUCCESSES = 60, 40  # of a run, that are looked at for blame: some seconds
EPISODES = 12  # that play in the page, of all runs together …
MOST_BYTES = 1_500_000  # … and what they may take


class Run(msgspec.Struct, frozen=True):
    """A finished run, as it lies in its folder."""

    folder: Path
    plan: Plan
    results: Results
    suite: Suite
    outcomes: tuple[Outcome, ...]


class Looked(msgspec.Struct, frozen=True):
    """An episode that was looked at for blame."""

    outcome: Outcome
    blame: Blame


class Shown(msgspec.Struct, frozen=True):
    """A run with all that its report says of it."""

    run: Run
    looked: tuple[Looked, ...]
    differs: dict[str, Estimate]  # how often the agent decided otherwise, by what a pair changed
    beside_first: Comparison | None  # None for the first run, and for one that shares no tasks with it


class Report(msgspec.Struct, frozen=True):
    """All that a page shows."""

    shown: tuple[Shown, ...]
    episodes: tuple[Playback, ...]


Watch = Callable[[Iterator[Looked], int], Iterable[Looked]]


def report_on(folders: Sequence[Path], workers: int = 1, watch: Watch = lambda looked, total: looked) -> Report:
    """Reads runs, looks closer at a sample of their episodes and picks some to play. `BadRun` says what is wrong."""
    if len(folders) > MOST_RUNS:
        raise BadRun(f"{len(folders)} runs are too many for one page; give at most {MOST_RUNS}")
    runs = [read_run(folder) for folder in folders]
    jobs = [(run.folder, one) for run in runs for one in sample(run.outcomes)]
    looked = iter(list(watch(pooled(_look, jobs, workers, chunk=4), len(jobs))))
    shown = tuple(
        Shown(
            run=run,
            looked=tuple(islice(looked, len(sample(run.outcomes)))),
            differs=differences(run),
            beside_first=compare(runs[0].outcomes, run.outcomes) if run is not runs[0] else None,
        )
        for run in runs
    )
    return Report(shown, tuple(episodes_of(shown)))


# -- a run -------------------------------------------------------------------------------------------------------------


def read_run(folder: Path) -> Run:
    """A run from its folder. `BadRun` where it is none, or not finished."""
    plan = plan_of(folder)
    try:
        results = msgspec.json.decode((folder / RESULTS).read_bytes(), type=Results)
        lines = (folder / OUTCOMES).read_bytes().splitlines()
        outcomes = tuple(msgspec.json.decode(line, type=Outcome) for line in lines)
        tasks = read_suite(plan.suite, (folder / SUITE).read_text())
    except FileNotFoundError as missing:
        raise BadRun(f"{folder} has no {Path(missing.filename).name}: finish the run with `companyos eval`") from None
    except (msgspec.MsgspecError, BadTask, OSError, UnicodeDecodeError) as error:
        raise BadRun(f"{folder} cannot be read: {error}") from None
    if not outcomes:
        raise BadRun(f"{folder} holds no episode")
    return Run(folder, plan, results, tasks, outcomes)


def differences(run: Run) -> dict[str, Estimate]:
    """How often the agent decided otherwise on the two sides of a pair, by what that changes."""
    found = {}
    for relevance in (ENDING, WAY, NONE):
        some = msgspec.structs.replace(run.suite, pairs=tuple(p for p in run.suite.pairs if p.relevance == relevance))
        in_pairs = {task for pair in some.pairs for task in (pair.task, pair.twin)}
        results = msgspec.convert(summarise(some, (one for one in run.outcomes if one.task_id in in_pairs)), Results)
        numbers = results.overall.numbers
        if number := numbers.get("differs_ending" if relevance == ENDING else "differs_other"):
            found[relevance] = number
    return found


# -- episodes ----------------------------------------------------------------------------------------------------------


def sample(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The episodes that are looked at: failures, then successes, of every family alike, and always the same ones."""
    won = grouped(outcomes, lambda one: one.success)
    return [*_spread(won.get(False, []), FAILURES), *_spread(won.get(True, []), SUCCESSES)]


def _spread(outcomes: Sequence[Outcome], most: int) -> list[Outcome]:
    families = grouped(sorted(outcomes, key=_lot), lambda one: one.family)
    rounds = zip_longest(*(families[name] for name in sorted(families)))
    return [one for some in rounds for one in some if one is not None][:most]


def _lot(one: Outcome) -> bytes:
    return blake2b(f"{one.task_id}/{one.trial}".encode()).digest()


def _look(job: tuple[Path, Outcome]) -> Looked:
    folder, outcome = job
    try:
        return Looked(outcome, blame(_transcript(folder, outcome)))
    except (ReplayDiffers, BadTask, BadDose) as difference:
        raise BadRun(
            f"{folder}: {outcome.task_id}: {difference}; `companyos submit-check` names all that is wrong"
        ) from None


def _transcript(folder: Path, outcome: Outcome) -> Transcript:
    text = kept(folder, Episode(outcome.task_id, outcome.trial))
    if text is None:
        raise BadRun(f"{folder} lacks an episode, trial {outcome.trial} of {outcome.task_id}: go on with `companyos eval`")
    return Transcript.from_jsonl(text)


def episodes_of(shown: Sequence[Shown]) -> Iterator[Playback]:
    """Some to play in the page: failures first, of each run in turn, as long as there is room."""
    turns = zip_longest(*([(number, one) for one in some.looked] for number, some in enumerate(shown)))
    chosen = sorted((one for turn in turns for one in turn if one is not None), key=lambda one: one[1].outcome.success)
    room = MOST_BYTES
    for number, looked in chosen[:EPISODES]:
        outcome = looked.outcome
        played = playback(number, outcome.trial, _transcript(shown[number].run.folder, outcome), looked.blame)
        room -= len(msgspec.json.encode(played))
        if room < 0:
            return
        yield played
