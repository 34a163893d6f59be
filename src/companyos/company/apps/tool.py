"""Tools: functions whose signature gives the schema, the check of the arguments and the call."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, TypeVar, TypeVarTuple, get_type_hints

import msgspec
from msgspec import Meta, convert
from msgspec.structs import astuple

from companyos.core.calls import BAD_ARGUMENTS, OK, UNKNOWN_TOOL, Call, Reply
from companyos.core.errors import Refused
from companyos.core.world import Record, World, rows, view

T = TypeVar("T")
A = TypeVarTuple("A")
F = TypeVar("F", bound=Callable[..., Any])

PAGE_LENGTH = 10


class Ref(msgspec.Struct, frozen=True):
    """Marks an argument as the id of a record of this type."""

    kind: type[Record]


class _ProseMark:
    """Marks an argument as free text, which is never graded."""


PROSE = _ProseMark()
Prose = Annotated[str, Meta(max_length=600, description="free text"), PROSE]
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]  # integers that every JSON reader represents exactly
PageNumber = Annotated[int, Meta(ge=1, le=9999, description="which page of ten rows")]


class Tool:
    """One function of one app, with what is derived from its signature."""

    def __init__(self, app: str, function: Callable[..., Any], minutes: int, writes: bool, steady: bool, ends: bool) -> None:
        self.app = app
        self.method = function.__name__
        self.name = f"{app}.{function.__name__}"
        self.function = function
        self.minutes = minutes
        self.writes = writes
        self.steady = steady  # never fails to answer: lists, searches and waiting
        self.ends = ends  # may end the episode, so its answer is never lost
        self.description = inspect.cleandoc(function.__doc__ or "")
        hints = get_type_hints(function, include_extras=True)
        fields: list[Any] = []  # name, hint and, if the argument is optional, its default: as `defstruct` takes them
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            required = parameter.default is inspect.Parameter.empty
            hint = hints[parameter.name]
            fields.append((parameter.name, hint) if required else (parameter.name, hint, parameter.default))
        result = hints.get("return")
        self.shows_record = isinstance(result, type) and issubclass(result, Record)
        self.hints: dict[str, Any] = {field[0]: field[1] for field in fields}
        self.required = [field[0] for field in fields if len(field) == 2]
        self.arguments = msgspec.defstruct(self.method, fields, forbid_unknown_fields=True, frozen=True)
        # The argument with the id of the record that the call is about: injected faults are keyed by it.
        self.target = next((name for name, hint in self.hints.items() if reference(hint)), "")

    def __reduce__(self) -> tuple[Callable[..., "Tool"], tuple[Callable[..., Any]]]:
        return _declared_by, (self.function,)  # `arguments` is a generated type that cannot be pickled

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI-style function."""
        schema = msgspec.json.schema(self.arguments)
        parameters = _inline(schema, schema.get("$defs", {}))
        parameters.pop("title", None)
        function = {"name": f"{self.app}_{self.method}", "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


_DECLARED: dict[Callable[..., Any], Tool] = {}


def _declared_by(function: Callable[..., Any]) -> Tool:
    """Return the tool that a function was declared as."""
    return _DECLARED[function]


def reference(hint: Any) -> type[Record] | None:
    """Return the type of record that an argument with this type hint refers to, or None."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Ref):
            return mark.kind
    return None


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    """Replace the references in a JSON schema by what they refer to: some hosts do not support `$ref`."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    return {key: _inline(value, definitions) for key, value in node.items() if key != "$defs"}


class App:
    """A named set of tools. It holds no state: tools are functions that get the world as their first argument."""

    def __init__(self, name: str, tools: Iterable[Tool] = ()) -> None:
        self.name = name
        self.tools = list(tools)

    def tool(self, minutes: int = 1, writes: bool = False, steady: bool = False, ends: bool = False) -> Callable[[F], F]:
        """Declare a function as a tool of this app.

        `minutes` is the simulated time that a call takes. `writes` says that a call may change records, `steady` that it
        always gets an answer, and `ends` that it may end the episode.
        """

        def declare(function: F) -> F:
            tool = Tool(self.name, function, minutes=minutes, writes=writes, steady=steady, ends=ends)
            _DECLARED[function] = tool
            self.tools.append(tool)
            return function

        return declare


class Toolbox:
    """The tools of some apps. The only place where bad arguments and refusals become replies."""

    def __init__(self, apps: Sequence[App]) -> None:
        self.tools = {(tool.app, tool.method): tool for app in apps for tool in app.tools}
        self.apps = tuple(app.name for app in apps)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    @cached_property
    def schemas(self) -> list[dict[str, Any]]:
        return [tool.schema for tool in self.tools.values()]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools.values())

    def __reduce__(self) -> tuple[type["Toolbox"], tuple[list[App]]]:
        return Toolbox, ([App(app, self._tools_of(app)) for app in self.apps],)

    def extended(self, extras: Sequence[Tool]) -> "Toolbox":
        """Return a toolbox with extra tools, each listed after the others of its app."""
        return Toolbox(
            [App(app, [*self._tools_of(app), *(tool for tool in extras if tool.app == app)]) for app in self.apps]
        )

    def _tools_of(self, app: str) -> list[Tool]:
        return [tool for tool in self if tool.app == app]

    def find(self, call: Call) -> Tool | None:
        return self.tools.get((call.app, call.method))

    def call(self, world: World, actor: str, call: Call) -> Reply:
        """Check a call and carry it out as `actor`. A refused call writes nothing."""
        tool = self.tools.get((call.app, call.method))
        if tool is None:
            return Reply(False, UNKNOWN_TOOL, None, self._no_such_tool(call))
        return self.use(world, actor, tool, call)

    def use(self, world: World, actor: str, tool: Tool, call: Call) -> Reply:
        """Like `call`, for a tool that was already found."""
        try:
            arguments = convert(call.params, tool.arguments)
        except msgspec.ValidationError as error:
            return Reply(False, BAD_ARGUMENTS, None, f"{tool.name}: {error}")
        world.actor, world.why = actor, tool.name
        try:
            result = tool.function(world, *astuple(arguments))
        except Refused as refusal:
            return Reply(False, refusal.code, None, refusal.message)
        return Reply(True, OK, view(result) if tool.shows_record else result)

    def _no_such_tool(self, call: Call) -> str:
        if call.app not in self.apps:
            return f"there is no app {call.app!r}; apps: {', '.join(self.apps)}"
        methods = ", ".join(method for app, method in self.tools if app == call.app)
        return f"{call.app} has no method {call.method!r}; methods: {methods}"


def page_of(
    items: Sequence[T], page: int, to_rows: Callable[[Sequence[T], *A], list[dict[str, Any]]], *arguments: *A
) -> dict[str, Any]:
    """Return one page of a list, and the list's size. `to_rows(items, *arguments)` makes rows of the page's items."""
    total = len(items)
    pages = -(-total // PAGE_LENGTH) or 1  # rounded up; an empty list has one empty page
    if page > pages:
        raise Refused("no_such_page", f"the list has {pages} pages")
    end = page * PAGE_LENGTH
    return {"page": page, "pages": pages, "total": total, "rows": to_rows(items[end - PAGE_LENGTH : end], *arguments)}


def paged(records: Sequence[Record], page: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return one page of records, each with its id and the named fields."""
    return page_of(records, page, rows, names)
