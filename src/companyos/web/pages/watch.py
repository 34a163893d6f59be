"""The pages on which people watch sessions live, without disturbing them.

Each watcher has its own environment, in which the calls from the ledger are made again. Watching therefore does not keep
a session in memory, a slow watcher delays nobody, and everything is freed when the watcher leaves. A watch link contains
the session id, encoded with the server's key: it shows the session but does not allow stepping in it.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from companyos.company import KINDS
from companyos.core.calls import OK
from companyos.core.task import TaskId
from companyos.core.world import view
from companyos.env import CompanyEnv
from companyos.env.line_syntax import write_line
from companyos.serve.errors import Busy, UnknownRoute, UnknownSession, WrongToken
from companyos.serve.http.requests import client_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.demonstrations import demonstrator
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.demonstrations import Demonstrations
from companyos.web.episode.navigation import APPS
from companyos.web.episode.turn_recorder import RecordedTurn, TurnRecorder, hidden_causes, troubles_at_start
from companyos.web.links import decode_link, encode_link
from companyos.web.pages.play import task_choices
from companyos.web.site import HEADERS, FormState, Site, read_form, redirect_to

MAX_LISTED = 200  # sessions on the page `/watch`
MAX_WATCHERS = 100  # at the same time, in one worker
POLL_SECONDS = 0.3  # between two reads of the ledger
HEARTBEAT_SECONDS = 10.0  # a comment is sent after this silence, to notice a closed connection
MAX_STREAM_SECONDS = 600.0  # of one stream; a browser then reconnects by itself
_GRACE_SECONDS = 30.0  # for a client to read the last events


class TooManyWatchers(Busy):
    code, retry_after = "too_many_watch", 30
    what_next = "try again later"

    def __init__(self) -> None:
        super().__init__(f"{MAX_WATCHERS} people are watching already")


class WatchedEpisode:
    """A watched session, replayed up to its last known turn. `with_working` adds the expert's comparisons, hidden data."""

    def __init__(self, sessions: Sessions, session_id: str, owner: str | None, with_working: bool = False) -> None:
        entry = sessions.entry(session_id, owner)
        self.session_id = session_id
        self.recorder = TurnRecorder(CompanyEnv(TaskId.parse(entry.header.task_id), entry.header.reward), with_working)
        for call in entry.calls:
            self.recorder.step(call)

    def catch_up(self, sessions: Sessions) -> Sequence[RecordedTurn]:
        """Replay the calls that were made since the last time."""
        new_calls = sessions.ledger.calls(self.session_id, len(self.recorder.turns))
        if new_calls is None:
            raise UnknownSession
        return [self.recorder.step(call) for call in new_calls]

    def status(self, with_hidden: bool) -> dict[str, Any]:
        """Return the values of the status area. `with_hidden` adds hidden data: rewards, milestones and troubles."""
        recorder, env = self.recorder, self.recorder.env
        last = recorder.turns[-1] if recorder.turns else None
        by_app = {app: [turn for turn in recorder.turns if turn.app == app] for app in APPS}
        return {
            "apps": [(app, APPS[app], len(by_app[app]), by_app[app][-1] if by_app[app] else None) for app in APPS],
            "last_app": last.app if last else "",
            "now": last.moment.clock if last else recorder.begins,
            "step": len(recorder.turns),
            "max_steps": env.max_steps,
            "done": env.done,
            "success": env.success,
            "with_hidden": with_hidden,
            "total": env.total if with_hidden or env.done else None,
            "rewards": [turn.moment.reward for turn in recorder.turns] if with_hidden or env.done else [],
            "faults": sum("flaky" in turn.troubles for turn in recorder.turns),
            "refused": sum(turn.tone == "bad" for turn in recorder.turns),
            "milestones": recorder.milestones if with_hidden else [],
            "troubles": [(turn.number, dial) for turn in recorder.turns for dial in turn.troubles] if with_hidden else [],
            "troubles_at_start": troubles_at_start(env) if with_hidden else [],
        }


