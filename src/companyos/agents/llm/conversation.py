"""The conversation with a language model during an episode, kept within a size limit.

If it grows too long, the oldest turns are shortened first: their thoughts and replies are cut, then only the code of a reply
is kept. The brief and the model's own calls stay. Only if the calls alone are too long, the oldest turns are dropped.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from companyos.agents.llm.replies import ModelMessage, RequestedCall
from companyos.env.chat import Message, assistant_message, tool_call, tool_message
from companyos.env.observations import Observation

WHOLE, SHORT, BARE, GONE = range(4)  # how much of an old turn is shown
_SHORT_REPLY = 200  # characters
_LONGEST_THOUGHT = 1000
_SLACK = 0.75  # share of the limit to cut down to, so that the beginning stays the same for some turns and can be cached
_LEAST = 400  # characters of the newest reply that are always kept


class _Turn:
    """A message of the model, and the observation after each of its calls."""

    def __init__(self, message: ModelMessage, number: int) -> None:
        self.message = message
        self.number = number  # number of its first call
        self.heard: list[Observation] = []
        self.shown = WHOLE

    @property
    def thought(self) -> str:
        return self.message.thought[:_LONGEST_THOUGHT] if self.shown == WHOLE else ""

    def replies(self) -> Iterator[tuple[RequestedCall, str]]:
        for asked, obs in zip(self.message.calls, self.heard, strict=True):
            text = obs.code if self.shown == BARE else obs.text
            yield asked, text if self.shown != SHORT or len(text) <= _SHORT_REPLY else text[:_SHORT_REPLY] + " …"


class Conversation:
    """The messages so far, in one of two forms: with tool calls, or with a line of text for each call."""

    def __init__(self, form: str, system: str, brief: str) -> None:
        self._with_tools = form == "tools"
        self._opening = [{"role": "system", "content": system}, {"role": "user", "content": brief}]
        self._turns: list[_Turn] = []
        self._calls = 0

    def say(self, message: ModelMessage) -> None:
        """Add a message of the model."""
        self._turns.append(_Turn(message, self._calls + 1))
        self._calls += len(message.calls)

    def hear(self, obs: Observation) -> None:
        """Add the observation after the model's next call."""
        turn = self._turns[-1]
        turn.heard.append(turn.message.calls[len(turn.heard)].hears(obs))

    def messages(self, room: float) -> list[Message]:
        """Return the conversation in about `room` characters."""
        taken = _size(self._opening) + sum(_size(self._written(turn)) for turn in self._turns)
        aim = room * _SLACK if taken > room else room
        for shown in (SHORT, BARE, GONE):
            if shown == GONE and taken <= room:
                break  # a whole turn is dropped only if the limit itself is exceeded
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
        first, replies = turn.message.calls[0], list(turn.replies())
        if self._with_tools and first.name:
            numbered = list(enumerate(replies, turn.number))
            calls = [tool_call(number, asked.name, asked.arguments) for number, (asked, _) in numbered]
            answers = [tool_message(number, asked.name, text) for number, (asked, text) in numbered]
            return [assistant_message(calls, turn.thought), *answers]
        # Without a tool call there is exactly one call and one reply. Some servers refuse empty messages.
        content = "\n".join(part for part in (turn.thought, first.arguments) if part) or "(nothing)"
        return [{"role": "assistant", "content": content}, {"role": "user", "content": replies[0][1]}]


def size_of(content: Any) -> int:
    """Return the number of characters that something takes in a request."""
    return len(msgspec.json.encode(content).decode())


def _size(messages: Sequence[Message]) -> int:
    return sum(map(size_of, messages))
