"""An environment for TRL and Unsloth, whose tools are methods: `GRPOTrainer(environment_factory=CompanyOS)`.

TRL makes one environment for each rollout of a batch and reuses it in the next batch. A row of the dataset names a task by
`task_id`, or by `family`, `seed` and `chaos`, so that all rollouts of a group work on the same task. TRL appends the return
value of `reset` to the last message of the prompt. With `functools.partial(CompanyOS, url=...)`, the episodes run on a
CompanyOS server.

TRL reads the tools from the class, once, so all episodes of a class must offer the same tools. `CompanyOS` has the tools of
the company. A task with extra tools (the dial `tool_clutter`) is refused: without them it would be another task. Leave out
that dial, or give TRL one class for each toolbox: `offering(toolbox)`.

TRL handles three things itself. A call to a tool that does not exist never gets here, and costs no step. An exception in a
tool is shown to the model and training continues, so `get_reward` raises it again if it was a bug. TRL cannot stop a rollout
when the episode ends; if the model makes another call, that call raises `EpisodeOver`.
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
    """Raised when a model calls a tool after the end of the episode. TRL shows the message to the model."""


class TrlEpisode:
    """What TRL needs besides the tools. TRL takes every public method except `reset` and `get_reward` for a tool.

    Some versions of TRL also read the properties before the first reset, so none of them may raise.
    """

    toolbox: ClassVar[Toolbox]

    def __init__(self, url: str = "", token: str = "") -> None:
        self._server = Company(url, token) if url else None
        self._episode: CompanyEnv | Company | None = None
        self._last: Observation | None = None
        self._codes: list[str] = []
        self._defect: Exception | None = None  # a bug that a call raised; `get_reward` raises it again

    def reset(self, **row: Any) -> str:
        """Begin the task that a row of the dataset names, and return the brief."""
        task, choices = _task_of(row)
        self._codes, self._defect = [], None
        if self._server is None:
            self._episode = env = make(task, **choices, reward="score")
            first = env.reset()
        else:
            self._episode = self._server
            first = self._server.reset(task, **choices, reward="score")
        if set(first.scene.offered) != set(self.toolbox.names):
            raise BadTask(_other_tools(self._episode.task_id, self.toolbox, first))
        self._last = first
        return first.text

    def get_reward(self) -> float:
        """Return the score, from 0 to 1. A model that stops early has given up: the remaining steps are spent waiting."""
        if self._defect is not None:
            raise self._defect
        while not self._latest_observation().done:
            self._step(WAIT)
        return self._latest_observation().reward

    @property
    def task_id(self) -> str:
        return self._episode.task_id if self._episode is not None else ""

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self._episode is not None and bool(self._episode.success)

    @property
    def codes(self) -> tuple[str, ...]:
        """The reply code of each call that the model made."""
        return tuple(self._codes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Delete the session on the server, if there is one. TRL itself closes nothing."""
        if self._server is not None:
            self._server.close()

    def _latest_observation(self) -> Observation:
        if self._last is None:
            raise BadTask("no task has begun: call reset first")
        return self._last

    def _step(self, call: Call) -> None:
        assert self._episode is not None
        self._last = self._episode.step(call)

    def _call(self, call: Call) -> str:
        """Make a call and return the text that the model reads."""
        if self._latest_observation().done:
            raise EpisodeOver(OVER.message)
        try:
            self._step(call)
        except Exception as defect:
            self._defect = defect
            raise
        self._codes.append(self._latest_observation().code)
        return self._latest_observation().text


def _task_of(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the task or family that a row names, and its options. Missing columns are None in a row."""
    given = {name: row[name] for name in ("task_id", "family", "seed", "chaos") if row.get(name) is not None}
    if "task_id" in given:
        return str(TaskId.parse(str(given["task_id"]))), {}
    if "family" not in given or "seed" not in given:
        columns = ", ".join(row) or "none"
        raise BadTask(f"a row names its task by the column task_id, or by family and seed (and chaos); it has {columns}")
    return given.pop("family"), given


def _other_tools(task_id: str, toolbox: Toolbox, first: Observation) -> str:
    """Return the message of the error for a task whose tools are not those of the class."""
    differing = sorted(set(first.scene.offered) ^ set(toolbox.names))
    return (
        f"{task_id} does not offer the tools that TRL has read from the class; one that differs is {differing[0]}. "
        "Use a task without the dial tool_clutter, or make a class for its tools with offering(toolbox)"
    )


# -- tools as methods ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def offering(toolbox: Toolbox) -> type[TrlEpisode]:
    """Return the class of episodes that offer exactly these tools."""
    methods = {method.__name__: method for method in map(_method, toolbox)}
    attributes = {"__doc__": "An episode for TRL.", "__module__": __name__, "toolbox": toolbox}
    return type("CompanyOS", (TrlEpisode,), {**attributes, **methods})


def _method(tool: Tool) -> Callable[..., str]:
    """Return a tool as a method. TRL describes it by its signature and docstring; the toolbox checks the arguments."""

    def method(self: TrlEpisode, /, **params: Any) -> str:
        return self._call(Call(tool.app, tool.method, params))

    declared = inspect.signature(tool.function).parameters
    hints = {name: _plain_type(hint) for name, hint in tool.hints.items()}
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword_only, default=declared[name].default, annotation=hint)
        for name, hint in hints.items()
    ]
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = method.__qualname__ = tool.schema["function"]["name"]
    method.__doc__ = "\n".join(_docstring(tool))
    # No return annotation: TRL would repeat it in the prompt for every tool.
    method.__annotations__ = hints
    method.__signature__ = inspect.Signature([receiver, *parameters])  # type: ignore[attr-defined]
    return method


def _docstring(tool: Tool) -> Iterator[str]:
    """Yield the lines of a docstring in Google style, which TRL parses."""
    yield tool.description
    arguments = tool.schema["function"]["parameters"]["properties"]
    if arguments:
        yield "\nArgs:"
    for name, schema in arguments.items():
        yield f"    {name}: {meaning(name, schema)}"


def meaning(name: str, schema: Mapping[str, Any]) -> str:
    """Return the description of an argument on one line; for a list of records, with the fields of a record."""
    parts = (schema, *schema.get("anyOf", ()))
    description = next((part["description"] for part in parts if "description" in part), name.replace("_", " "))
    fields = schema.get("items", {}).get("properties", {})
    if not fields:
        return str(description)
    described = [
        f"{name} ({field_schema['description']})" if "description" in field_schema else name
        for name, field_schema in fields.items()
    ]
    return f"{description}; each with {', '.join(described)}"


def _plain_type(hint: Any) -> Any:
    """Return a type hint without the metadata of `Annotated`. A record becomes a dict, because TRL knows no structs."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _plain_type(parts[0])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return dict[str, Any]
    if origin in (Union, UnionType):
        return Union[tuple(map(_plain_type, parts))]  # noqa: UP007
    if origin is None or origin is Literal:
        return hint
    return origin[tuple(map(_plain_type, parts))]


CompanyOS = offering(TOOLBOX)
