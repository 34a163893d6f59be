"""TRL: an episode whose tools are methods, for `GRPOTrainer(environment_factory=CompanyOS)` of TRL and of Unsloth.

TRL makes one for each rollout of a batch and uses it again in the next. A row of its dataset names a task, so that a group
works one and the same: `task_id`, or `family`, `seed` and `chaos`. What `reset` returns is added to the last message of the
row's prompt. `functools.partial(CompanyOS, url=...)` in place of the class works on a server.

TRL reads the tools from the class, once, so all episodes of a class must offer the same. `CompanyOS` has the tools of the
company; a task with clutter among its tools is refused rather than shown without it, which would be another task. Leave out
that dial (`tool_clutter`), or give TRL one class for each toolbox, by name: `offering(toolbox)`.

There are three things that TRL keeps to itself. A call to a tool that does not exist never gets here, and takes no step.
An error is told to the model, and training goes on: so `get_reward` raises again what was a defect. And nothing ends a
rollout but the model, so that whatever it calls after the end raises.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import TracebackType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

import msgspec

from companyos.agents.routine import WAIT
from companyos.company import TOOLBOX, Tool, Toolbox
from companyos.core.calls import Call
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.env import OVER, CompanyEnv, make
from companyos.env.observations import Observation
from companyos.integrations.client import Company


class EpisodeOver(Exception):
    """Said to a model that goes on after the end."""


class Episode:
    """What TRL wants of an environment beside tools. It takes every function of the class for one that has no underscore.

    Some of its versions read the properties, too, before anything has begun: none may raise.
    """

    toolbox: ClassVar[Toolbox]

    def __init__(self, url: str = "", token: str = "") -> None:
        self._server = Company(url, token) if url else None
        self._at: CompanyEnv | Company | None = None
        self._last: Observation | None = None
        self._codes: list[str] = []
        self._defect: Exception | None = None

    def reset(self, **row: Any) -> str:
        """Begins the task that a row of the dataset names. The brief is what a model reads first."""
        task, choices = _task_of(row)
        self._codes, self._defect = [], None
        if self._server is None:
            self._at = env = make(task, **choices, reward="score")
            begun = env.reset()
        else:
            self._at = self._server
            begun = self._server.reset(task, **choices, reward="score")
        if set(begun.scene.offered) != set(self.toolbox.names):
            raise BadTask(_other_tools(self._at.task_id, self.toolbox, begun))
        self._last = begun
        return begun.text

    def get_reward(self) -> float:
        """The score, from 0 to 1. Who stops before the end has given up: time passes until the budget is spent."""
        if self._defect is not None:
            raise self._defect
        while not self._now().done:
            self._step(WAIT)
        return self._now().reward

    @property
    def task_id(self) -> str:
        return self._at.task_id if self._at is not None else ""

    @property
    def success(self) -> bool:
        """Whether the work was done, and done rightly."""
        return self._at is not None and bool(self._at.success)

    @property
    def codes(self) -> tuple[str, ...]:
        """What came of each call that the model made, by its stable word."""
        return tuple(self._codes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Frees the place on the server, if there is one. TRL itself closes nothing."""
        if self._server is not None:
            self._server.close()

    def _now(self) -> Observation:
        if self._last is None:
            raise BadTask("no task has begun: reset comes first")
        return self._last

    def _step(self, call: Call) -> None:
        assert self._at is not None
        self._last = self._at.step(call)

    def _call(self, call: Call) -> str:
        """What a model reads when it has called a tool."""
        if self._now().done:
            raise EpisodeOver(OVER.message)
        try:
            self._step(call)
        except Exception as defect:
            self._defect = defect
            raise
        self._codes.append(self._now().code)
        return self._now().text


def _task_of(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The task that a row names, and how it is to be. Columns that are not given are None in a row."""
    given = {name: row[name] for name in ("task_id", "family", "seed", "chaos") if row.get(name) is not None}
    if "task_id" in given:
        return str(TaskId.parse(str(given["task_id"]))), {}
    if "family" not in given or "seed" not in given:
        columns = ", ".join(row) or "none"
        raise BadTask(f"a row names its task by the column task_id, or by family and seed (and chaos); it has {columns}")
    return given.pop("family"), given


def _other_tools(task_id: str, toolbox: Toolbox, begun: Observation) -> str:
    differing = sorted(set(begun.scene.offered) ^ set(toolbox.names))
    return (
        f"{task_id} offers other tools than TRL has read from the class, such as {differing[0]}; "
        "take a task without the dial tool_clutter, or the class offering(toolbox) of its own tools"
    )


# -- tools as methods ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def offering(toolbox: Toolbox) -> type[Episode]:
    """The class of the episodes that offer exactly these tools."""
    methods = {method.__name__: method for method in map(_method, toolbox)}
    about = {"__doc__": "An episode, as TRL takes one.", "__module__": __name__, "toolbox": toolbox}
    return type("CompanyOS", (Episode,), {**about, **methods})


def _method(tool: Tool) -> Callable[..., str]:
    """A tool as a method: TRL describes it by its signature and its docstring, and the toolbox checks what it is given."""

    def method(self: Episode, /, **params: Any) -> str:
        return self._call(Call(tool.app, tool.method, params))

    declared = inspect.signature(tool.function).parameters
    hints = {name: _plain(hint) for name, hint in tool.hints.items()}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=declared[name].default, annotation=hint) for name, hint in hints.items()
    ]
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = method.__qualname__ = tool.schema["function"]["name"]
    method.__doc__ = "\n".join(_docstring(tool))
    # No hint of what is returned: that it is text would stand in every prompt, once a tool.
    method.__annotations__ = hints
    method.__signature__ = inspect.Signature([receiver, *parameters])  # type: ignore[attr-defined]
    return method


def _docstring(tool: Tool) -> Iterator[str]:
    """In Google's form, which is the one that TRL reads."""
    yield tool.description
    arguments = tool.schema["function"]["parameters"]["properties"]
    if arguments:
        yield "\nArgs:"
    for name, schema in arguments.items():
        yield f"    {name}: {meaning(name, schema)}"


def meaning(name: str, schema: Mapping[str, Any]) -> str:
    """What an argument means, on one line; of a list of records, what each of them has."""
    parts = (schema, *schema.get("anyOf", ()))
    said = next((part["description"] for part in parts if "description" in part), name.replace("_", " "))
    fields = schema.get("items", {}).get("properties", {})
    if not fields:
        return str(said)
    named = [f"{field} ({of['description']})" if "description" in of else field for field, of in fields.items()]
    return f"{said}; each with {', '.join(named)}"


def _plain(hint: Any) -> Any:
    """A hint without its marks; a record is a dict, since TRL knows no others."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _plain(parts[0])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return dict[str, Any]
    if origin in (Union, UnionType):
        return Union[tuple(map(_plain, parts))]  # noqa: UP007
    if origin is None or origin is Literal:
        return hint
    return origin[tuple(map(_plain, parts))]


CompanyOS = offering(TOOLBOX)
