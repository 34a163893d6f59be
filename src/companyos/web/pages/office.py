"""Office: the three apps in a browser. A page is one turn: it shows what that turn's call replied, whenever it is opened.

Nothing but a POST to `call` steps, and it carries the number of its turn: sent twice it happens once, and sent late, from a
page that is no longer the last, it is held back and shown. Reading is a step too, so what looks like a link to a record
is a button of the one form that every page has.
"""

from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.company import Tool, Toolbox
from companyos.core.calls import NO_ANSWER, OK, Call
from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.env.line_syntax import find_tool, parse_line, write_line
from companyos.serve.errors import Malformed, NoSuchPlace, SessionOver, TurnAhead, TurnTaken
from companyos.serve.http.requests import caller_of
from companyos.serve.messages.wire import checked
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.truth import Truth
from companyos.serve.steps import Step
from companyos.web.episode.desk import APPS, Desk, Desks, acts, ways, writers_on
from companyos.web.episode.forms import read_call, slots
from companyos.web.episode.sheets import GO, Pen, kind_of, lay_out
from companyos.web.episode.verdict import Judged, judged
from companyos.web.site import Form, Site, form_of, go_to

MOST_INLINE = 4  # fields of a form that stands beside a record; a longer one has a page


class Office:
    """The pages at `/office`."""

    place, title = "/office", ""

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._site, self._lane, self._metrics = site, lane, metrics
        self._desks, self._truth = Desks(), Truth()
        site.templates.globals |= {"GO": GO, "ways_of": ways, "writers_on": writers_on, "APPS": APPS}
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

    # -- what changes something ------------------------------------------------------------------------------------

    async def call(self, request: Request) -> Response:
        """Makes one call, then leads to the page of its turn."""
        form = await form_of(request)
        desk = await self._desk(request)
        call, turn = checked(_call(form, desk.toolbox)), _turn(form)
        try:
            step = Step(desk.session_id, call, turn, caller_of(request).owner)
            outcome = await self._lane.step(step)
        except TurnTaken as taken:
            # From a page that is not the last any more: nothing happened, and whoever sent it says whether it still should.
            later = await self._desk(request)
            return self._show("late.html", later, 409, call=call, line=write_line(call), taken=turn, stands=taken.stands)
        except TurnAhead:
            raise Malformed(f"turn {turn} is not due yet") from None
        except SessionOver:
            return go_to(f"{desk.place}/verdict")
        self._metrics.steps(1)
        # What ended it is shown by the verdict.
        return go_to(f"{desk.place}/verdict" if outcome.observation.done else f"{desk.place}/{turn}")

    # -- what shows something --------------------------------------------------------------------------------------

    async def last(self, request: Request) -> Response:
        """Where one left off."""
        desk = await self._desk(request)
        return go_to(f"{desk.place}/{desk.step}")

    async def turn(self, request: Request) -> Response:
        """What one call replied, and what can be done with it."""
        desk, number = await self._desk(request), request.path_params["turn"]
        if number > desk.step:
            raise NoSuchPlace(f"turn {number} has not been made; the last one is {desk.step}")
        if number == 0:
            return self._show("brief.html", desk, turn=0)
        turn = desk.turns[number - 1]
        tool, pen = desk.toolbox.find(turn.call), Pen(not desk.done)
        sheet = lay_out(tool, turn.reply.data, pen, desk.seen(number)) if turn.reply.ok else None
        record = (sheet.id or _about(tool, turn.call)) if sheet and not desk.done else ""
        reads, writes = acts(desk.toolbox, record, tool.name if tool else "") if record else ([], [])
        beside = [one for one in writes if len(slots(one)) <= MOST_INLINE and not one.ends]
        again = tool if tool is not None and not desk.done and tool.hints and not tool.writes and not tool.target else None
        return self._show(
            "turn.html",
            desk,
            turn=number,
            made=turn,
            tool=tool,
            line=write_line(turn.call),
            sheet=sheet,
            message=pen.text(turn.reply.message),
            refused=turn.reply.code not in (OK, NO_ANSWER),
            unanswered=turn.reply.code == NO_ANSWER,
            record=record,
            reads=reads,
            beside=[desk.blank(one, {one.target: record}) for one in beside],
            elsewhere=[one for one in writes if one not in beside],
            filters=desk.blank(again, turn.call.params) if again else None,
            flip=_flip(turn.call, sheet.page, sheet.pages) if sheet and not desk.done else (None, None),
            retry=desk.blank(tool, turn.call.params) if tool and _worth_changing(tool, turn) and not desk.done else None,
            about=_about(tool, turn.call),
        )

    async def form(self, request: Request) -> Response:
        """A tool's form, by itself. Opening it is no step."""
        desk = await self._desk(request)
        tool = find_tool(request.path_params["tool"], desk.toolbox)
        if tool is None:
            raise NoSuchPlace(f"there is no tool {request.path_params['tool']!r}")
        blank = desk.blank(tool, dict(request.query_params))
        shown = desk.last_shown(blank.about) if blank.about else None
        beside = lay_out(None, shown[1], Pen(not desk.done), desk.seen(shown[0])) if shown else None
        return self._show("form.html", desk, turn=None, blank=blank, beside=beside, at=shown[0] if shown else 0)

    async def steps(self, request: Request) -> Response:
        """All calls so far."""
        desk = await self._desk(request)
        made = [(number, one, write_line(one.call)) for number, one in enumerate(desk.turns, 1)]
        return self._show("steps.html", desk, turn=None, made=made[::-1])

    async def verdict(self, request: Request) -> Response:
        """How it ended, once it has."""
        desk = await self._desk(request)
        if not desk.done:
            return go_to(f"{desk.place}/{desk.step}")
        owner, session_id, caller = self._owner(request), desk.session_id, caller_of(request)

        def look(sessions: Sessions) -> tuple[bool, Judged | None]:
            env = sessions.observe(session_id, owner).env
            told = self._truth.may_see(sessions, caller, TaskId.parse(env.task_id))
            return bool(env.success), judged(env) if told else None

        success, found = await self._lane.run(look)
        if found is None:
            return self._show("sealed.html", desk, turn=None, success=success)
        return self._show("verdict.html", desk, turn=None, judged=found)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _owner(self, request: Request) -> str | None:
        caller = caller_of(request)
        return None if caller.admin else caller.owner

    async def _desk(self, request: Request) -> Desk:
        owner, session_id = self._owner(request), request.path_params["session_id"]
        return await self._lane.run(lambda sessions: self._desks.of(sessions.observe(session_id, owner)))

    def _show(self, template: str, desk: Desk, status: int = 200, **shown: Any) -> Response:
        return self._site.page(template, status, desk=desk, pen=Pen(not desk.done), **shown)


