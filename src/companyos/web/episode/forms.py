"""Forms: a tool's signature as fields to fill in, and what was filled in as a call."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

import msgspec

from companyos.company import Tool
from companyos.company.apps.ticketdesk import Citation
from companyos.company.apps.tool import PROSE, reference
from companyos.core.calls import Call
from companyos.env.line_syntax import given_hint, is_evidence, plain_hint
from companyos.serve.errors import Malformed
from companyos.web.site import Form

Kind = Literal["text", "prose", "number", "choice", "check", "record", "list", "pairs", "citations"]
BLANKS = 3  # rows to add by hand where a form has no end


class Slot(msgspec.Struct, frozen=True):
    """One argument of a tool, as a form asks for it."""

    name: str
    kind: Kind
    required: bool  # by the signature
    filled: bool  # so that a browser insists on it: some arguments mean something when they are empty
    help: str = ""
    choices: tuple[str, ...] = ()
    record: str = ""  # the kind of record whose id it is
    least: int | None = None
    most: int | None = None
    longest: int | None = None
    usual: Any = None  # what it is where nothing is said
    texts_only: bool = False  # a pair's value is never a number


@lru_cache(maxsize=256)
def slots(tool: Tool) -> tuple[Slot, ...]:
    """The fields of a tool's form, in the order of its signature."""
    return tuple(_slot(tool, name) for name in tool.hints)


def _slot(tool: Tool, name: str) -> Slot:
    hint = tool.hints[name]
    given, plain = given_hint(hint), plain_hint(hint)
    schema = tool.schema["function"]["parameters"]["properties"][name]
    said = next((part for part in schema.get("anyOf", ()) if part.get("type") != "null"), {}) | schema
    required, kind = name in tool.required, _kind(hint, given, plain)
    record = reference(given)
    return Slot(
        name=name,
        kind=kind,
        required=required,
        filled=required and kind in ("record", "choice", "prose", "number", "list"),
        help=said.get("description", ""),
        choices=tuple(map(str, get_args(plain))) if kind == "choice" else (),
        record=record.__name__ if record else "",
        least=said.get("minimum"),
        most=said.get("maximum"),
        longest=said.get("maxLength"),
        usual=schema.get("default"),
        texts_only=said.get("additionalProperties", {}).get("type") == "string",
    )


def _kind(hint: Any, given: Any, plain: Any) -> Kind:
    if is_evidence(hint):
        return "citations"
    if get_origin(plain) is dict:
        return "pairs"
    if get_origin(plain) is list:
        return "list"
    if get_origin(plain) is Literal:
        return "choice"
    if plain is bool:
        return "check"
    if plain is int:
        return "number"
    if reference(given):
        return "record"
    return "prose" if PROSE in getattr(given, "__metadata__", ()) else "text"


def read_call(tool: Tool, form: Form) -> Call:
    """The call that a filled form says; what was left empty and may be is left out. `Malformed` is no call at all."""
    params: dict[str, Any] = {}
    for slot in slots(tool):
        value = _READERS[slot.kind](slot, form)
        if value is not None:
            params[slot.name] = value
    return Call(tool.app, tool.method, params)


def typed_value(text: str) -> str | int | float | bool | None:
    """What somebody means who types this where a number may stand, too: a text in quotes is one, whatever it looks like."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if value is None or isinstance(value, str | int | float) else text


def as_typed(value: Any) -> str:
    """A value as it has to be typed to be read as it is."""
    if isinstance(value, str) and typed_value(value) == value:
        return value
    return msgspec.json.encode(value).decode()


def _read_text(slot: Slot, form: Form) -> str | None:
    text = form.one(slot.name)
    if slot.kind in ("record", "choice"):
        text = text.strip()
    return text if text or slot.required else None


def _read_number(slot: Slot, form: Form) -> int | None:
    text = form.one(slot.name).strip()
    if not text and not slot.required:
        return None
    try:
        return int(text)
    except ValueError:
        raise Malformed(f"{slot.name} is a whole number, not {text!r}") from None


def _read_check(slot: Slot, form: Form) -> bool | None:
    return True if slot.name in form else None


def _read_list(slot: Slot, form: Form) -> list[str] | None:
    found = form.one(slot.name).replace(",", " ").split()
    return found if found or slot.required else None


def _read_pairs(slot: Slot, form: Form) -> dict[str, Any] | None:
    """Fields whose names the page knew (`data.amount`), and those that were named by hand."""
    begin = f"{slot.name}."
    pairs = [(name.removeprefix(begin), form.one(name)) for name in form if name.startswith(begin)]
    pairs += zip(form.all(f"{slot.name}:name"), form.all(f"{slot.name}:value"), strict=False)
    read = str if slot.texts_only else typed_value
    found = {name.strip(): read(value.strip()) for name, value in pairs if name.strip() and value.strip()}
    return found if found or slot.required else None


def _read_citations(slot: Slot, form: Form) -> list[dict[str, Any]]:
    """Facts that were ticked, as they were shown, then those that were typed."""
    try:
        ticked = [msgspec.json.decode(raw, type=Citation) for raw in form.all(slot.name)]
    except msgspec.MsgspecError as error:
        raise Malformed(f"{slot.name}: {error}") from None
    columns = (form.all(f"{slot.name}:{part}") for part in ("record", "field", "value"))
    typed = [(record.strip(), field.strip(), value.strip()) for record, field, value in zip(*columns, strict=False)]
    facts = [Citation(record, field, typed_value(value)) for record, field, value in typed if record or field or value]
    return [{"record": one.record, "field": one.field, "value": one.value} for one in [*ticked, *facts]]


_READERS: dict[Kind, Any] = {
    "text": _read_text,
    "prose": _read_text,
    "record": _read_text,
    "choice": _read_text,
    "number": _read_number,
    "check": _read_check,
    "list": _read_list,
    "pairs": _read_pairs,
    "citations": _read_citations,
}


class Blank(msgspec.Struct):
    """A form to be filled in: a tool, what its fields say already, and what they could say."""

    tool: Tool
    slots: tuple[Slot, ...]
    values: Mapping[str, Any]
    options: Mapping[str, Sequence[str]]  # by slot: what one was told that would fit
    fields: Mapping[str, Sequence[tuple[str, bool, str]]] = {}  # of pairs: name, whether it is required, what it may be
    facts: Sequence["Known"] = ()  # to tick
    kinds: Sequence[str] = ()  # of forms that the company has, where the tool fills one in

    @property
    def about(self) -> str:
        """The record that the form is about, if that is settled."""
        return str(self.values.get(self.tool.target, "")) if self.tool.target else ""

    def value(self, slot: Slot) -> str:
        """What stands in a field."""
        value = self.values.get(slot.name)
        if value is None or isinstance(value, dict | list):
            return ", ".join(map(str, value)) if isinstance(value, list) else ""
        return str(value)

    def pair(self, slot: Slot, name: str, proposed: str) -> str:
        given = self.values.get(slot.name)
        return as_typed(given[name]) if isinstance(given, dict) and name in given else proposed


class Known(msgspec.Struct, frozen=True):
    """A record and the facts of it that were shown."""

    record: str
    title: str
    facts: Sequence[tuple[str, str, str, bool]]  # field, value in words, the citation in JSON, whether it is ticked
