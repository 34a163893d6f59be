"""MCP: the company's tools for hosts of language models. An episode per session; every call of a tool is a step.

The agent reads what any agent reads: the text of a result, with the clock and the budget. What only a trainer is to see
rides beside it in the result's `_meta.companyos`, which hosts do not show to their models: session, turn, reward, done, and
at the end success. A request may carry `_meta.companyos.turn`; sent twice, it happens once.

Which episode it is, the host says: by the options of the command, by the address, or by the token of a session that a
trainer has begun. The model can begin episodes only where the server offers `episode_begin`.
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
    ResetBody,
    ResetReply,
    Seen,
    StepReply,
    TurnNumber,
    agents_reset,
    step_reply,
    trainers_reset,
)
from companyos.serve.messages.wire import checked
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import asked_id, begin
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.views import render
from companyos.serve.steps import Step

_LOG = logging.getLogger("companyos.mcp")
ASIDE = "companyos"  # the key in `_meta` of all that is not for the agent
BEGIN, LOOK = "episode_begin", "episode_look"  # named as the company's tools are, and told from them by their app
_WITHOUT_BEGIN = f"{SYSTEM} {LOOK} shows the brief and the last result."
_WITH_BEGIN = f"{SYSTEM} {BEGIN} begins a task and shows its brief, as the prompt `brief` does; {LOOK} shows it again."


class Guest(msgspec.Struct, frozen=True):
    """Who is at the door: an MCP session, under whose name its episodes are kept, and the digest of its token."""

    name: str
    owner: str = ""
    agent: bool = False  # is shown no task id, no reward and no verdict
    session_id: str = ""  # the one session that its token is for
    chosen: Mapping[str, Any] = {}  # which episode the host asks for


class _Asked(msgspec.Struct, frozen=True):
    """What a request may say in its own `_meta.companyos`."""

    turn: TurnNumber | None = None


def company(lane: Lane, settings: Settings, guest: Callable[[], Guest], count: Callable[[int], None]) -> "FastMCP[Any]":
    """The MCP server, for whatever transport. `guest` says whose request is being answered, `count` hears of steps."""
    its_own = logging.getLogger("fastmcp")  # is to look and go where all other lines do
    its_own.handlers.clear()
    its_own.propagate, its_own.level = True, logging.WARNING
    clerk = _Clerk(lane, settings, guest, count)
    made: FastMCP[Any] = FastMCP(
        "companyos",
        _WITH_BEGIN if settings.mcp_episodes else _WITHOUT_BEGIN,
        version=__version__,
        tools=list(_tools(settings.mcp_episodes)),
        middleware=[clerk],
        mask_error_details=True,
    )
    made.prompt(clerk.brief_of if settings.mcp_episodes else clerk.brief, name="brief")
    return made


def _tools(episodes: bool) -> Iterator[Tool]:
    """How the tools are listed. They are carried out by the clerk, before anybody looks here."""
    for tool in ALL_TOOLS:
        hints = ToolAnnotations(readOnlyHint=not tool.writes, destructiveHint=tool.ends, openWorldHint=False)
        yield Tool(**tool.schema["function"], annotations=hints)
    _, schemas = msgspec.json.schema_components([ResetBody])
    what = "Begin a task and hear what is to be done. Whatever was under way in this session is left as it stands."
    if episodes:
        yield Tool(name=BEGIN, description=what, parameters=schemas["ResetBody"])
    what = "Show the brief and the last result again. Costs no step."
    no_arguments = {"type": "object", "properties": {}, "additionalProperties": False}
    yield Tool(name=LOOK, description=what, parameters=no_arguments, annotations=ToolAnnotations(readOnlyHint=True))


class _Clerk(Middleware):
    """Takes calls before any tool is looked up: in the company a tool that is not there costs a step, too."""

    def __init__(self, lane: Lane, settings: Settings, guest: Callable[[], Guest], count: Callable[[int], None]) -> None:
        self._lane = lane
        self._settings = settings
        self._guest = guest
        self._count = count
        self._beginning = asyncio.Lock()  # so that two requests at once begin one episode
        self._own: dict[str, Callable[[dict[str, Any]], Awaitable[ToolResult]]] = {LOOK: self._look}
        if settings.mcp_episodes:
            self._own[BEGIN] = self._begin

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        name, params = context.message.name, context.message.arguments or {}
        try:
            if name in self._own:
                return await self._own[name](params)
            return await self._step(name, params, _asked(context).turn)
        except ServeError as error:
            return _refusal(error, self._guest)
        except Exception:
            # As at every door: the log has the trace, and the caller gets to know nothing of it.
            _LOG.exception("a bug, in %s", name if name in self._own else "a step")
            return _refusal(Bug(), self._guest)

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Those of the episode under way, and ours; before one has begun, those that every episode has."""
        try:
            toolbox = (await self._current()).env.toolbox
        except ServeError:  # nothing is under way here, or who asks has not said where
            toolbox = TOOLBOX
        offered = {*self._own, *(schema["function"]["name"] for schema in toolbox.schemas)}
        return [tool for tool in await call_next(context) if tool.name in offered]

    async def brief(self) -> str:
        """What is to be done."""
        return await self._briefed({})

    async def brief_of(self, task: str = "", seed: str = "", chaos: str = "") -> str:
        """What is to be done. Given a task (a family, or a task id) it begins that; else it is about the one under way,
        and begins the first of all where there is none."""
        return await self._briefed({"task": task, "seed": seed, "chaos": chaos})

    async def _briefed(self, asked: Mapping[str, str]) -> str:
        given = {name: value for name, value in asked.items() if value != ""}
        try:
            try:
                session = (await self._opened(given))[0] if given else await self._current()
            except NotBegun:
                session, _ = await self._opened({})
        except ServeError as error:
            raise PromptError(f"{error.code}: {error.message}", log_level=logging.DEBUG) from None
        return f"{SYSTEM}\n\n{session.last.task}"

    async def _begin(self, params: dict[str, Any]) -> ToolResult:
        session, body = await self._opened(params)
        session_id = session.header.session_id
        if self._guest().agent:
            return _result(agents_reset(session_id, session.last))
        return _result(trainers_reset(session_id, session.last, asked_id(body, session, trusted=False)))

    async def _look(self, _: dict[str, Any]) -> ToolResult:
        session = await self._current()
        reply = step_reply(session.outcome, self._guest().agent)
        return ToolResult(_said(render(session, "text")), _shown(reply.observation), {ASIDE: _aside(reply, paid=False)})

    async def _step(self, name: str, params: dict[str, Any], turn: int | None) -> ToolResult:
        guest = self._guest()
        app, _, method = name.partition("_")
        call = checked(Call(app, method, params))
        outcome = await self._lane.step(Step(await self._under_way(guest), call, turn, guest.owner))
        self._count(1)
        return _result(step_reply(outcome, guest.agent))

    async def _opened(self, given: Mapping[str, Any]) -> tuple[Session, ResetBody]:
        guest = self._guest()
        if guest.session_id:
            raise NotForAgents
        try:
            body = msgspec.convert(_dosed(given), ResetBody, strict=False)  # prompts and addresses have texts only
        except msgspec.ValidationError as error:
            raise Malformed(str(error)) from None
        session = await begin(self._lane, self._settings, body, guest.owner, name=guest.name)
        # Each episode has its own tools. Over HTTP nothing carries this; a host there lists them again once it has begun.
        await get_context().send_notification(ToolListChangedNotification())
        return session, body

    async def _current(self) -> Session:
        guest = self._guest()
        session_id = await self._under_way(guest)
        return await self._lane.run(lambda sessions: sessions.observe(session_id, guest.owner))

    async def _under_way(self, guest: Guest) -> str:
        """The session of a guest. Where the model cannot begin one, it begins as the host has chosen."""
        if guest.session_id:
            return guest.session_id
        async with self._beginning:
            try:
                return await self._newest(guest)
            except NotBegun:
                if BEGIN in self._own:
                    raise
                return (await self._opened(guest.chosen))[0].header.session_id

    async def _newest(self, guest: Guest) -> str:
        """Asked of the ledger each time, since another worker may have begun it."""

        def newest(sessions: Sessions) -> str | None:
            return sessions.ledger.newest(guest.name)

        session_id = await self._lane.run(newest)
        if session_id is None:
            raise NotBegun
        return session_id


