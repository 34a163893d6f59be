"""Chats: episodes as messages for language models, and the prompts that explain tools to them."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec

from companyos.company import Tool, Toolbox
from companyos.core.episode import Transcript
from companyos.env import make
from companyos.env.line_syntax import argument_help, usage

PROMPT_VERSION = 1  # the version of the prompts; a changed prompt gets a new file and a new number
FORMS = ("tools", "text")  # how a model makes its calls: as tool calls, or as lines of text


def prompt(form: str) -> str:
    """Return the system prompt for a form, from the file of the present version."""
    return (files("companyos.env") / "prompts" / f"{form}-{PROMPT_VERSION}.txt").read_text("utf-8").strip()


def tools_in_full(toolbox: Toolbox) -> str:
    """Return the tools for a text prompt: what each does, and what its arguments mean."""
    return "\n\n".join(map(_tool_in_full, toolbox))


def tools_in_short(toolbox: Toolbox) -> str:
    """Return the tools for a text prompt, one line each."""
    return "\n".join(map(_tool_in_short, toolbox))


def _tool_in_full(tool: Tool) -> str:
    meanings = [f"  {name}: {meaning}" for name in tool.hints if (meaning := argument_help(tool, name))]
    return "\n".join([usage(tool), tool.description, *meanings])


def _tool_in_short(tool: Tool) -> str:
    choices = [f"{name}: {'|'.join(values)}" for name, values in _choices(tool)]
    return usage(tool) + (f" ({'; '.join(choices)})" if choices else "")


def _choices(tool: Tool) -> Iterator[tuple[str, list[str]]]:
    """Yield each required argument that has a closed list of values, with that list."""
    for name in tool.required:
        values = tool.schema["function"]["parameters"]["properties"][name].get("enum")
        if values:
            yield name, values


SYSTEM = prompt("tools")
Message = dict[str, Any]


def messages(transcript: Transcript, actor: str = "") -> list[Message]:
    """Return an episode as OpenAI messages: what one actor is shown and which calls it makes.

    By default, the actor is the person who works the task.
    """
    return list(_replayed_messages(transcript, actor))


def _replayed_messages(transcript: Transcript, actor: str) -> Iterator[Message]:
    header = transcript.header
    # The episode is replayed, so that every text is what an agent observes.
    env = make(header.task_id, actors=header.actors or ())
    yield {"role": "system", "content": SYSTEM}
    yield {"role": "user", "content": env.look(actor).text}
    for number, turn in enumerate(transcript.turns, 1):
        call = turn.call
        obs = env.step(call, turn.actor)
        if turn.actor != actor:
            continue
        name = f"{call.app}_{call.method}"
        yield assistant_message([tool_call(number, name, msgspec.json.encode(call.params).decode())])
        yield tool_message(number, name, obs.text)


def assistant_message(tool_calls: list[Message], content: str = "") -> Message:
    """Return a message in which a model calls tools. Some chat templates cannot render null, so `content` is a string."""
    return {"role": "assistant", "content": content, "tool_calls": tool_calls}


def tool_call(number: int, name: str, arguments: str) -> Message:
    """Return one entry of `tool_calls`. `arguments` is JSON."""
    return {"id": _call_id(number), "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_message(number: int, name: str, text: str) -> Message:
    """Return the message with the reply to the tool call of this number."""
    return {"role": "tool", "tool_call_id": _call_id(number), "name": name, "content": text}


def _call_id(number: int) -> str:
    return f"call{number:05}"  # nine letters and digits, which even the strictest templates accept