class WatchPages:
    """The pages under `/watch`."""

    prefix, title = "/watch", "Watch"

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue = site, queue
        self._key = blake2b((settings.watch_key or secrets.token_hex()).encode(), digest_size=32).digest()
        self._workers = settings.workers
        self._has_admin = bool(settings.admin_token)
        self.demonstrations = Demonstrations(queue, metrics, settings)
        site.at_end.append(self.demonstrations.close)
        self.watchers = 0
        app.state.watch = self
        site.templates.globals["watch_code"] = self.code
        session = "/watch/{code}"
        app.router.routes.extend(
            [
                Route("/watch", self.list_sessions),
                Route("/watch", self.find, methods=["POST"]),
                Route(f"{session}/events", self.events),
                Route(f"{session}/world", self.world),
                Route(session, self.session_page),
            ]
        )

    def code(self, session_id: str) -> str:
        """Return the code of a session for a watch link."""
        return encode_link(session_id, self._key)

    def session_id_of(self, watch_code: str) -> str:
        """Return the session id that the code of a watch link stands for."""
        session_id = decode_link(watch_code, self._key)
        if session_id is None:
            raise UnknownSession
        return session_id

    # -- pages -----------------------------------------------------------------------------------------------------

    async def list_sessions(self, request: Request) -> Response:
        """The form that starts a demonstration, and the sessions in the memory of the worker that answers."""
        return await self.list_page(request, FormState())

    async def list_page(self, request: Request, chosen: FormState) -> Response:
        """Return the page `/watch`. `chosen` are the values and the mistake of its form."""
        owner, now = owner_filter(request), time.time()
        live: list[dict[str, Any]] = await self._queue.run(
            lambda sessions: [self._list_row(session, now) for session in sessions.live(owner)[:MAX_LISTED]]
        )
        return self._site.page(
            "watch_list.html",
            chosen.status,
            live=live,
            workers=self._workers,
            all=not owner,
            admin=self._has_admin and owner is not None,  # the visitor could sign in
            chosen=chosen,
            agents=self.demonstrations.groups,
            **task_choices(),
        )

    def _list_row(self, session: Session, now: float) -> dict[str, Any]:
        """Return the values of a session's row in the list."""
        env, turns = session.env, session.env.turns
        return {
            "code": self.code(session.header.session_id),
            "brief": env.scene.brief,
            "step": env.step_count,
            "max_steps": env.max_steps,
            "now": session.last.now,
            "done": env.done,
            "success": env.success,
            "line": write_line(turns[-1].call) if turns else "",
            "reply_code": turns[-1].reply.code if turns else OK,
            "idle": _duration(now - session.touched),
            "agent": demonstrator(session.header.session_id),
        }

    async def find(self, request: Request) -> Response:
        """Redirect to the page of a session by its id. It need not be in this worker's memory."""
        session_id, owner = (await read_form(request)).first("session").strip(), owner_filter(request)
        await self._queue.run(lambda sessions: sessions.entry(session_id, owner))
        return redirect_to(f"/watch/{self.code(session_id)}")

    async def session_page(self, request: Request) -> Response:
        """The page of an episode. A script, if the browser runs it, adds new calls."""
        watched = await self._watched(request)
        env, with_hidden = watched.recorder.env, _shows_hidden(request, watched.session_id)
        return self._site.page(
            "watch_session.html",
            code=request.path_params["code"],
            brief=env.scene.brief,
            turns=watched.recorder.turns[::-1],
            agent=demonstrator(watched.session_id),
            may_see_all=_may_see_hidden(request, watched.session_id),
            may_replay=env.done or client_of(request).admin,
            task_id=env.task_id if with_hidden else "",
            causes=hidden_causes(env) if with_hidden else [],
            ending=env.setting.ending if with_hidden else None,
            **watched.status(with_hidden),
        )

    async def world(self, request: Request) -> Response:
        """The records that the case has added or changed, for admins, and for everybody in demonstrations."""
        watched = await self._watched(request)
        if not _may_see_hidden(request, watched.session_id):
            raise WrongToken if self._has_admin else UnknownRoute("there is no such page")
        world = watched.recorder.env.world
        kinds = [
            (kind.__name__, kind.hidden, list(map(view, own := world.own(kind).values())), world.count(kind) - len(own))
            for kind in KINDS
        ]
        return self._site.page("watch_world.html", code=request.path_params["code"], kinds=kinds, **watched.status(True))

    # -- live updates ------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Stream new turns as server-sent events, from the first one that the page does not show yet."""
        if self.watchers >= MAX_WATCHERS:
            raise TooManyWatchers
        known_turns = _count_of(request.headers.get("last-event-id") or request.query_params.get("after", "0"))
        watched = await self._watched(request)
        return _EventStream(self, self._stream(watched, known_turns, _shows_hidden(request, watched.session_id)))

    async def _stream(self, watched: WatchedEpisode, known_turns: int, with_hidden: bool) -> AsyncIterator[bytes]:
        try:
            began = last_sent = time.monotonic()
            new_turns: Sequence[RecordedTurn] = watched.recorder.turns[known_turns:]
            yield b": here\n\n"
            while time.monotonic() - began < MAX_STREAM_SECONDS:
                if new_turns:
                    yield self._event(watched, new_turns, with_hidden)
                    last_sent = time.monotonic()
                elif time.monotonic() - last_sent > HEARTBEAT_SECONDS:
                    yield b": still here\n\n"
                    last_sent = time.monotonic()
                if watched.recorder.env.done:
                    notice = str(self._macros(watched, with_hidden).ending(self.code(watched.session_id)))
                    yield b"event: over\ndata: %s\n\n" % msgspec.json.encode({"notice": notice})
                    return
                await asyncio.sleep(POLL_SECONDS)
                new_turns = await self._queue.run(watched.catch_up)
        except UnknownSession:
            yield b"event: gone\ndata: {}\n\n"

    def _event(self, watched: WatchedEpisode, new_turns: Sequence[RecordedTurn], with_hidden: bool) -> bytes:
        """Return an event with HTML of the same templates as the page, which escape all values."""
        macros = self._macros(watched, with_hidden)
        calls = [str(macros.call(turn, with_hidden, True)) for turn in reversed(new_turns)]
        update = {
            "calls": "".join(calls),
            "state": str(macros.state()),
            "progress": str(macros.progress()),
            "announcement": str(macros.announcement(new_turns[-1])),
        }
        return b"id: %d\ndata: %s\n\n" % (new_turns[-1].number, msgspec.json.encode(update))

    def _macros(self, watched: WatchedEpisode, with_hidden: bool) -> Any:
        return self._site.templates.get_template("episode_macros.html").make_module(watched.status(with_hidden))

    async def _watched(self, request: Request) -> WatchedEpisode:
        session_id, owner = self.session_id_of(request.path_params["code"]), owner_filter(request)
        with_working = _shows_hidden(request, session_id)
        watched = await self._queue.run(lambda sessions: WatchedEpisode(sessions, session_id, owner, with_working))
        await self.demonstrations.check_access(session_id, TaskId.parse(watched.recorder.env.task_id), client_of(request))
        return watched


