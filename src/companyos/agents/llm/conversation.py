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

WHOLE, SHORT, BARE, GONE = range(4)  # how much of an old turn is shown; BARE: without thought, and only the code of a reply
_SHORT_REPLY = 200  # characters
_MAX_THOUGHT = 1000  # characters
# A conversation that exceeds its limit is cut down to this share of it. Then it can grow for some turns without another cut,
# so that its beginning stays the same and the endpoint can cache it.
_SHARE_AFTER_CUT = 0.75
_MIN_NEWEST_REPLY = 400  # characters of the newest reply that are always kept


class _Turn:
    """A message of the model, and the observation after each of its calls."""

    def __init__(self, message: ModelMessage, number: int) -> None:
        self.message = message
        self.number = number  # number of its first call
        self.observations: list[Observation] = []
        self.shown = WHOLE  # how much of it is shown to the model

    @property
    def thought(self) -> str:
        """What the model wrote before its calls, as far as it is still shown."""
        return self.message.thought[:_MAX_THOUGHT] if self.shown == WHOLE else ""

    def replies(self) -> Iterator[tuple[RequestedCall, str]]:
        """Yield each call with the text of its reply, as far as it is still shown."""
        for requested, obs in zip(self.message.calls, self.observations, strict=True):
            text = obs.code if self.shown == BARE else obs.text
            if self.shown == SHORT and len(text) > _SHORT_REPLY:
                text = text[:_SHORT_REPLY] + " …"
            yield requested, text


class Conversation:
    """The messages so far, in one of two forms: with tool calls, or with a line of text for each call."""

    def __init__(self, form: str, system: str, brief: str) -> None:
        self._with_tools = form == "tools"
        self._opening = [{"role": "system", "content": system}, {"role": "user", "content": brief}]
        self._turns: list[_Turn] = []
        self._call_count = 0

    def say(self, message: ModelMessage) -> None:
        """Add a message of the model."""
        self._turns.append(_Turn(message, self._call_count + 1))
        self._call_count += len(message.calls)

    def hear(self, obs: Observation) -> None:
        """Add the observation after the model's next call."""
        turn = self._turns[-1]
        requested = turn.message.calls[len(turn.observations)]
        turn.observations.append(requested.with_parse_error(obs))

    def messages(self, max_characters: float) -> list[Message]:
        """Return the conversation in about this number of characters."""
        size = _size(self._opening) + sum(_size(self._messages_of(turn)) for turn in self._turns)
        target = max_characters * _SHARE_AFTER_CUT if size > max_characters else max_characters
        for shown in (SHORT, BARE, GONE):
            if shown == GONE and size <= max_characters:
                break  # a whole turn is dropped only if the limit itself is exceeded
            for turn in self._turns[:-1]:
                if size > target and turn.shown < shown:
                    before = _size(self._messages_of(turn))
                    turn.shown = shown
                    size += _size(self._messages_of(turn)) - before
        messages = [*self._opening, *(message for turn in self._turns for message in self._messages_of(turn))]
        if size > max_characters and self._turns:
            newest = messages[-1]
            fitting = int(len(newest["content"]) - size + max_characters)
            newest["content"] = newest["content"][: max(_MIN_NEWEST_REPLY, fitting)]
        return messages

    def _messages_of(self, turn: _Turn) -> list[Message]:
        """Return a turn as messages, as far as it is still shown."""
        if turn.shown == GONE:
            return []
        first, replies = turn.message.calls[0], list(turn.replies())
        if self._with_tools and first.name:
            numbered = list(enumerate(replies, turn.number))
            calls = [tool_call(number, requested.name, requested.arguments) for number, (requested, _) in numbered]
            answers = [tool_message(number, requested.name, text) for number, (requested, text) in numbered]
            return [assistant_message(calls, turn.thought), *answers]
        # Without a tool call there is exactly one call and one reply. Some servers refuse empty messages.
        content = "\n".join(part for part in (turn.thought, first.arguments) if part) or "(nothing)"
        return [{"role": "assistant", "content": content}, {"role": "user", "content": replies[0][1]}]


def size_of(content: Any) -> int:
    """Return the number of characters that something takes in a request."""
    return len(msgspec.json.encode(content).decode())


def _size(messages: Sequence[Message]) -> int:
    return sum(map(size_of, messages))
