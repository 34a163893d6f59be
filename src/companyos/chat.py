"""Chats: an episode as the messages that a language model would have read and written."""

from collections.abc import Iterator
from typing import Any

import msgspec

from companyos.env import make
from companyos.episode import Transcript

SYSTEM = (
    "You work for a company. Do the work you are asked to do by calling the tools, one call at a time. "
    "Each reply begins with the clock and with how many of your steps are used. "
    "You are done once you have resolved the ticket you were asked about; that cannot be undone."
)
Message = dict[str, Any]


def messages(transcript: Transcript) -> list[Message]:
    """The whole episode in OpenAI's form: what is said to an agent and what it calls, and nothing beside that."""
    return list(_messages(transcript))


def _messages(transcript: Transcript) -> Iterator[Message]:
    env = make(transcript.header.task_id)  # played again, so that every text passes the gate through which agents see
    yield {"role": "system", "content": SYSTEM}
    yield {"role": "user", "content": env.reset().text}
    for number, turn in enumerate(transcript.turns, 1):
        call, identity = turn.call, f"call{number:05}"  # nine letters and digits: what the strictest templates take
        name, arguments = f"{call.app}_{call.method}", msgspec.json.encode(call.params).decode()
        function = {"name": name, "arguments": arguments}
        # Some templates cannot write a message whose content is null.
        yield {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": identity, "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": identity, "name": name, "content": env.step(call).text}
