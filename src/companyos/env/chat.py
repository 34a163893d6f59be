"""Chats: an episode as the messages that a language model would have read and written."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec

from companyos.company import Tool, Toolbox
from companyos.core.episode import Transcript
from companyos.env import make
from companyos.env.line_syntax import argument_help, usage

PROMPTS = 1  # their version: whoever changes a word of one writes the next
FORMS = ("tools", "text")  # how a model is asked for a call: with tools, or for a line of text


def prompt(form: str) -> str:
    """What a model is told before anything else, as it stands in a file of that version."""
    return (files("companyos.env") / "prompts" / f"{form}-{PROMPTS}.txt").read_text("utf-8").strip()


def at_length(toolbox: Toolbox) -> str:
    """The tools as they stand in a prompt of text: what they do, and what their arguments mean."""
    return "\n\n".join(map(_tool_at_length, toolbox))


def in_brief(toolbox: Toolbox) -> str:
    """The same, a line each."""
    return "\n".join(map(_tool_in_brief, toolbox))


def _tool_at_length(tool: Tool) -> str:
    meanings = [f"  {name}: {said}" for name in tool.hints if (said := argument_help(tool, name))]
    return "\n".join([usage(tool), tool.description, *meanings])


def _tool_in_brief(tool: Tool) -> str:
    choices = [f"{name}: {'|'.join(values)}" for name, values in _choices(tool)]
    return usage(tool) + (f" ({'; '.join(choices)})" if choices else "")


def _choices(tool: Tool) -> Iterator[tuple[str, list[str]]]:
    for name in tool.required:
        values = tool.schema["function"]["parameters"]["properties"][name].get("enum")
        if values:
            yield name, values


SYSTEM = prompt("tools")
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
        call = turn.call
        obs = env.step(call, turn.actor)
        if turn.actor != actor:
            continue
        name = f"{call.app}_{call.method}"
        yield asking([tool_call(number, name, msgspec.json.encode(call.params).decode())])
        yield answering(number, name, obs.text)


def asking(tool_calls: list[Message], content: str = "") -> Message:
    """A message in which a model calls tools."""
    # Some templates cannot write a message whose content is null.
    return {"role": "assistant", "content": content, "tool_calls": tool_calls}


def tool_call(number: int, name: str, arguments: str) -> Message:
    return {"id": _identity(number), "type": "function", "function": {"name": name, "arguments": arguments}}


def answering(number: int, name: str, text: str) -> Message:
    """What came of the tool call of this number."""
    return {"role": "tool", "tool_call_id": _identity(number), "name": name, "content": text}


def _identity(number: int) -> str:
    return f"call{number:05}"  # nine letters and digits: what the strictest templates take
