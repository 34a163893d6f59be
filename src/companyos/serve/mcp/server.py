"""The MCP server: the tools of the company for hosts of language models. Every tool call is a step of the current episode.

The agent reads the same text as any agent, with the clock and the budget. What only a trainer may see is in the result's
`_meta.companyos`, which hosts do not show to their models: session, turn, reward, done, and at the end success. A request
may contain `_meta.companyos.turn`; if a second request with the same turn arrives, the call is not made again.

The host chooses the episode: by the options of `companyos mcp`, by the URL, or by the token of a session that a trainer has
begun. The model can begin episodes only if the server offers the tool `episode_begin`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from fastmcp import FastMCP
from fastmcp.exceptions import PromptError
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp.types import CallToolRequestParams, ListToolsRequest, TextContent, ToolAnnotations, ToolListChangedNotification

from companyos import __version__
from companyos.company import ALL_TOOLS, TOOLBOX
from companyos.core.calls import OK, Call
from companyos.env.chat import SYSTEM
from companyos.serve.errors import Bug, Malformed, NotBegun, NotForAgents, ServeError, SessionOver
from companyos.serve.messages.bodies import (
    AgentObservation,
    ResetBody,
    ResetReply,
    StepReply,
    TurnNumber,
    reset_reply_for_agent,
    reset_reply_for_trainer,
    step_reply,
)
from companyos.serve.messages.wire import checked
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, task_id_for_reply
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.views import render
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest

_LOG = logging.getLogger("companyos.mcp")
META_KEY = "companyos"  # of the fields in `_meta` that are not for the agent
BEGIN, LOOK = "episode_begin", "episode_look"  # named like the tools of the company; no app is called "episode"
_WITHOUT_BEGIN = f"{SYSTEM} {LOOK} shows the brief and the last result."
_WITH_BEGIN = f"{SYSTEM} {BEGIN} begins a task and shows its brief, as the prompt `brief` does; {LOOK} shows it again."


class McpClient(msgspec.Struct, frozen=True):
    """The client of a request."""

    name: str  # the id of its MCP session, or the name that the command line gives; its episodes are stored under it
    owner: str = ""  # the digest of its token; empty without a token
    agent: bool = False  # must not see a task id, a reward or a verdict
    session_id: str = ""  # the only session that its token is valid for
    reset_fields: Mapping[str, Any] = {}  # the fields of the reset that the host asks for


class _RequestMeta(msgspec.Struct, frozen=True):
    """The fields that a request may have in `_meta.companyos`."""

    turn: TurnNumber | None = None


def build_server(
    queue: WorkQueue, settings: Settings, current_client: Callable[[], McpClient], count_steps: Callable[[int], None]
) -> "FastMCP[Any]":
    """Return the MCP server, for any transport.

    `current_client` returns the client of the current request. `count_steps` is told how many steps were made, for metrics.
    """
    fastmcp_log = logging.getLogger("fastmcp")  # should use our handler and format
    fastmcp_log.handlers.clear()
    fastmcp_log.propagate, fastmcp_log.level = True, logging.WARNING
    offers_begin = settings.mcp_episodes  # whether the model may begin episodes
    steps = _StepMiddleware(queue, settings, current_client, count_steps)
    server: FastMCP[Any] = FastMCP(
        "companyos",
        _WITH_BEGIN if offers_begin else _WITHOUT_BEGIN,
        version=__version__,
        tools=list(_tools(offers_begin)),
        middleware=[steps],
        mask_error_details=True,
    )
    server.prompt(steps.brief_of if offers_begin else steps.brief, name="brief")
    return server


def _tools(offers_begin: bool) -> Iterator[Tool]:
    """Yield the tools for `tools/list`. These tools never run: the middleware handles each call itself."""
    for tool in ALL_TOOLS:
        hints = ToolAnnotations(readOnlyHint=not tool.writes, destructiveHint=tool.ends, openWorldHint=False)
        yield Tool(**tool.schema["function"], annotations=hints)
    _, schemas = msgspec.json.schema_components([ResetBody])
    begin_text = "Begin a task and hear what is to be done. Whatever was under way in this session is left as it stands."
    if offers_begin:
        yield Tool(name=BEGIN, description=begin_text, parameters=schemas["ResetBody"])
    look_text = "Show the brief and the last result again. Costs no step."
    no_arguments = {"type": "object", "properties": {}, "additionalProperties": False}
    yield Tool(name=LOOK, description=look_text, parameters=no_arguments, annotations=ToolAnnotations(readOnlyHint=True))


class _StepMiddleware(Middleware):
    """Carries out calls before FastMCP looks up the tool, because a call to an unknown tool costs a step, too."""

    def __init__(
        self,
        queue: WorkQueue,
        settings: Settings,
        current_client: Callable[[], McpClient],
        count_steps: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._current_client = current_client
        self._count_steps = count_steps
        self._beginning = asyncio.Lock()  # so that two concurrent requests begin one episode
        self._own_tools: dict[str, Callable[[dict[str, Any]], Awaitable[ToolResult]]] = {LOOK: self._look}
        if settings.mcp_episodes:
            self._own_tools[BEGIN] = self._begin

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        name, params = context.message.name, context.message.arguments or {}
        try:
            if name in self._own_tools:
                return await self._own_tools[name](params)
            return await self._step(name, params, _request_meta(context).turn)
        except ServeError as error:
            return _refusal(error, self._current_client)
        except Exception:
            # As at every endpoint, the log has the traceback and the client gets no details.
            _LOG.exception("a bug in %s", name if name in self._own_tools else "a step")
            return _refusal(Bug(), self._current_client)

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Return our own tools and those of the current episode; before it begins, all tools that an episode may have."""
        try:
            toolbox = (await self._current()).env.toolbox
        except ServeError:  # no episode has begun, or the request names no session
            toolbox = TOOLBOX
        offered = {*self._own_tools, *(schema["function"]["name"] for schema in toolbox.schemas)}
        return [tool for tool in await call_next(context) if tool.name in offered]

    async def brief(self) -> str:
        """The brief of the current episode."""
        return await self._brief_text({})

    async def brief_of(self, task: str = "", seed: str = "", chaos: str = "") -> str:
        """The brief of the current episode. With a task (a family or a task id), begin that task first."""
        return await self._brief_text({"task": task, "seed": seed, "chaos": chaos})

    async def _brief_text(self, fields: Mapping[str, str]) -> str:
        """Return the brief of the current episode, or of a new one if a field of the reset is given."""
        given = {name: value for name, value in fields.items() if value != ""}
        try:
            try:
                session = (await self._open_session(given))[0] if given else await self._current()
            except NotBegun:
                session, _ = await self._open_session({})
        except ServeError as error:
            raise PromptError(f"{error.code}: {error.message}", log_level=logging.DEBUG) from None
        return f"{SYSTEM}\n\n{session.last.task}"

    async def _begin(self, params: dict[str, Any]) -> ToolResult:
        session, body = await self._open_session(params)
        session_id = session.header.session_id
        if self._current_client().agent:
            return _result(reset_reply_for_agent(session_id, session.last))
        # An MCP host gets the id that it asked for: the canonical id can reveal a hidden cause.
        task_id = task_id_for_reply(body, session, trusted=False)
        return _result(reset_reply_for_trainer(session_id, session.last, task_id))

    async def _look(self, _: dict[str, Any]) -> ToolResult:
        session = await self._current()
        reply = step_reply(session.result, self._current_client().agent)
        return ToolResult(
            _text_content(render(session, "text")),
            _observation_data(reply.observation),
            {META_KEY: _trainer_fields(reply, with_reward=False)},
        )

    async def _step(self, name: str, params: dict[str, Any], turn: int | None) -> ToolResult:
        client = self._current_client()
        app, _, method = name.partition("_")
        call = checked(Call(app, method, params))
        result = await self._queue.step(StepRequest(await self._session_id_of(client), call, turn, client.owner))
        self._count_steps(1)
        return _result(step_reply(result, client.agent))

    async def _open_session(self, given: Mapping[str, Any]) -> tuple[Session, ResetBody]:
        """Begin the episode that these fields of a reset ask for. Return its session, and the fields as a body."""
        client = self._current_client()
        if client.session_id:  # its token is valid for this session only, so it must not begin another one
            raise NotForAgents
        try:
            # Not strict, because prompts and URLs contain strings only.
            body = msgspec.convert(_with_numeric_chaos(given), ResetBody, strict=False)
        except msgspec.ValidationError as error:
            raise Malformed(str(error)) from None
        session = await begin(self._queue, self._settings, body, client.owner, name=client.name)
        # Each episode has its own tools. Over HTTP this notification is not sent; a host there lists the tools again.
        await get_context().send_notification(ToolListChangedNotification())
        return session, body

    async def _current(self) -> Session:
        """Return the session of the current client. Raise `NotBegun` if it has none and the model must begin it."""
        client = self._current_client()
        session_id = await self._session_id_of(client)
        return await self._queue.run(lambda sessions: sessions.observe(session_id, client.owner))

    async def _session_id_of(self, client: McpClient) -> str:
        """Return the session of a client. If the model cannot begin one itself, begin the one that the host has chosen."""
        if client.session_id:
            return client.session_id
        async with self._beginning:
            try:
                return await self._newest(client)
            except NotBegun:
                if BEGIN in self._own_tools:
                    raise
                return (await self._open_session(client.reset_fields))[0].header.session_id

    async def _newest(self, client: McpClient) -> str:
        """Return the newest session of a client. Always asks the ledger, because another worker may have begun it."""

        def newest(sessions: Sessions) -> str | None:
            return sessions.ledger.newest(client.name)

        session_id = await self._queue.run(newest)
        if session_id is None:
            raise NotBegun
        return session_id


