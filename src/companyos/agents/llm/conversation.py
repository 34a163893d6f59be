"""Conversations: an episode as a language model reads it while it works, within a budget.

Where it grows too long, what was read longest ago is shortened first: the thoughts and replies of old turns, then all of
a reply but its code. The brief and the model's own calls stay; only where even those are too many, the oldest go.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from companyos.agents.llm.replies import Asked, Said
from companyos.env.chat import Message, answering, asking, tool_call
from companyos.env.observations import Observation

WHOLE, SHORT, BARE, GONE = range(4)  # how much of an old turn is shown
_SHORT_REPLY = 200  # characters
_LONGEST_THOUGHT = 1000
_SLACK = 0.75  # of the room is used once it was too little: so the beginning stays the same for a while, and cached
_LEAST = 400  # characters of the newest reply, however little room there is


class _Turn:
    """What the model said, and what it heard to each of its calls."""

    def __init__(self, said: Said, number: int) -> None:
        self.said = said
        self.number = number  # of its first call
        self.heard: list[Observation] = []
        self.shown = WHOLE

    @property
    def thought(self) -> str:
        return self.said.thought[:_LONGEST_THOUGHT] if self.shown == WHOLE else ""

    def replies(self) -> Iterator[tuple[Asked, str]]:
        for asked, obs in zip(self.said.asked, self.heard, strict=True):
            text = obs.code if self.shown == BARE else obs.text
            yield asked, text if self.shown != SHORT or len(text) <= _SHORT_REPLY else text[:_SHORT_REPLY] + " …"


class Conversation:
    """What was said so far, in one of two forms: with tool calls, or with a line of text for each call."""

    def __init__(self, form: str, system: str, brief: str) -> None:
        self._with_tools = form == "tools"
        self._opening = [{"role": "system", "content": system}, {"role": "user", "content": brief}]
        self._turns: list[_Turn] = []
        self._calls = 0

    def say(self, said: Said) -> None:
        """Takes in a message of the model."""
        self._turns.append(_Turn(said, self._calls + 1))
        self._calls += len(said.asked)

    def hear(self, obs: Observation) -> None:
        """Takes in what came of its next call."""
        turn = self._turns[-1]
        turn.heard.append(turn.said.asked[len(turn.heard)].hears(obs))

    def messages(self, room: float) -> list[Message]:
        """All of it in so many characters, or nearly so."""
        taken = _size(self._opening) + sum(_size(self._written(turn)) for turn in self._turns)
        aim = room * _SLACK if taken > room else room
        for shown in (SHORT, BARE, GONE):
            if shown == GONE and taken <= room:
                break  # calls go for want of room only
            for turn in self._turns[:-1]:
                if taken > aim and turn.shown < shown:
                    before = _size(self._written(turn))
                    turn.shown = shown
                    taken += _size(self._written(turn)) - before
        written = [*self._opening, *(message for turn in self._turns for message in self._written(turn))]
        if taken > room and self._turns:
            newest = written[-1]
            newest["content"] = newest["content"][: max(_LEAST, int(len(newest["content"]) - taken + room))]
        return written

    def _written(self, turn: _Turn) -> list[Message]:
        if turn.shown == GONE:
            return []
        first, replies = turn.said.asked[0], list(turn.replies())
        if self._with_tools and first.name:
            numbered = list(enumerate(replies, turn.number))
            calls = [tool_call(number, asked.name, asked.arguments) for number, (asked, _) in numbered]
            answers = [answering(number, asked.name, text) for number, (asked, text) in numbered]
            return [asking(calls, turn.thought), *answers]
        # Without a tool call there is one thing said and one reply to it; some servers take no message that is empty.
        content = "\n".join(part for part in (turn.thought, first.arguments) if part) or "(nothing)"
        return [{"role": "assistant", "content": content}, {"role": "user", "content": replies[0][1]}]


def size_of(content: Any) -> int:
    """How many characters something takes in a request."""
    return len(msgspec.json.encode(content).decode())


def _size(messages: Sequence[Message]) -> int:
    return sum(map(size_of, messages))
