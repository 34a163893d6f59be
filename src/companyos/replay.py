"""Replay: re-execute a transcript and check that every line follows from its task id and calls."""

import msgspec

from companyos.env import CompanyEnv, make
from companyos.episode import Transcript
from companyos.errors import ReplayDiffers


def replay(transcript: Transcript | str) -> CompanyEnv:
    """Plays a transcript (or the text of one) again. Raises `ReplayDiffers` with the first line that differs."""
    recorded = Transcript.from_jsonl(transcript) if isinstance(transcript, str) else transcript
    env = make(recorded.header.task_id, reward=recorded.header.reward)
    for number, turn in enumerate(recorded.turns, 2):
        if env.done:
            raise ReplayDiffers(f"line {number}: a turn after the episode was over")
        env.step(turn.action[0] if turn.action else turn.call)
    lines = zip(recorded.to_jsonl().split("\n"), env.transcript().to_jsonl().split("\n"), strict=True)
    for number, (was, is_now) in enumerate(lines, 1):
        if was != is_now:
            raise ReplayDiffers(f"line {number}: {_difference(was, is_now)}")
    return env


def _difference(was: str, is_now: str) -> str:
    recorded, played = msgspec.json.decode(was), msgspec.json.decode(is_now)
    for field in [*recorded, *played]:
        before, now = recorded.get(field), played.get(field)
        if msgspec.json.encode(before) != msgspec.json.encode(now):
            return f"{field} was recorded as {before!r}, and is {now!r} when played"
    return "the same fields stand in another order"
