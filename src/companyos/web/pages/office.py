"""The office: the three apps in a browser. Each page belongs to one turn and always shows that turn's reply.

Only a POST to `call` makes a step. It carries the number of its turn, so that a form that is sent twice makes one step.
A form from an old page makes none: the player is asked whether to send it for the next turn. Reading a record is a step
too. Therefore an id is not a link but a button of the one form that every page has (`CALL_FORM_ID`).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.company import Policy, Ticket, Tool, Toolbox
from companyos.core.calls import NO_ANSWER, OK, Call
from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.env.line_syntax import find_tool, parse_line, write_line
from companyos.serve.errors import Malformed, SessionOver, TurnAhead, TurnTaken, UnknownRoute
from companyos.serve.http.requests import client_of
from companyos.serve.messages.wire import checked
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.truth import TruthAccess
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest
from companyos.web.background import TooManyReplays
from companyos.web.episode.forms import InvalidField, ToolForm, form_arguments, read_call, refused_argument, typed_values
from companyos.web.episode.layouts import CALL_FORM_ID, ReplyLayout, ValueRenderer, lay_out, record_kind
from companyos.web.episode.navigation import APPS, actions_on, app_menus, write_tools_for
from companyos.web.episode.office_view import OfficeView, OfficeViews
from companyos.web.episode.review import explain
from companyos.web.episode.verdict import VerdictSummary, summarize_verdict
from companyos.web.site import Site, SubmittedForm, read_form, redirect_to

MAX_INLINE_ARGUMENTS = 4  # a write tool with at most this many arguments has its form beside the record


class OfficePages:
    """The pages under `/office`."""

    prefix, title = "/office", ""

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue, self._metrics = site, queue, metrics
        self._views, self._truth_access = OfficeViews(), TruthAccess()
        site.templates.globals |= {
            "CALL_FORM_ID": CALL_FORM_ID,
            "app_menus": app_menus,
            "write_tools_for": write_tools_for,
            "APPS": APPS,
        }
        session = "/office/{session_id}"
        app.router.routes.extend(
            [
                Route(f"{session}/call", self.call, methods=["POST"]),
                Route(f"{session}/{{turn:int}}", self.turn),
                Route(f"{session}/form/{{tool}}", self.form),
                Route(f"{session}/steps", self.steps),
                Route(f"{session}/verdict", self.verdict),
                Route(session, self.last),
            ]
        )

    # -- making a call -----------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> Response:
        """Make one call, then redirect to the page of its turn."""
        form = await read_form(request)
        view = await self._view(request)
        turn = _turn(form)
        try:
            call = checked(_call(form, view.toolbox))
        except InvalidField as error:
            tool = find_tool(form.first("_tool"), view.toolbox)
            assert tool is not None  # its form was read
            wrong = {"wrong_field": error.field, "message": str(error)}
            return self._form_page(view, tool, typed_values(tool, form), error.status, wrong)
        except Malformed as error:
            if "_line" not in form:
                raise
            return self._turn_page(view, view.step, error.status, typed_line=form.first("_line"), wrong=str(error))
        try:
            step = StepRequest(view.session_id, call, turn, client_of(request).owner)
            result = await self._queue.step(step)
        except TurnTaken as error:
            # The form came from an old page. Nothing was done; the player decides whether to send it again.
            view = await self._view(request)
            return self._show(
                "office_turn_taken.html", view, 409, call=call, line=write_line(call), taken=turn, recorded=error.recorded
            )
        except TurnAhead:
            raise Malformed(f"turn {turn} is not due yet") from None
        except SessionOver:
            return redirect_to(f"{view.path}/verdict")
        self._metrics.steps(1)
        # The verdict page also shows the last call.
        return redirect_to(f"{view.path}/verdict" if result.observation.done else f"{view.path}/{turn}")

    # -- pages -------------------------------------------------------------------------------------------------------

    async def last(self, request: Request) -> Response:
        """Redirect to the page of the last turn."""
        view = await self._view(request)
        return redirect_to(f"{view.path}/{view.step}")

    async def turn(self, request: Request) -> Response:
        """The reply of one call, and what can be done with it."""
        view, number = await self._view(request), request.path_params["turn"]
        if number > view.step:
            raise UnknownRoute(f"turn {number} has not been made yet; the last one is {view.step}")
        return self._turn_page(view, number)

    def _turn_page(
        self, view: OfficeView, number: int, status: int = 200, typed_line: str = "", wrong: str = ""
    ) -> Response:
        """Return the page of a turn, or of the brief for 0. `wrong` says why the call that was typed there is invalid."""
        typed = {"typed_line": typed_line, "wrong": wrong}
        if number == 0:
            return self._show("office_brief.html", view, status, turn=0, **typed)
        turn = view.turns[number - 1]
        tool, renderer = view.toolbox.find(turn.call), ValueRenderer(not view.done)
        layout = lay_out(tool, turn.reply.data, renderer, view.history_up_to(number)) if turn.reply.ok else None
        record = (layout.id or _record_of(tool, turn.call)) if layout and not view.done else ""
        reads, writes = actions_on(view.toolbox, record, tool.name if tool else "") if record else ([], [])
        inline = [writer for writer in writes if len(form_arguments(writer)) <= MAX_INLINE_ARGUMENTS and not writer.ends]
        is_list = tool is not None and bool(tool.hints) and not tool.writes and not tool.target
        return self._show(
            "office_turn.html",
            view,
            status,
            **typed,
            turn=number,
            shown_turn=turn,
            tool=tool,
            line=write_line(turn.call),
            layout=layout,
            message=renderer.text(turn.reply.message),
            refused=turn.reply.code not in (OK, NO_ANSWER),
            unanswered=turn.reply.code == NO_ANSWER,
            record=record,
            reads=reads,
            inline_forms=[view.tool_form(writer, {writer.target: record}) for writer in inline],
            linked_tools=[writer for writer in writes if writer not in inline],
            filters=view.tool_form(tool, turn.call.params) if tool and is_list and not view.done else None,
            page_lines=_page_lines(turn.call, layout.page, layout.pages) if layout and not view.done else (None, None),
            retry=_retry_form(view, tool, turn) if tool and _may_be_corrected(tool, turn) and not view.done else None,
            about=_record_of(tool, turn.call),
            back=view.list_with(record or _record_of(tool, turn.call), number),
            beside=self._ticket_beside(view, layout),
            policies=view.policies() if layout and layout.kind == Ticket.__name__ else (),
        )

    def _ticket_beside(self, view: OfficeView, layout: ReplyLayout | None) -> tuple[int, ReplyLayout] | None:
        """Return the ticket of the brief as it was last shown, with its step, to be read beside a policy."""
        is_policy = layout is not None and (layout.kind == Policy.__name__ or layout.lists == Policy.__name__)
        if not is_policy or not (shown := view.last_shown(view.ticket)):
            return None
        return shown[0], lay_out(None, shown[1], ValueRenderer(not view.done), view.history_up_to(shown[0]))

    async def form(self, request: Request) -> Response:
        """A tool's form on its own page. Opening it is not a step."""
        view = await self._view(request)
        tool = find_tool(request.path_params["tool"], view.toolbox)
        if tool is None:
            raise UnknownRoute(f"there is no tool {request.path_params['tool']!r}")
        return self._form_page(view, tool, dict(request.query_params))

    def _form_page(
        self,
        view: OfficeView,
        tool: Tool,
        values: Mapping[str, Any],
        status: int = 200,
        wrong: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page of a tool's form. `wrong` has the field that was refused and the message."""
        tool_form = msgspec.structs.replace(view.tool_form(tool, values), **(wrong or {}))
        step, data = (view.last_shown(tool_form.about) if tool_form.about else None) or (0, None)
        record = lay_out(None, data, ValueRenderer(not view.done), view.history_up_to(step)) if data else None
        policies = view.policies() if tool.writes else ()
        return self._show(
            "office_form.html", view, status, turn=None, tool_form=tool_form, record=record, at=step, policies=policies
        )

    async def steps(self, request: Request) -> Response:
        """The list of all calls so far."""
        view = await self._view(request)
        steps = [(number, turn, write_line(turn.call)) for number, turn in enumerate(view.turns, 1)]
        return self._show("office_steps.html", view, turn=None, steps=steps[::-1])

    async def verdict(self, request: Request) -> Response:
        """The verdict, once the episode is over."""
        view = await self._view(request)
        if not view.done:
            return redirect_to(f"{view.path}/{view.step}")
        owner, session_id, client = self._owner(request), view.session_id, client_of(request)

        def look_at_verdict(sessions: Sessions) -> tuple[bool, VerdictSummary | None, bytes]:
            env = sessions.observe(session_id, owner).env
            may_see = self._truth_access.may_see(sessions, client, TaskId.parse(env.task_id))
            summary = summarize_verdict(env) if may_see else None
            return bool(env.success), summary, env.transcript().to_jsonl().encode()

        success, verdict, transcript = await self._queue.run(look_at_verdict)
        if verdict is None:
            return self._show("office_verdict_withheld.html", view, turn=None, success=success)
        # Blame lets the expert play on from many states, so it runs in another process.
        explanation: Sequence[str] = ()
        with suppress(TooManyReplays):  # the page is useful without it
            explanation = await self._site.background.run(explain, transcript)
        return self._show("office_verdict.html", view, turn=None, verdict=verdict, explanation=explanation)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _owner(self, request: Request) -> str | None:
        """Return whose sessions the visitor may open. None: everybody's."""
        client = client_of(request)
        return None if client.admin else client.owner

    async def _view(self, request: Request) -> OfficeView:
        owner, session_id = self._owner(request), request.path_params["session_id"]
        return await self._queue.run(lambda sessions: self._views.of(sessions.observe(session_id, owner)))

    def _show(self, template: str, view: OfficeView, status: int = 200, **values: Any) -> Response:
        values = {"typed_line": "", "wrong": ""} | values  # of the line for typed calls, which every page has
        return self._site.page(template, status, view=view, renderer=ValueRenderer(not view.done), **values)


def _call(form: SubmittedForm, toolbox: Toolbox) -> Call:
    """Return the call of a button's line or of a form's fields. An invalid one makes no step."""
    if "_line" in form:
        parsed = parse_line(form.first("_line"), toolbox)
        if isinstance(parsed, str):
            raise Malformed(parsed)
        return parsed
    tool = find_tool(form.first("_tool"), toolbox)
    if tool is None:
        raise Malformed(f"there is no tool {form.first('_tool')!r}")
    return read_call(tool, form)


def _turn(form: SubmittedForm) -> int:
    """Return the number of the turn that a form is for."""
    text = form.first("_turn")
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise Malformed("the form does not say which turn this is for")
    return int(text)


def _may_be_corrected(tool: Tool, turn: Turn) -> bool:
    """Return whether a call failed and may work with other arguments. Then its form is shown as it was filled in."""
    return not turn.reply.ok and (turn.reply.code != NO_ANSWER or tool.writes) and bool(tool.hints)


def _retry_form(view: OfficeView, tool: Tool, turn: Turn) -> ToolForm:
    """Return the form of a call that failed, as it was filled in, with the message at the argument that it is about."""
    wrong = refused_argument(tool, turn.call.params, turn.reply.message) if turn.reply.code != NO_ANSWER else ""
    return msgspec.structs.replace(
        view.tool_form(tool, turn.call.params), wrong_field=wrong, message=turn.reply.message if wrong else ""
    )


def _page_lines(call: Call, page: int, pages: int) -> tuple[str | None, str | None]:
    """Return the calls, as lines, that show the previous and the next page of a list."""

    def line(number: int) -> str:
        params = {name: value for name, value in call.params.items() if name != "page"}
        return write_line(Call(call.app, call.method, params | ({"page": number} if number > 1 else {})))

    return line(page - 1) if page > 1 else None, line(page + 1) if page < pages else None


def _record_of(tool: Tool | None, call: Call) -> str:
    """Return the id of the record that a call was about, or an empty text."""
    record = call.params.get(tool.target) if tool and tool.target else None
    return record if isinstance(record, str) and record_kind(record) else ""