def _asked(context: MiddlewareContext[CallToolRequestParams]) -> _Asked:
    request = context.fastmcp_context and context.fastmcp_context.request_context
    meta = request.meta if request else None
    said = (meta.model_extra or {}).get(ASIDE, {}) if meta else {}
    try:
        return msgspec.convert(said, _Asked)
    except msgspec.ValidationError as error:
        raise Malformed(f"{error} of `_meta.{ASIDE}`") from None


def _result(reply: StepReply | ResetReply) -> ToolResult:
    """What came of a step, or of the beginning."""
    obs = reply.observation
    texts = [obs.text, "The episode is over."] if reply.done else [obs.text]
    return ToolResult(_said(*texts), _shown(obs), {ASIDE: _aside(reply)}, is_error=obs.code != OK)


def _refusal(error: ServeError, guest: Callable[[], Guest]) -> ToolResult:
    aside = {"error": error.code}
    if isinstance(error, SessionOver):
        aside |= _aside(step_reply(error.result, guest().agent), paid=False)
    shown = {"code": error.code, "message": error.message}
    return ToolResult(_said(f"{error.code}: {error.message}"), shown, {ASIDE: aside}, is_error=True)


def _shown(obs: Seen) -> dict[str, Any]:
    """The observation as data; hosts that show a model this as well as the text need not show it the text twice."""
    shown: dict[str, Any] = msgspec.to_builtins(obs)
    del shown["text"]
    return shown


def _aside(reply: StepReply | ResetReply, paid: bool = True) -> dict[str, Any]:
    """What is for the trainer. A reward stands in it once, where it is paid: some add up whatever they see."""
    aside = {name: getattr(reply, name) for name in reply.__struct_fields__ if name != "observation"}
    if not paid:
        del aside["reward"]
    return {name: value for name, value in aside.items() if value is not msgspec.UNSET}


def _said(*texts: str) -> list[TextContent]:
    return [TextContent(type="text", text=text) for text in texts]


def _dosed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with a dose that is written as text as a number; else it would pass for the name of a preset."""
    chaos = given.get("chaos")
    try:
        return dict(given) | ({"chaos": float(chaos)} if isinstance(chaos, str) else {})
    except ValueError:
        return dict(given)
