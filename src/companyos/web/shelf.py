"""Shelves: the runs that lie in a folder. Evaluations with their episodes, and what training runs have logged."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from companyos.evaluate.reports.report import Run, read_run
from companyos.evaluate.runs.episode_file import FOLDER, Episode, kept
from companyos.evaluate.runs.run import RESULTS, RUN, BadRun
from companyos.evaluate.stats.metrics import Results
from companyos.serve.errors import NoSuchPlace

MOST_FILES = 2000  # that are looked at for what they are
LONGEST_LOG = 64_000_000  # bytes
_LOG = ".jsonl"
_ENDLESS = 1e300
_DEEPEST = 4  # folders below the one that is given


class Result(msgspec.Struct, frozen=True):
    """An evaluation, by its name on the shelf: its place below the folder. Of some only the numbers were kept."""

    name: str
    agent: str
    results: Results
    has_episodes: bool


class Log(msgspec.Struct, frozen=True):
    """What a training run has written down, a record an update."""

    name: str
    records: tuple[dict[str, Any], ...]


class Shelf:
    """A folder of results, read anew whenever somebody looks: runs may be under way. Nothing outside of it is ever read."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder.resolve() if folder is not None else None

    def runs(self) -> list[Result]:
        """All evaluations whose numbers are there."""
        return [found for file in self._files("*results.json") if (found := self._result(file)) is not None]

    def result(self, name: str) -> Result:
        return _named(self.runs(), name)

    def run(self, name: str) -> Run | None:
        """An evaluation with its episodes; None where only its numbers were kept, or they cannot be read."""
        found = self.result(name)
        if self.folder is None or not found.has_episodes:
            return None
        try:
            return read_run(self.folder / found.name)
        except BadRun:
            return None

    def transcript(self, name: str, task_id: str, trial: int) -> str:
        """An episode of an evaluation."""
        run = self.run(name)
        if run is None or not any((one.task_id, one.trial) == (task_id, trial) for one in run.outcomes):
            raise NoSuchPlace("there is no such episode")
        text = kept(run.folder, Episode(task_id, trial))
        if text is None:
            raise NoSuchPlace("this episode's file is gone, or is not whole")
        return text

    def logs(self) -> list[Log]:
        """All logs of training runs."""
        return [found for file in self._files(f"*{_LOG}") if (found := self._log(file)) is not None]

    def log(self, name: str) -> Log:
        return _named(self.logs(), name)

    # -- files -----------------------------------------------------------------------------------------------------

    def _files(self, pattern: str) -> Iterator[Path]:
        """Files of a sort, in order; the episodes of runs, of which there may be thousands, are not gone through."""
        if self.folder is None:
            return
        waiting, seen = [(self.folder, 0)], 0
        while waiting:
            folder, depth = waiting.pop(0)
            for path in sorted(folder.iterdir()):
                seen += 1
                if seen > MOST_FILES:
                    return
                if path.is_symlink() or path.name.startswith("."):
                    continue
                if path.is_file() and path.match(pattern):
                    yield path
                elif path.is_dir() and path.name != FOLDER and depth < _DEEPEST:
                    waiting.append((path, depth + 1))

    def _place(self, path: Path) -> str:
        assert self.folder is not None
        return path.relative_to(self.folder).as_posix()

    def _result(self, file: Path) -> Result | None:
        try:
            raw = file.read_bytes()
            results = msgspec.json.decode(raw, type=Results)
            agent = msgspec.json.decode(raw, type=_Who).agent
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
            return None
        whole = file.name == RESULTS and (file.parent / RUN).is_file()
        return Result(self._place(file.parent if whole else file), agent, results, whole)

    def _log(self, file: Path) -> Log | None:
        """A file whose lines tell of updates; the last may be half written."""
        try:
            if file.stat().st_size > LONGEST_LOG:
                return None
            with file.open("rb") as lines:
                if not _is_update(lines.readline()):
                    return None
                lines.seek(0)
                found = [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
            return None
        records = tuple(one for one in found if isinstance(one, dict) and is_number(one.get("update")))
        place = self._place(file)
        return Log(place.removesuffix("/log.jsonl"), records)


Named = TypeVar("Named", Result, Log)


def _named(found: Iterable[Named], name: str) -> Named:
    for one in found:
        if one.name == name:
            return one
    raise NoSuchPlace("there is no such run here")


class _Who(msgspec.Struct):
    agent: str = ""


def _is_update(line: bytes) -> bool:
    record = msgspec.json.decode(line) if line.strip() else None
    return isinstance(record, dict) and is_number(record.get("update"))


def is_number(value: Any) -> bool:
    """Whether it can stand in a picture: no truth, and not without end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ENDLESS