class _EventStream(StreamingResponse):
    """An event stream with a time limit, so that a client that does not read cannot hold it open. Counts the watchers."""

    def __init__(self, watch: WatchPages, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers=HEADERS, media_type="text/event-stream")
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._watch.watchers += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_STREAM_SECONDS + _GRACE_SECONDS):
                    await super().__call__(scope, receive, send)
        finally:
            self._watch.watchers -= 1


def owner_filter(request: Request) -> str | None:
    """Return the owner whose sessions the visitor may see, or None for an admin, who may see those of all owners."""
    client = client_of(request)
    return None if client.admin else client.owner


def _may_see_hidden(request: Request, session_id: str) -> bool:
    """Return whether the visitor may see hidden data: an admin in all sessions, others in demonstrations."""
    return client_of(request).admin or bool(demonstrator(session_id))


def _shows_hidden(request: Request, session_id: str) -> bool:
    """Return whether the page shows hidden data, because the visitor may see it and has not chosen the agent's view."""
    return _may_see_hidden(request, session_id) and request.query_params.get("view") != "agent"


def _count_of(text: str) -> int:
    """Return the number in a text, or 0 if it is not a short whole number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def _duration(seconds: float) -> str:
    """Return a duration in its largest unit: `12 s`, `5 min` or `2 h`."""
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
