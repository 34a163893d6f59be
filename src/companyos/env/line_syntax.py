"""Calls as lines of text, for people who type and for models that write text: parsing and writing.

A line is a tool and its arguments, in the order of its signature or as `name=value`:

    update_ticket T-4821 priority normal
    comment T-4821 "Could you have a look?" to=@dana.reyes
    resolve_ticket T-4821 declined below_minimum risk.acme:value=41,P-12:minimum=60
    submit_approval vendor_onboarding @dana.reyes ticket_id=T-4821 vendor="Acme Ltd" amount=900

A value is a bare word, a text in quotes ("…" with JSON escapes, '…' without) or JSON. A line that begins with `{` is a call
in JSON. Only the syntax is checked here; the toolbox checks the arguments.

One argument of a tool may be a dict, such as `data` of `submit_approval`. A line can give each item of it as `name=value`:
`vendor` and `amount` above are items of `data`.
"""

import json
import re
import types
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from companyos.company import ALL_TOOLS, Tool, Toolbox
from companyos.company.apps.ticketdesk import Citation
from companyos.core.calls import Call, Reply, parse

_STRING = r'"(?:[^"\\]|\\.)*"'  # "Could you have a \"look\"?"
_KEY = re.compile(r"([A-Za-z_]\w*)=")  # to=
_WORD = re.compile(rf'(?:[^\s"]|{_STRING})*')  # T-4821, or risk.acme:value="not known"
_QUOTED = re.compile(r"'[^']*'")  # 'Could you have a look?'
_BARE_WORD = re.compile(r"[\w@.+-][^\s\"=,]*")  # T-4821, or @dana.reyes
_CITATION = re.compile(rf'([^\s:,="]+):([^\s:,="]+)=({_STRING}|[^\s,"]*)')  # P-12:minimum=60
_find_json = json.JSONDecoder().raw_decode


class _LineError(Exception):
    """Says why a line is not a call."""


def parse_line(text: str, toolbox: Toolbox = ALL_TOOLS) -> Call | str:
    """Return the call that a line stands for, or a text that says what is wrong with the line."""
    text = text.strip()
    try:
        return _read_json_call(text) if text.startswith("{") else _read_call(text, _tools_by_name(toolbox))
    except _LineError as error:
        return str(error)


def write_line(call: Call) -> str:
    """Return the line for a call: in the compact form if that parses back to the same call, else in JSON."""
    tool = ALL_TOOLS.find(call)
    if tool is not None and call.params.keys() <= tool.hints.keys():
        line = " ".join([tool.method, *_write_arguments(tool, call.params)])
        parsed = parse_line(line)
        # Compared as JSON, because 1 == True in Python.
        if isinstance(parsed, Call) and _canonical_json(parsed.params) == _canonical_json(call.params):
            return line
    return msgspec.json.encode(call).decode()


def write_line_value(value: Any) -> str:
    """Return a value as a line writes it: a bare word if that parses back to the value, else JSON."""
    if isinstance(value, str) and _BARE_WORD.fullmatch(value) and value.isprintable() and isinstance(_scalar(value), str):
        return value
    return msgspec.json.encode(value).decode()


def usage(tool: Tool) -> str:
    """Return a tool's name with its arguments, optional ones in brackets."""
    return " ".join([tool.method, *(name if name in tool.required else f"[{name}]" for name in tool.hints)])


def how_to_write(hint: Any) -> str:
    """Return how a line writes an argument that is not a single word; empty for all others."""
    if is_evidence(hint):
        return (
            "T-1:status=open,P-3:minimum=70,C-4:guests=5,score.acme:value=71 with no quotes around it, or, where a value "
            "has spaces or commas, a JSON list of {record, field, value}"
        )
    return (
        "name=value for each field, or a JSON object, with no quotes around it"
        if get_origin(plain_hint(hint)) is dict
        else ""
    )


def argument_help(tool: Tool, name: str) -> str:
    """Return what an argument of a tool means, its choices, and how a line writes it."""
    schema = tool.schema["function"]["parameters"]["properties"][name]
    sentences = []
    for part in (schema, *schema.get("anyOf", ())):
        if "description" in part:
            sentences.append(part["description"])
        if "enum" in part:
            sentences.append("one of " + ", ".join(choice for choice in part["enum"] if choice is not None))
    if how_to_write(tool.hints[name]):
        sentences.append(f"written {how_to_write(tool.hints[name])}")
    return "; ".join(sentences)


