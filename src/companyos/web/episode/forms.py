"""Makes an HTML form from a tool's signature, and a call from a form that was filled in."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

import msgspec

from companyos.company import Tool
from companyos.company.apps.ticketdesk import Citation
from companyos.company.apps.tool import PROSE, reference
from companyos.core.calls import Call
from companyos.env.line_syntax import hint_without_none, is_evidence, plain_hint
from companyos.serve.errors import Malformed
from companyos.web.site import SubmittedForm


class InvalidField(Malformed):
    """A field of a form that cannot be read. Nothing was sent; the form is shown again, with the message at the field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


FieldKind = Literal["text", "prose", "number", "choice", "check", "record", "list", "pairs", "citations"]


class FormArgument(msgspec.Struct, frozen=True):
    """One argument of a tool, as a form asks for it."""

    name: str
    kind: FieldKind
    required: bool  # by the tool's signature
    never_empty: bool  # the browser refuses an empty field; some required arguments may be empty
    help: str = ""
    choices: tuple[str, ...] = ()
    record: str = ""  # the kind of record whose id the argument is
    minimum: int | None = None
    maximum: int | None = None
    max_length: int | None = None
    default: Any = None  # the value of an argument that is left out
    texts_only: bool = False  # the values of pairs are never numbers


@lru_cache(maxsize=256)
def form_arguments(tool: Tool) -> tuple[FormArgument, ...]:
    """Return the arguments of a tool, in the order of its signature."""
    return tuple(_argument(tool, name) for name in tool.hints)


def _argument(tool: Tool, name: str) -> FormArgument:
    hint = tool.hints[name]
    schema = tool.schema["function"]["parameters"]["properties"][name]
    # The schema of an optional argument is `{"anyOf": [{…}, {"type": "null"}]}`. Merge the first part into it.
    described = next((part for part in schema.get("anyOf", ()) if part.get("type") != "null"), {}) | schema
    required, kind = name in tool.required, _kind(hint)
    record = reference(hint_without_none(hint))
    return FormArgument(
        name=name,
        kind=kind,
        required=required,
        never_empty=required and kind in ("record", "choice", "prose", "number", "list"),
        help=described.get("description", ""),
        choices=tuple(map(str, get_args(plain_hint(hint)))) if kind == "choice" else (),
        record=record.__name__ if record else "",
        minimum=described.get("minimum"),
        maximum=described.get("maximum"),
        max_length=described.get("maxLength"),
        default=schema.get("default"),
        texts_only=described.get("additionalProperties", {}).get("type") == "string",
    )


def _kind(hint: Any) -> FieldKind:
    """Return which field of a form asks for an argument of this type."""
    given, plain = hint_without_none(hint), plain_hint(hint)
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


def read_call(tool: Tool, form: SubmittedForm) -> Call:
    """Return the call of a form, without optional arguments that are empty. Raise `InvalidField` if one cannot be read."""
    params: dict[str, Any] = {}
    for argument in form_arguments(tool):
        value = _READERS[argument.kind](argument, form)
        if value is not None:
            params[argument.name] = value
    return Call(tool.app, tool.method, params)


def typed_values(tool: Tool, form: SubmittedForm) -> dict[str, Any]:
    """Return what was filled in, to show a form again. A field that cannot be read keeps its text."""
    values: dict[str, Any] = {}
    for argument in form_arguments(tool):
        try:
            values[argument.name] = _READERS[argument.kind](argument, form)
        except InvalidField:
            values[argument.name] = form.first(argument.name)
    return values


