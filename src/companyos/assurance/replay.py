"""Replay: re-execute a transcript and check that every line follows from its task id and calls."""

from collections.abc import Iterator

import msgspec

from companyos.core.episode import Transcript
from companyos.core.errors import ReplayDiffers
from companyos.core.task import TaskId
from companyos.env import CompanyEnv


def replay(transcript: Transcript | str) -> CompanyEnv:
    """Replay a transcript (or the text of one). Raise `ReplayDiffers` with the first line that differs."""
    recorded = Transcript.from_jsonl(transcript) if isinstance(transcript, str) else transcript
    env = play_again(recorded)
    compare(recorded, env.transcript())
    return env


def play_again(recorded: Transcript) -> CompanyEnv:
    """Make the calls of a transcript again without comparing replies. Raise `ReplayDiffers` if the episode ends early."""
    header = recorded.header
    env = CompanyEnv(TaskId.parse(header.task_id), header.reward, actors=header.actors or ())
    for _ in states(recorded, env):
        pass
    return env


def states(recorded: Transcript, env: CompanyEnv) -> Iterator[CompanyEnv]:
    """Make the calls of a transcript in an episode of its task. Yield the episode before each call and after the last."""
    for number, turn in enumerate(recorded.turns, 2):
        if env.done:
            raise ReplayDiffers(f"line {number}: a turn after the episode was over")
        yield env
        env.step(turn.action[0] if turn.action else turn.call, turn.actor)
    yield env


def compare(recorded: Transcript, played: Transcript) -> None:
    """Raise `ReplayDiffers` with the first line that differs between two transcripts of the same calls."""
    lines = zip(recorded.to_jsonl().split("\n"), played.to_jsonl().split("\n"), strict=True)
    for number, (was, is_now) in enumerate(lines, 1):
        if was != is_now:
            raise ReplayDiffers(f"line {number}: {_difference(was, is_now)}")


def _difference(was: str, is_now: str) -> str:
    recorded, played = msgspec.json.decode(was), msgspec.json.decode(is_now)
    for field in [*recorded, *played]:
        before, now = recorded.get(field), played.get(field)
        if msgspec.json.encode(before) != msgspec.json.encode(now):
            return f"{field} was recorded as {before!r}, and is {now!r} when played"
    return "the same fields stand in another order"