def _call(form: Form, toolbox: Toolbox) -> Call:
    """The call that a button's line or a form's fields say. What is no call costs nothing."""
    if "_line" in form:
        said = parse_line(form.one("_line"), toolbox)
        if isinstance(said, str):
            raise Malformed(said)
        return said
    tool = find_tool(form.one("_tool"), toolbox)
    if tool is None:
        raise Malformed(f"there is no tool {form.one('_tool')!r}")
    return read_call(tool, form)


def _turn(form: Form) -> int:
    text = form.one("_turn")
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or int(text) < 1:
        raise Malformed("which turn this is for is not said")
    return int(text)


def _worth_changing(tool: Tool, turn: Turn) -> bool:
    """Whether a call did not work and might with other arguments: then its form is shown as it was filled in."""
    return not turn.reply.ok and (turn.reply.code != NO_ANSWER or tool.writes) and bool(tool.hints)


def _flip(call: Call, page: int, pages: int) -> tuple[str | None, str | None]:
    """The lines that turn a list's page back and on."""

    def line(number: int) -> str:
        params = {name: value for name, value in call.params.items() if name != "page"}
        return write_line(Call(call.app, call.method, params | ({"page": number} if number > 1 else {})))

    return line(page - 1) if page > 1 else None, line(page + 1) if page < pages else None


def _about(tool: Tool | None, call: Call) -> str:
    """The record that a call was about, as a text in which it can be opened."""
    record = call.params.get(tool.target) if tool and tool.target else None
    return record if isinstance(record, str) and kind_of(record) else ""
