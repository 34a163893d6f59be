"""Episode files: the transcripts of a run, one a file, each whole or not there at all."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from companyos.agents.agent import Usage
from companyos.core.episode import Transcript
from companyos.core.task import TaskId
from companyos.families.kit.goals import add_up

FOLDER = "episodes"
_ENDING = ".jsonl"
_USAGE = ".usage"  # before the ending: what lies beside a transcript


class Episode(msgspec.Struct, frozen=True, order=True):
    """Which episode of a run: the task, and the how-manieth time."""

    task_id: str
    trial: int

    @property
    def place(self) -> str:
        """Its file, as seen from the run's folder."""
        return f"{FOLDER}/{TaskId.parse(self.task_id).family}/{self.task_id}.{self.trial}{_ENDING}"

    @property
    def usage_place(self) -> str:
        return self.place.removesuffix(_ENDING) + _USAGE + _ENDING


def keep(run: Path, episode: Episode, text: str, usage: Sequence[Usage] = ()) -> None:
    """Writes an episode. The transcript comes last and in one go: once it is there, all is."""
    if usage:
        _put(run / episode.usage_place, b"".join(msgspec.json.encode(turn) + b"\n" for turn in usage))
    _put(run / episode.place, text.encode())


def _put(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
    os.replace(beside, path)


def kept(run: Path, episode: Episode) -> str | None:
    """The text of an episode that was worked to its end; None where it is still to be worked."""
    try:
        text = (run / episode.place).read_text()
        transcript = Transcript.from_jsonl(text)
    except (FileNotFoundError, ValueError):  # what a power cut left is no transcript
        return None
    return text if transcript.footer.done and transcript.header.task_id == episode.task_id else None


def usage_of(run: Path, episode: Episode) -> tuple[Usage, ...]:
    """What the turns of an episode cost, where somebody counted it."""
    try:
        lines = (run / episode.usage_place).read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(msgspec.json.decode(line, type=Usage) for line in lines)


def spent_on(run: Path) -> Usage:
    """What all episodes in a folder cost together."""
    turns = [
        msgspec.json.decode(line, type=Usage)
        for place in places(run)
        if place.endswith(_USAGE + _ENDING)
        for line in (run / place).read_bytes().splitlines()
    ]
    return Usage(
        sum(turn.tokens_in for turn in turns),
        sum(turn.tokens_out for turn in turns),
        add_up(turn.cost for turn in turns),
        sum(turn.failures for turn in turns),
    )


def places(run: Path) -> Iterator[str]:
    """Every file among the episodes, as seen from the run's folder; parts that were never finished are left out."""
    for path in sorted((run / FOLDER).rglob("*")):
        if path.is_file() and path.suffix != ".part":
            yield path.relative_to(run).as_posix()


def transcripts(folder: Path) -> list[Path]:
    """The transcripts of a run; of a folder that is no run's, all that lie under it."""
    episodes = folder / FOLDER
    found = sorted((episodes if episodes.is_dir() else folder).rglob(f"*{_ENDING}"))
    return [path for path in found if not path.name.endswith(_USAGE + _ENDING)]


def sweep(run: Path) -> None:
    """Removes what was begun and never finished."""
    for path in (run / FOLDER).rglob("*.part"):
        path.unlink(missing_ok=True)
