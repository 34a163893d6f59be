"""Replays a transcript: makes its calls again and checks that every line follows from its task id and calls."""

import msgspec

from companyos.core.episode import Transcript, Turn
from companyos.core.errors import ReplayDiffers
from companyos.core.task import TaskId
from companyos.env import CompanyEnv


def replay(transcript: Transcript | str) -> CompanyEnv:
    """Replay a transcript (or the text of one). Raise `ReplayDiffers` with the first line that differs."""
    recorded = Transcript.from_jsonl(transcript) if isinstance(transcript, str) else transcript
    replayed = ReplayedEpisode(recorded)
    replayed.verify()
    return replayed.end


class ReplayedEpisode:
    """An episode whose calls were made again, with a copy of the environment before the first call and after each one.

    Everything that judges an episode (outcome, blame, playback, review) reads these copies, so the calls are made once.
    The replies, rewards and verdict come from the replay; the recorded ones are only compared, by `verify`.
    """

    def __init__(self, recorded: Transcript, reward: str = "") -> None:
        """Make the calls of a transcript. `reward` replaces the reward profile that its header names.

        Raises `ReplayDiffers` when the transcript has a turn after the end of the episode.
        """
        self.recorded = recorded
        header = recorded.header
        env = CompanyEnv(TaskId.parse(header.task_id), reward or header.reward, actors=header.actors or ())
        states = [env.fork()]
        for number, turn in enumerate(recorded.turns, 2):  # line 1 is the header
            if env.done or not env.steps_left(turn.actor):
                raise ReplayDiffers(f"line {number}: a turn after the episode was over")
            env.step(action_of(turn), turn.actor)
            states.append(env.fork())
        self.states = tuple(states)  # `states[n]` is the environment after n calls

    @property
    def end(self) -> CompanyEnv:
        """The environment after the last call."""
        return self.states[-1]

    def verify(self) -> None:
        """Raise `ReplayDiffers` with the first recorded line that differs from the replay."""
        compare(self.recorded, self.end.transcript())


def action_of(turn: Turn) -> object:
    """Return what the agent sent in this turn: its call, or the raw action if that was not a valid call."""
    return turn.action[0] if turn.action else turn.call


def compare(recorded: Transcript, played: Transcript) -> None:
    """Raise `ReplayDiffers` with the first line that differs between two transcripts of the same calls."""
    lines = zip(recorded.to_jsonl().split("\n"), played.to_jsonl().split("\n"), strict=True)
    for number, (recorded_line, played_line) in enumerate(lines, 1):
        if recorded_line != played_line:
            raise ReplayDiffers(f"line {number}: {_difference(recorded_line, played_line)}")


def _difference(recorded_line: str, played_line: str) -> str:
    """Name the first field that differs between two lines of JSON, with both values."""
    recorded, played = msgspec.json.decode(recorded_line), msgspec.json.decode(played_line)
    for field in [*recorded, *played]:
        recorded_value, played_value = recorded.get(field), played.get(field)
        if msgspec.json.encode(recorded_value) != msgspec.json.encode(played_value):
            return f"{field} was recorded as {recorded_value!r}, and is {played_value!r} when played"
    return "the same fields are in another order"