def find_tool(name: str, toolbox: Toolbox = ALL_TOOLS) -> Tool | None:
    """Return a tool by its method, with or without the app before it, or None."""
    return _tools_by_name(toolbox).get(name)


@lru_cache(maxsize=64)
def _tools_by_name(toolbox: Toolbox) -> dict[str, Tool]:
    """Return each tool under its method (`wait`) and under its full name (`ticketdesk.wait`)."""
    return {tool.method: tool for tool in toolbox} | {tool.name: tool for tool in toolbox}


def unfinished(text: str, toolbox: Toolbox = ALL_TOOLS) -> tuple[Tool, str, str] | None:
    """Return the tool, the argument and the beginning of its value at the end of an unfinished line, for completion.

    None if the line does not end in an argument.
    """
    name, space, rest = text.lstrip().partition(" ")
    tool = find_tool(name, toolbox)
    if tool is None or not space:
        return None
    for closing in ("", '"', "'"):  # the line may end inside a quoted text
        try:
            words = list(_split_arguments(rest + closing))
            if not words or (rest[-1].isspace() and not closing):
                words.append((None, ""))
            name, beginning = _last_argument(tool, words)
            return tool, name, beginning.removesuffix(closing)
        except _LineError:
            continue
    return None


# -- reading -----------------------------------------------------------------------------------------------------------


def _read_json_call(text: str) -> Call:
    parsed = parse(_json(text, Any))
    if isinstance(parsed, Reply):  # what was parsed is not a call; the reply says why
        raise _LineError(parsed.message)
    return parsed


def _read_call(text: str, tools: dict[str, Tool]) -> Call:
    if not text:
        raise _LineError("an empty line is no call")
    name, *rest = text.split(maxsplit=1)
    tool = tools.get(name)
    if tool is None:
        similar = get_close_matches(name, tools, n=1)
        raise _LineError(f"there is no tool {name!r}" + (f"; did you mean {similar[0]}?" if similar else ""))
    params: dict[str, Any] = {}
    items: dict[str, Any] = {}  # the items of the dict argument, each given as `name=value`
    for key, raw in _split_arguments(rest[0] if rest else ""):
        name = _argument_name(tool, key, params)
        if name in params or key in items:
            raise _LineError(f"{key or name} is given twice")
        if key is not None and key != name:
            items[key] = _scalar(raw)
        else:
            params[name] = _value(name, tool.hints[name], raw)
    if items and params.setdefault(dict_argument(tool), items) is not items:
        raise _LineError(f"{dict_argument(tool)} is given twice")
    missing = [name for name in tool.required if name not in params]
    if missing:
        raise _LineError(f"{', '.join(missing)} missing: {usage(tool)}")
    return Call(tool.app, tool.method, params)