def typed_value(text: str) -> str | int | float | bool | None:
    """Read a typed value. Text in quotes stays text, even if it looks like a number."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if value is None or isinstance(value, str | int | float) else text


def as_typed(value: Any) -> str:
    """Return how to type a value so that `typed_value` reads it back."""
    if isinstance(value, str) and typed_value(value) == value:
        return value
    return msgspec.json.encode(value).decode()


def _read_text(argument: FormArgument, form: SubmittedForm) -> str | None:
    text = form.first(argument.name)
    if argument.kind in ("record", "choice"):
        text = text.strip()
    return text if text or argument.required else None


def _read_number(argument: FormArgument, form: SubmittedForm) -> int | None:
    text = form.first(argument.name).strip()
    if not text and not argument.required:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidField(argument.name, f"{argument.name} is a whole number, not {text!r}") from None


def _read_check(argument: FormArgument, form: SubmittedForm) -> bool | None:
    return True if argument.name in form else None


def _read_list(argument: FormArgument, form: SubmittedForm) -> list[str] | None:
    items = form.first(argument.name).replace(",", " ").split()
    return items if items or argument.required else None


def _read_pairs(argument: FormArgument, form: SubmittedForm) -> dict[str, Any] | None:
    """Read the fields that the page named (`data.amount`), then the pairs that the person named."""
    prefix = f"{argument.name}."
    pairs = [(name.removeprefix(prefix), form.first(name)) for name in form if name.startswith(prefix)]
    pairs += zip(form.values(f"{argument.name}:name"), form.values(f"{argument.name}:value"), strict=False)
    read = str if argument.texts_only else typed_value
    values = {name.strip(): read(value.strip()) for name, value in pairs if name.strip() and value.strip()}
    return values if values or argument.required else None


def _read_citations(argument: FormArgument, form: SubmittedForm) -> list[dict[str, Any]]:
    """Return the facts that were ticked, then those that were typed."""
    try:
        ticked = [msgspec.json.decode(raw, type=Citation) for raw in form.values(argument.name)]
    except msgspec.MsgspecError as error:
        raise InvalidField(argument.name, f"{argument.name}: {error}") from None
    columns = (form.values(f"{argument.name}:{part}") for part in ("record", "field", "value"))
    typed = [(record.strip(), field.strip(), value.strip()) for record, field, value in zip(*columns, strict=False)]
    facts = [Citation(record, field, typed_value(value)) for record, field, value in typed if record or field or value]
    return [{"record": fact.record, "field": fact.field, "value": fact.value} for fact in [*ticked, *facts]]


_READERS: dict[FieldKind, Any] = {
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


class ToolForm(msgspec.Struct):
    """A form to fill in: the tool, the values that are filled in already, and proposed values."""

    tool: Tool
    arguments: tuple[FormArgument, ...]
    values: Mapping[str, Any]
    options: Mapping[str, Sequence[str]]  # by argument: known values that fit
    # By argument of kind "pairs": name, whether it is required, proposed value.
    fields: Mapping[str, Sequence[tuple[str, bool, str]]] = {}
    facts: Sequence["CitableRecord"] = ()  # offered as citations
    kinds: Sequence[str] = ()  # of company forms that the tool can fill in, such as approval types
    picks: Mapping[str, Sequence[str]] = {}  # by argument: a few of the options, which a click fills in
    wrong_field: str = ""  # the argument that was refused
    message: str = ""  # why

    @property
    def about(self) -> str:
        """The id of the record that the form is about, if it is known already."""
        return str(self.values.get(self.tool.target, "")) if self.tool.target else ""

    def value(self, argument: FormArgument) -> str:
        """Return the text that is filled in for an argument."""
        value = self.values.get(argument.name)
        if value is None or isinstance(value, dict | list):
            return ", ".join(map(str, value)) if isinstance(value, list) else ""
        return str(value)

    def pair(self, argument: FormArgument, name: str, proposed: str) -> str:
        """Return the text that is filled in for one pair of an argument."""
        pairs = self.values.get(argument.name)
        return _pair_text(argument, pairs[name]) if isinstance(pairs, dict) and name in pairs else proposed

    def other_pairs(self, argument: FormArgument, rows: int) -> list[tuple[str, str]]:
        """Return the pairs that are filled in without a field of their own, and empty ones up to a number of rows."""
        pairs = self.values.get(argument.name)
        named = {name for name, _, _ in self.fields.get(argument.name, ())}
        items = pairs.items() if isinstance(pairs, dict) else ()
        other = [(name, _pair_text(argument, value)) for name, value in items if name not in named]
        return other + [("", "")] * (rows - len(other))

    def other_facts(self, argument: FormArgument, rows: int) -> list[tuple[str, str, str]]:
        """Return the citations that are filled in but not in the list of facts, and empty ones up to a number of rows."""
        cited = self.values.get(argument.name)
        listed = {(known.record, field) for known in self.facts for field, *_ in known.facts}
        citations = [fact for fact in cited if isinstance(fact, dict)] if isinstance(cited, list) else []
        texts = [
            (str(fact.get("record", "")), str(fact.get("field", "")), as_typed(fact.get("value"))) for fact in citations
        ]
        other = [(record, field, value) for record, field, value in texts if (record, field) not in listed]
        return other + [("", "", "")] * (rows - len(other))


def _pair_text(argument: FormArgument, value: Any) -> str:
    """Return how to type the value of a pair."""
    return value if argument.texts_only and isinstance(value, str) else as_typed(value)


_POSITION = re.compile(r" - at `\$\.(\w+)")  # for example "Expected `int` >= 1 - at `$.hours`"


def refused_argument(tool: Tool, params: Mapping[str, Any], message: str) -> str:
    """Return the argument that a refusal is about: the one whose position, value or name its message has. Empty: none."""
    if position := _POSITION.search(message):
        return position[1]
    given = {name: value for name, value in params.items() if name in tool.hints and isinstance(value, str) and value}
    by_value = [name for name, value in given.items() if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message)]
    by_name = [name for name in tool.hints if re.search(rf"\b{name}\b", message)]
    return next(iter([*by_value, *by_name]), "")


class CitableRecord(msgspec.Struct, frozen=True):
    """A record and its facts that a reply has shown, which can be cited."""

    record: str
    title: str
    facts: Sequence[tuple[str, str, str, bool]]  # field, value, the citation as JSON, whether it is ticked
