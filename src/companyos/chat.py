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


def messages(transcript: Transcript, actor: str = "") -> list[Message]:
    """The whole episode in OpenAI's form: what is said to an agent and what it calls, and nothing beside that.

    Where chairs were handed over, of whoever is named; else of the one who works the task.
    """
    return list(_messages(transcript, actor))


def _messages(transcript: Transcript, actor: str) -> Iterator[Message]:
    header = transcript.header
    # Played again, so that every text passes the gate through which agents see.
    env = make(header.task_id, actors=header.actors or ())
    yield {"role": "system", "content": SYSTEM}
    yield {"role": "user", "content": env.look(actor).text}
    for number, turn in enumerate(transcript.turns, 1):
        call, identity = turn.call, f"call{number:05}"  # nine letters and digits: what the strictest templates take
        obs = env.step(call, turn.actor)
        if turn.actor != actor:
            continue
        name, arguments = f"{call.app}_{call.method}", msgspec.json.encode(call.params).decode()
        function = {"name": name, "arguments": arguments}
        # Some templates cannot write a message whose content is null.
        yield {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": identity, "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": identity, "name": name, "content": obs.text}
