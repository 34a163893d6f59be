"""Reads the results folder of the gallery: evaluation runs with their episodes, and logs of training runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from companyos.evaluate.reports.report import Run, read_run
from companyos.evaluate.runs.episode_file import EPISODES_FOLDER, EpisodeKey, saved_episode
from companyos.evaluate.runs.run import RESULTS_FILE, RUN_FILE, BadRun
from companyos.evaluate.stats.metrics import Results
from companyos.serve.errors import UnknownRoute

SAMPLE = Path(__file__).parent / "sample"  # `tools/sample_run.py` writes it
MAX_ENTRIES = 2000  # files and folders that one search looks at
MAX_LOG_SIZE = 64_000_000  # bytes
_MAX_PLOTTED = 1e300  # a chart cannot draw larger numbers
_MAX_DEPTH = 4  # levels of subfolders


class EvaluationSummary(msgspec.Struct, frozen=True):
    """The numbers of an evaluation run. `name` is its path below the results folder."""

    name: str
    agent: str
    results: Results
    has_episodes: bool  # False: the folder contains only the numbers


class TrainingLog(msgspec.Struct, frozen=True):
    """The log of a training run, with one record per update."""

    name: str
    records: tuple[dict[str, Any], ...]


class ResultsFolder:
    """A folder of results. It is read on every request, because runs may still write to it. Symbolic links are skipped.

    Without a folder, the results are those of the sample run that comes with this package.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or SAMPLE).resolve()
        self.is_sample = folder is None

    def runs(self) -> list[EvaluationSummary]:
        """Return all evaluation runs that have numbers."""
        return [run for file in self._files("*results.json") if (run := self._summary_of(file)) is not None]

    def result(self, name: str) -> EvaluationSummary:
        """Return the numbers of the evaluation run with this name."""
        return _find_by_name(self.runs(), name)

    def run(self, name: str) -> Run | None:
        """Return a run with its episodes, or None if they are missing or unreadable."""
        summary = self.result(name)
        if not summary.has_episodes:
            return None
        try:
            return read_run(self.folder / summary.name)
        except BadRun:
            return None

    def transcript(self, name: str, task_id: str, trial: int) -> str:
        """Return the transcript of one episode of a run."""
        run = self.run(name)
        if run is None or (task_id, trial) not in {(outcome.task_id, outcome.trial) for outcome in run.outcomes}:
            raise UnknownRoute("there is no such episode in this run")
        text = saved_episode(run.folder, EpisodeKey(task_id, trial))
        if text is None:
            raise UnknownRoute("the file of this episode is missing or incomplete")
        return text

    def logs(self) -> list[TrainingLog]:
        """Return the logs of all training runs."""
        return [log for file in self._files("*.jsonl") if (log := self._training_log(file)) is not None]

    def log(self, name: str) -> TrainingLog:
        """Return the log of the training run with this name."""
        return _find_by_name(self.logs(), name)

    # -- files -----------------------------------------------------------------------------------------------------

    def _files(self, pattern: str) -> Iterator[Path]:
        """Yield files that match a pattern, in order. Skip episode folders, which may hold thousands of files."""
        to_search = [(self.folder, 0)]  # folders, each with its depth
        entries = 0
        while to_search:
            folder, depth = to_search.pop(0)
            for path in sorted(folder.iterdir()):
                entries += 1
                if entries > MAX_ENTRIES:
                    return
                if path.is_symlink() or path.name.startswith("."):
                    continue
                if path.is_file() and path.match(pattern):
                    yield path
                elif path.is_dir() and path.name != EPISODES_FOLDER and depth < _MAX_DEPTH:
                    to_search.append((path, depth + 1))

    def _relative_path(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _summary_of(self, file: Path) -> EvaluationSummary | None:
        """Return the numbers of the run in a file, or None if the file has none."""
        try:
            raw = file.read_bytes()
            results = msgspec.json.decode(raw, type=Results)
            agent = msgspec.json.decode(raw, type=_AgentName).agent
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
            return None
        has_episodes = file.name == RESULTS_FILE and (file.parent / RUN_FILE).is_file()
        return EvaluationSummary(self._relative_path(file.parent if has_episodes else file), agent, results, has_episodes)

    def _training_log(self, file: Path) -> TrainingLog | None:
        """Return a file as a training log, or None if it is not one. An incomplete last line is ignored."""
        try:
            if file.stat().st_size > MAX_LOG_SIZE:
                return None
            with file.open("rb") as lines:
                if not _is_update(lines.readline()):
                    return None
                lines.seek(0)
                decoded = [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
            return None
        records = tuple(record for record in decoded if isinstance(record, dict) and is_number(record.get("update")))
        return TrainingLog(self._relative_path(file).removesuffix("/log.jsonl"), records)


NamedResult = TypeVar("NamedResult", EvaluationSummary, TrainingLog)


def _find_by_name(runs: Iterable[NamedResult], name: str) -> NamedResult:
    """Return the run or log with a name. Raise `UnknownRoute` if there is none."""
    for run in runs:
        if run.name == name:
            return run
    raise UnknownRoute("there is no such run on this server")


class _AgentName(msgspec.Struct):
    agent: str = ""


def _is_update(line: bytes) -> bool:
    """Return whether a line of a file is the record of one training update."""
    record = msgspec.json.decode(line) if line.strip() else None
    return isinstance(record, dict) and is_number(record.get("update"))


def is_number(value: Any) -> bool:
    """Return whether a value can be plotted: a finite number and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_PLOTTED