def _split_arguments(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the arguments of a line: the name, if one is given, and the value as it was written."""
    position = 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        key = _KEY.match(text, position)
        start = key.end() if key else position
        position = _end_of_value(text, start)
        if text[position : position + 1].strip():
            raise _LineError(f"there must be a space after {text[start:position]}")
        yield key[1] if key else None, text[start:position]


def _end_of_value(text: str, start: int) -> int:
    """Return the position after the value that begins at `start`."""
    if text[start : start + 1] in ("{", "["):
        try:
            return int(_find_json(text, start)[1])
        except (ValueError, RecursionError) as error:
            raise _LineError(f"{text[start:]} is not JSON: {error}") from None
    match = (_QUOTED if text[start : start + 1] == "'" else _WORD).match(text, start)
    if match is None or text[match.end() : match.end() + 1] == '"':
        raise _LineError("a quote is not closed")
    return match.end()


def _argument_name(tool: Tool, key: str | None, given: dict[str, Any]) -> str:
    """Return which argument a word is for.

    Without a key, it is for the next argument; with the name of an argument as its key, for that one. A word with any other
    key is an item of the dict argument, if the tool has one. The toolbox checks later whether that item exists.
    """
    if key in tool.hints:
        return str(key)
    if key is None:
        for name in tool.hints:
            if name not in given:
                return name
        raise _LineError(f"too many arguments: {usage(tool)}; put a text of several words in quotes")
    if not dict_argument(tool):
        raise _LineError(f"there is no argument {key!r}: {usage(tool)}; put a text with = in quotes")
    return dict_argument(tool)


def _value(name: str, hint: Any, raw: str) -> Any:
    """Return the value of an argument as its type requires. `raw` is the value as it was written."""
    plain = plain_hint(hint)
    if raw[:1] in ("'", '"'):
        return _unquoted(raw)
    if raw[:1] in ("{", "["):
        return _json(raw, Any)
    if raw == "null" and type(None) in get_args(hint):
        return None
    if is_evidence(hint):
        return _citations(raw)
    if plain is str or get_origin(plain) is Literal:
        return raw
    value = _scalar(raw)
    if isinstance(value, str):
        wanted = "a whole number" if plain is int else how_to_write(hint) or plain
        raise _LineError(f"{name} is {wanted}, not {raw!r}; put a text of several words in quotes")
    return value


def _citations(raw: str) -> list[dict[str, Any]]:
    matches = list(_CITATION.finditer(raw))
    if ",".join(match[0] for match in matches) != raw:
        raise _LineError(
            f"evidence is record:field=value,record:field=value with texts in quotes, or a JSON list; not {raw}"
        )
    parts = [match.groups() for match in matches]
    return [{"record": record, "field": field, "value": _scalar(value)} for record, field, value in parts]


def _scalar(raw: str) -> Any:
    """Return a number, boolean or null as such, and everything else as text."""
    if raw[:1] in ("'", '"'):
        return _unquoted(raw)
    try:
        return _json(raw, Any)
    except _LineError:
        return raw


def _unquoted(raw: str) -> str:
    return raw[1:-1] if raw[0] == "'" else str(_json(raw, str))


def _json(raw: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise _LineError(f"{raw} is not JSON: {error}") from None


# -- writing -----------------------------------------------------------------------------------------------------------


def _write_arguments(tool: Tool, params: dict[str, Any]) -> Iterator[str]:
    """Yield the arguments of a call as words. After a left-out argument, words need their names."""
    in_order = True
    for name, hint in tool.hints.items():
        if name not in params:
            in_order = False
            continue
        value = params[name]
        if name == dict_argument(tool) and isinstance(value, dict) and value:
            yield from (f"{key}={write_line_value(item)}" for key, item in value.items())
            in_order = False
        else:
            text = _write_citations(value) if value and is_evidence(hint) else write_line_value(value)
            yield text if in_order else f"{name}={text}"


def _write_citations(value: Any) -> str:
    try:
        return ",".join(f"{c.record}:{c.field}={write_line_value(c.value)}" for c in msgspec.convert(value, list[Citation]))
    except msgspec.ValidationError:
        return write_line_value(value)


def _canonical_json(params: dict[str, Any]) -> bytes:
    """Return JSON that is equal for equal arguments, whatever their order."""
    return msgspec.json.encode(params, order="deterministic")


# -- what an argument is -----------------------------------------------------------------------------------------------


def hint_without_none(hint: Any) -> Any:
    """Return an argument's type without the None of an optional argument: `str` for `str | None`."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def plain_hint(hint: Any) -> Any:
    """Return an argument's type without the metadata of `Annotated` and without the None of an optional argument."""
    hint = hint_without_none(hint)
    return getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint


def is_evidence(hint: Any) -> bool:
    """Tell whether an argument is a list of citations."""
    plain = plain_hint(hint)
    return get_origin(plain) is list and get_args(plain) == (Citation,)


def dict_argument(tool: Tool) -> str:
    """Return the name of the argument that is a dict, whose items a line can give as `name=value`, or an empty string."""
    return next((name for name, hint in tool.hints.items() if get_origin(plain_hint(hint)) is dict), "")


def _last_argument(tool: Tool, words: list[tuple[str | None, str]]) -> tuple[str, str]:
    """Return the argument that the last word is for, and that word, with its key if it is an item of a dict."""
    given: dict[str, Any] = {}
    for key, _ in words[:-1]:
        name = _argument_name(tool, key, given)
        if key is None or key == name:
            given[name] = None
    key, beginning = words[-1]
    name = _argument_name(tool, key, given)
    return name, beginning if key in (None, name) else f"{key}={beginning}"
