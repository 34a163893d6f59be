"""Suites: frozen lists of task ids, each with a version and a hash."""

import re
from collections.abc import Iterable
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

import msgspec

from companyos.core.episode import CANARY
from companyos.core.errors import BadChoice, BadTask
from companyos.core.task import BENCHMARK_VERSION, TaskId

SUITES = {
    "smoke": "a quick check on the validation split, for use during development",
    "core": "the headline result: all families and endings in equal shares",
    "twins": "pairs that differ in one cause, which changes the right ending, only the way there, or nothing",
    "chaos": "the same tasks at five doses of trouble",
    "impossible": "tasks that cannot be done, each with a twin that can",
    "attack": "prompt injections in texts, each with a twin that has none",
    "long": "a whole quarter's work in one task",
}
BEACON = "beacon"
_FROZEN = files("companyos.evaluate.suites")
_BEACON_NAME = re.compile(r"beacon:(?P<commit>[0-9a-f]{32,128}):(?P<beacon>[\w.+/=-]{8,200})", re.ASCII)


class Pair(msgspec.Struct, frozen=True):
    """A task and its twin, which differs in one cause.

    `relevance` is what that changes: the right `ending`, only the `way` to the same ending, or nothing (`none`).
    """

    task: str
    twin: str
    relevance: str
    cause: str

    @property
    def line(self) -> str:
        return f"{self.task} {self.twin} {self.relevance} {self.cause}"


class Suite(msgspec.Struct, frozen=True):
    """A list of tasks that never changes. Two suites with the same hash are the same list."""

    name: str
    version: int
    hash: str
    tasks: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()

    def to_text(self) -> str:
        """The suite as a file: a heading, then one task or pair per line."""
        heading = f"# CompanyOS suite {self.name}, version {self.version}: {len(self.tasks)} tasks. {CANARY}"
        return "\n".join([heading, f"# {self.hash}", *(_lines(self.tasks, self.pairs))]) + "\n"


def suite_of(name: str, tasks: Iterable[str] = (), pairs: Iterable[Pair] = ()) -> Suite:
    """Make a suite of these tasks or pairs, with its hash."""
    pairs = tuple(pairs)
    in_pairs = (task_id for pair in pairs for task_id in (pair.task, pair.twin))
    unique_tasks = tuple(dict.fromkeys([*tasks, *in_pairs]))
    return Suite(name, BENCHMARK_VERSION, _hash(_lines(unique_tasks, pairs)), unique_tasks, pairs)


def suite(name: str) -> Suite:
    """Return a frozen suite, a beacon suite (`beacon:HASH:STRING`) or the suite in a file. `BadChoice` lists the names."""
    if name in SUITES and (frozen := _FROZEN / f"{name}.txt").is_file():
        return read_suite(name, frozen.read_text())
    if matched := _BEACON_NAME.fullmatch(name):
        from companyos.evaluate.suites.selection import beacon_suite

        return beacon_suite(matched["commit"], matched["beacon"])
    if Path(name).is_file():
        return read_suite(Path(name).stem, _text(Path(name)))
    raise BadChoice("suite", name, [*frozen_names(), f"{BEACON}:HASH:STRING", "a file of task ids"])


def beacon_name(commit: str, beacon: str) -> str:
    """The name of the beacon suite that these two strings draw. `BadChoice` if a string is malformed."""
    name = f"{BEACON}:{commit}:{beacon}"
    if _BEACON_NAME.fullmatch(name) is None:
        raise BadChoice(
            "beacon", name, [f"{BEACON}:HASH:STRING, HASH of 32 to 128 hex digits, STRING of 8 to 200 characters"]
        )
    return name


def frozen_names() -> list[str]:
    return [name for name in SUITES if (_FROZEN / f"{name}.txt").is_file()]


def read_suite(name: str, text: str) -> Suite:
    """Read a suite from the text of its file. `BadTask` if a line is malformed, or if the list does not match its hash."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) not in (1, 4):
            raise BadTask(f"{name}: {' '.join(row)!r} is neither a task id nor a pair with its relevance and cause")
        for task_id in row[:2] if len(row) == 4 else row:
            TaskId.parse(task_id)
    if not rows:
        raise BadTask(f"{name}: contains no task")
    read = suite_of(name, (row[0] for row in rows if len(row) == 1), (Pair(*row) for row in rows if len(row) == 4))
    stated = re.search(r"^# ([0-9a-f]{32})$", text, re.MULTILINE)
    if stated and stated[1] != read.hash:
        raise BadTask(
            f"{name}: its tasks have the hash {read.hash}, not {stated[1]}: the list was changed after it was frozen"
        )
    return read


def _text(path: Path) -> str:
    """Read a file of task ids. `BadTask` if it is binary."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise BadTask(f"{path}: not a file of task ids") from None


def _lines(tasks: Iterable[str], pairs: tuple[Pair, ...]) -> list[str]:
    """One line for each task that is in no pair, then one for each pair."""
    in_pairs = {task_id for pair in pairs for task_id in (pair.task, pair.twin)}
    return [*(task_id for task_id in tasks if task_id not in in_pairs), *(pair.line for pair in pairs)]


def _hash(lines: list[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
