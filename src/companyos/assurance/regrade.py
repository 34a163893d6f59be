"""Regrade recorded transcripts with the present grader, and report those whose verdict or rewards have changed."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from companyos.assurance.replay import ReplayedEpisode, compare
from companyos.core.episode import Footer, Transcript
from companyos.core.errors import BadChoice, BadDose, BadTask, ReplayDiffers
from companyos.core.task import BENCHMARK_VERSION
from companyos.env.rewards import Verdict
from companyos.families.kit.goals import Damage

UNCHANGED = "unchanged"
CHANGED = "changed"
# The replay gives other replies than recorded, or the task no longer exists. So the old episode cannot be judged.
REPLAY_FAILED = "other world"
OTHER_VERSION = "other version"  # the task belongs to another version of the benchmark
NO_TRANSCRIPT = "no transcript"


class Regraded(msgspec.Struct, frozen=True):
    """The result for one file. `outcome` is one of the constants above; `what` describes the changes."""

    path: str
    outcome: str
    task_id: str = ""
    what: tuple[str, ...] = ()


def regrade_all(paths: Iterable[Path]) -> Iterator[Regraded]:
    """Regrade files. A file that cannot be read is reported, too."""
    for path in paths:
        try:
            yield regrade(path.read_bytes(), str(path))
        except OSError as error:
            yield Regraded(str(path), NO_TRANSCRIPT, what=(f"cannot be read: {error.strerror}",))


def regrade(text: bytes, path: str = "") -> Regraded:
    """Replay the text of a transcript, and compare the recorded verdict with the present one."""
    stated = task_and_version_of(text)
    if stated is not None and stated.version != BENCHMARK_VERSION:
        return Regraded(path, OTHER_VERSION, stated.task_id, (f"of version {stated.version}",))
    try:
        recorded = Transcript.from_jsonl(text)
        before = _grade(recorded.footer)
    except (ValueError, msgspec.ValidationError) as error:
        return Regraded(path, NO_TRANSCRIPT, what=(str(error).removeprefix("not a transcript: "),))
    task_id = recorded.header.task_id
    try:
        played = ReplayedEpisode(recorded).end.transcript()
        compare(_ungraded(recorded), _ungraded(played))
    except ReplayDiffers as difference:
        return Regraded(path, REPLAY_FAILED, task_id, (str(difference),))
    except (BadTask, BadDose, BadChoice) as missing:
        return Regraded(path, REPLAY_FAILED, task_id, (f"line 1: {missing}",))
    changes = tuple(_changes(before, _grade(played.footer)))
    try:
        compare(recorded, played)
    except ReplayDiffers as difference:
        # Verdict and return are the same, but the reward of some turn differs.
        return Regraded(path, CHANGED, task_id, changes or (str(difference),))
    return Regraded(path, UNCHANGED, task_id)


class TaskAndVersion(msgspec.Struct):
    """The fields that the first line of a transcript has in every version."""

    task_id: str
    version: int


def task_and_version_of(text: bytes) -> TaskAndVersion | None:
    """Return the task and the version that a text states in its first line, or None if that is no transcript header."""
    try:
        return msgspec.json.decode(text.lstrip().partition(b"\n")[0], type=TaskAndVersion)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _ungraded(transcript: Transcript) -> Transcript:
    """Return a transcript without rewards and verdict."""
    turns = tuple(replace(turn, reward=0.0, parts={}) for turn in transcript.turns)
    return Transcript(transcript.header, turns, Footer(False, None, 0.0))


class _Grade(msgspec.Struct, frozen=True):
    """The grades in the footer of a transcript."""

    success: bool | None
    total: float
    goals: dict[str, bool] = {}
    damage: tuple[Damage, ...] = ()


def _grade(footer: Footer) -> _Grade:
    if not footer.verdict:
        return _Grade(footer.success, footer.total)
    verdict = msgspec.convert(footer.verdict, Verdict)
    return _Grade(footer.success, footer.total, verdict.goals, verdict.damage)


def _changes(before: _Grade, now: _Grade) -> Iterator[str]:
    """Yield a line for each difference between two grades of the same calls."""
    if before.success != now.success:
        yield f"{_ENDED[before.success]} -> {_ENDED[now.success]}"
    if before.goals and now.goals:
        for goal in dict.fromkeys([*before.goals, *now.goals]):
            held_before, holds_now = before.goals.get(goal), now.goals.get(goal)
            if held_before != holds_now:
                yield f"{goal}: {_REACHED[held_before]} -> {_REACHED[holds_now]}"
    yield from (f"damage: {harm.record} {harm.field}" for harm in now.damage if harm not in before.damage)
    yield from (f"no longer damage: {harm.record} {harm.field}" for harm in before.damage if harm not in now.damage)
    if before.total != now.total:
        yield f"return {before.total:+.10g} -> {now.total:+.10g}"


_ENDED = {True: "success", False: "failure", None: "unfinished"}
_REACHED = {True: "reached", False: "missed", None: "not asked for"}