def _request_meta(context: MiddlewareContext[CallToolRequestParams]) -> _RequestMeta:
    """Return the fields of `_meta.companyos` in a request."""
    request = context.fastmcp_context and context.fastmcp_context.request_context
    meta = request.meta if request else None
    given = (meta.model_extra or {}).get(META_KEY, {}) if meta else {}
    try:
        return msgspec.convert(given, _RequestMeta)
    except msgspec.ValidationError as error:
        raise Malformed(f"{error} of `_meta.{META_KEY}`") from None


def _result(reply: StepReply | ResetReply) -> ToolResult:
    """Return the result of a step or of a reset."""
    obs = reply.observation
    texts = [obs.text, "The episode is over."] if reply.done else [obs.text]
    return ToolResult(
        _text_content(*texts), _observation_data(obs), {META_KEY: _trainer_fields(reply)}, is_error=obs.code != OK
    )


def _refusal(error: ServeError, current_client: Callable[[], McpClient]) -> ToolResult:
    """Return an error as the result of a call."""
    fields = {"error": error.code}
    if isinstance(error, SessionOver):
        fields |= _trainer_fields(step_reply(error.result, current_client().agent), with_reward=False)
    shown = {"code": error.code, "message": error.message}
    return ToolResult(_text_content(f"{error.code}: {error.message}"), shown, {META_KEY: fields}, is_error=True)


def _observation_data(obs: AgentObservation) -> dict[str, Any]:
    """Return the observation as data, without its text: some hosts show a model both, and would repeat the text."""
    shown: dict[str, Any] = msgspec.to_builtins(obs)
    del shown["text"]
    return shown


def _trainer_fields(reply: StepReply | ResetReply, with_reward: bool = True) -> dict[str, Any]:
    """Return the fields for the trainer.

    Leave out a reward that was already sent (`with_reward=False`), because some trainers add up all rewards that they get.
    """
    fields = {name: getattr(reply, name) for name in reply.__struct_fields__ if name != "observation"}
    if not with_reward:
        del fields["reward"]
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}


def _text_content(*texts: str) -> list[TextContent]:
    return [TextContent(type="text", text=text) for text in texts]


def _with_numeric_chaos(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a dose of chaos in a string to a number; otherwise it would be taken for the name of a preset."""
    chaos = given.get("chaos")
    try:
        return dict(given) | ({"chaos": float(chaos)} if isinstance(chaos, str) else {})
    except ValueError:
        return dict(given)
