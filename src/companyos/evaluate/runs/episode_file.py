"""Episode files: the transcripts of a run, one per file. A file is either complete or absent."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from companyos.agents.agent import Usage
from companyos.core.episode import Transcript
from companyos.core.files import PART, write_atomic
from companyos.core.task import TaskId
from companyos.families.kit.goals import add_up

EPISODES_FOLDER = "episodes"
_SUFFIX = ".jsonl"
_USAGE_SUFFIX = f".usage{_SUFFIX}"  # token counts and costs, in a file beside the transcript
_PERSON_SUFFIX = ".person.json"  # in a study: the file beside the transcript with a `PersonRecord`
_ERROR_SUFFIX = ".error.txt"  # the traceback of an agent that raised, in a file beside the transcript


class EpisodeKey(msgspec.Struct, frozen=True, order=True):
    """Names one episode of a run: the task, and the number of the trial, counted from 0."""

    task_id: str
    trial: int

    @property
    def place(self) -> str:
        """The path of the episode's transcript, relative to the run's folder."""
        return f"{EPISODES_FOLDER}/{TaskId.parse(self.task_id).family}/{self.task_id}.{self.trial}{_SUFFIX}"

    @property
    def usage_place(self) -> str:
        """The path of the file with the episode's token counts and costs, relative to the run's folder."""
        return self.place.removesuffix(_SUFFIX) + _USAGE_SUFFIX

    @property
    def person_place(self) -> str:
        """The path of the file about the person who played the episode, relative to the run's folder."""
        return self.place.removesuffix(_SUFFIX) + _PERSON_SUFFIX

    @property
    def error_place(self) -> str:
        """The path of the traceback if the agent raised in the episode, relative to the run's folder."""
        return self.place.removesuffix(_SUFFIX) + _ERROR_SUFFIX


class PersonRecord(msgspec.Struct, frozen=True):
    """What a study stores about the person who played an episode."""

    visitor: int  # a random number
    seconds: float  # by the clock on the wall, from the beginning of the episode to its last call


def save_episode(
    run: Path,
    key: EpisodeKey,
    text: str,
    usage: Sequence[Usage] = (),
    person: PersonRecord | None = None,
    error: str = "",
) -> None:
    """Write an episode. The transcript is written last: once it exists, the episode is complete.

    `error` is the traceback of an agent that raised.
    """
    if person is not None:
        write_atomic(run / key.person_place, msgspec.json.encode(person) + b"\n", make_folder=True)
    if error:
        write_atomic(run / key.error_place, error.encode(), make_folder=True)
    else:
        (run / key.error_place).unlink(missing_ok=True)  # of an attempt that was interrupted
    if usage:
        write_atomic(run / key.usage_place, b"".join(msgspec.json.encode(turn) + b"\n" for turn in usage), make_folder=True)
    write_atomic(run / key.place, text.encode(), make_folder=True)


def saved_episode(run: Path, key: EpisodeKey) -> str | None:
    """Return the transcript of a finished episode; None if the episode is still to be played.

    An episode in which the agent raised is finished, although its transcript ends before the end of the task.
    """
    try:
        text = (run / key.place).read_text()
        transcript = Transcript.from_jsonl(text)
    except (FileNotFoundError, ValueError):  # a power cut can leave an unreadable file
        return None
    finished = transcript.footer.done or bool(error_of(run, key))
    return text if finished and transcript.header.task_id == key.task_id else None


def error_of(run: Path, key: EpisodeKey) -> str:
    """Return the traceback of the agent if it raised in an episode; empty if it did not."""
    return error_beside(run / key.place)


def error_beside(transcript: Path) -> str:
    """Return the traceback that lies beside a transcript; empty if there is none."""
    try:
        return transcript.with_name(transcript.name.removesuffix(_SUFFIX) + _ERROR_SUFFIX).read_text()
    except FileNotFoundError:
        return ""


def usage_of(run: Path, key: EpisodeKey) -> tuple[Usage, ...]:
    """Return the token counts and costs of an episode's turns; empty if nothing was counted."""
    try:
        return tuple(_usages(run / key.usage_place))
    except FileNotFoundError:
        return ()


def person_of(run: Path, key: EpisodeKey) -> PersonRecord | None:
    """Return the record of the person who played an episode; None if an agent played it."""
    try:
        return msgspec.json.decode((run / key.person_place).read_bytes(), type=PersonRecord)
    except FileNotFoundError:
        return None


def spent_on(run: Path) -> Usage:
    """Add up the token counts and costs of all episodes of a run."""
    turns = [turn for place in places(run) if place.endswith(_USAGE_SUFFIX) for turn in _usages(run / place)]
    return Usage(
        sum(turn.tokens_in for turn in turns),
        sum(turn.tokens_out for turn in turns),
        add_up(turn.cost for turn in turns),
        sum(turn.failures for turn in turns),
    )


def _usages(path: Path) -> Iterator[Usage]:
    return (msgspec.json.decode(line, type=Usage) for line in path.read_bytes().splitlines())


def places(run: Path) -> Iterator[str]:
    """Yield the path of every finished file among the episodes, relative to the run's folder."""
    for path in sorted((run / EPISODES_FOLDER).rglob("*")):
        if path.is_file() and path.suffix != PART:
            yield path.relative_to(run).as_posix()


def transcripts(folder: Path) -> list[Path]:
    """The transcripts of a run. In a folder that holds no run: every `*.jsonl` file below it."""
    episodes = folder / EPISODES_FOLDER
    paths = sorted((episodes if episodes.is_dir() else folder).rglob(f"*{_SUFFIX}"))
    return [path for path in paths if not path.name.endswith(_USAGE_SUFFIX)]


def remove_unfinished(run: Path) -> None:
    """Remove the files that a killed process had begun to write."""
    for path in run.rglob(f"*{PART}"):
        path.unlink(missing_ok=True)
