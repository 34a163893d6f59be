"""Watch: who is at work, and one of them as they go. Calls come in as they are made; nobody who works notices.

Whoever watches has a company of their own, in which the calls that the ledger holds are made again. So a session is not
kept from leaving memory by being looked at, a watcher that reads slowly holds up nobody, and one that leaves takes all of
it along. A link to watch holds a session's id under the server's key: it shows, and lets nobody step.
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
from companyos.core.world import view
from companyos.env.line_syntax import write_line
from companyos.serve.errors import Busy, NoSuchPlace, UnknownSession, WrongToken
from companyos.serve.http.requests import caller_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.web.episode.desk import APPS
from companyos.web.episode.story import Chapter, Telling, causes
from companyos.web.links import cover, uncover
from companyos.web.site import HEADERS, Site, form_of, go_to

MOST_LISTED = 200
MOST_WATCHERS = 100  # at a time, of one worker
EVERY = 0.3  # seconds between two looks into the ledger
BEAT = 10.0  # seconds after which a silent line is tried, so that who has left is found out
LIFE = 600.0  # seconds of one line; a browser asks for the next by itself
_GRACE = 30.0  # seconds in which somebody must have read what was sent


class TooManyWatch(Busy):
    code, retry_after = "too_many_watch", 30
    what_next = "look again in a while"

    def __init__(self) -> None:
        super().__init__(f"{MOST_WATCHERS} are watching already")


class Watched:
    """A session as somebody who watches has it before them: the whole episode, played up to some turn."""

    def __init__(self, sessions: Sessions, session_id: str, owner: str | None) -> None:
        entry = sessions.entry(session_id, owner)
        self.session_id = session_id
        self.telling = Telling(entry.header.task_id, entry.header.reward)
        for call in entry.calls:
            self.telling.tell(call)

    def catch_up(self, sessions: Sessions) -> Sequence[Chapter]:
        """What was called since."""
        later = sessions.ledger.calls(self.session_id, len(self.telling.chapters))
        if later is None:
            raise UnknownSession
        return [self.telling.tell(call) for call in later]

    def shown(self, whole: bool) -> dict[str, Any]:
        """What stands on the page beside the calls. What only the judge knows is for who may see the whole, or for later."""
        telling, env = self.telling, self.telling.env
        last = telling.chapters[-1] if telling.chapters else None
        made = {app: [chapter for chapter in telling.chapters if chapter.app == app] for app in APPS}
        return {
            "apps": [(app, APPS[app], len(made[app]), made[app][-1] if made[app] else None) for app in APPS],
            "lit": last.app if last else "",
            "now": last.moment.clock if last else telling.begins,
            "step": len(telling.chapters),
            "most": env.max_steps,
            "done": env.done,
            "success": env.success,
            "whole": whole,
            "total": env.total if whole or env.done else None,
            "rewards": [chapter.moment.reward for chapter in telling.chapters] if whole or env.done else [],
            "faults": sum("flaky" in chapter.strikes for chapter in telling.chapters),
            "refused": sum(chapter.tone == "bad" for chapter in telling.chapters),
            "milestones": telling.milestones if whole else [],
            "strikes": [(c.number, dial) for c in telling.chapters for dial in c.strikes] if whole else [],
        }


class Watch:
    """The pages at `/watch`."""

    place, title = "/watch", "Watch"

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._site, self._lane = site, lane
        self._key = blake2b((settings.watch_key or secrets.token_hex()).encode(), digest_size=32).digest()
        self._workers = settings.workers
        self._admin = bool(settings.admin_token)
        self.watchers = 0
        app.state.watch = self
        site.templates.globals["watch_code"] = self.code
        one = "/watch/{code}"
        app.router.routes.extend(
            [
                Route("/watch", self.everybody),
                Route("/watch", self.find, methods=["POST"]),
                Route(f"{one}/events", self.events),
                Route(f"{one}/world", self.world),
                Route(one, self.look),
            ]
        )

    def code(self, session_id: str) -> str:
        """A session as it stands in a link to watch it."""
        return cover(session_id, self._key)

    def session_of(self, code: str) -> str:
        """The session that such a link is for."""
        session_id = uncover(code, self._key)
        if session_id is None:
            raise UnknownSession
        return session_id

    # -- pages -----------------------------------------------------------------------------------------------------

    async def everybody(self, request: Request) -> Response:
        """Who is at work, in the memory of the worker that answers."""
        owner, now = owner_of(request), time.time()
        live: list[dict[str, Any]] = await self._lane.run(
            lambda sessions: [self._row(session, now) for session in sessions.live(owner)[:MOST_LISTED]]
        )
        could_sign_in = self._admin and owner is not None
        return self._site.page("watch.html", live=live, workers=self._workers, all=not owner, admin=could_sign_in)

    def _row(self, session: Session, now: float) -> dict[str, Any]:
        env, turns = session.env, session.env.turns
        return {
            "code": self.code(session.header.session_id),
            "brief": env.scene.task,
            "step": env.step_count,
            "most": env.max_steps,
            "now": session.last.now,
            "done": env.done,
            "success": env.success,
            "line": write_line(turns[-1].call) if turns else "",
            "said": turns[-1].reply.code if turns else OK,
            "idle": _ago(now - session.touched),
        }

    async def find(self, request: Request) -> Response:
        """To a session whose id one knows: it need not be in this worker's memory."""
        session_id, owner = (await form_of(request)).one("session").strip(), owner_of(request)
        await self._lane.run(lambda sessions: sessions.entry(session_id, owner))
        return go_to(f"/watch/{self.code(session_id)}")

    async def look(self, request: Request) -> Response:
        """An episode as it stands; a script, where there is one, adds what comes."""
        watched, whole = await self._watched(request), _whole(request)
        env = watched.telling.env
        return self._site.page(
            "watching.html",
            code=request.path_params["code"],
            brief=env.scene.task,
            chapters=watched.telling.chapters[::-1],
            may=caller_of(request).admin,
            task_id=env.task_id if whole else "",
            causes=causes(env) if whole else [],
            ending=env.setting.ending if whole else None,
            **watched.shown(whole),
        )

    async def world(self, request: Request) -> Response:
        """Every record of the company, for those who run the server."""
        if not self._admin:
            raise NoSuchPlace("there is nothing here")
        if not caller_of(request).admin:
            raise WrongToken
        watched = await self._watched(request)
        world = watched.telling.env.world
        kinds = [(kind.__name__, kind.hidden, [view(record) for record in world.all(kind)]) for kind in KINDS]
        return self._site.page("world.html", code=request.path_params["code"], kinds=kinds, **watched.shown(True))

    # -- what comes ------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Chapters as they are written, from the one after that which the page shows last."""
        if self.watchers >= MOST_WATCHERS:
            raise TooManyWatch
        known = _number(request.headers.get("last-event-id") or request.query_params.get("after", "0"))
        watched = await self._watched(request)
        return _Line(self, self._tell(watched, known, _whole(request)))

    async def _tell(self, watched: Watched, known: int, whole: bool) -> AsyncIterator[bytes]:
        try:
            began = heard = time.monotonic()
            fresh: Sequence[Chapter] = watched.telling.chapters[known:]
            yield b": here\n\n"
            while time.monotonic() - began < LIFE:
                if fresh:
                    yield self._event(watched, fresh, whole)
                    heard = time.monotonic()
                elif time.monotonic() - heard > BEAT:
                    yield b": still here\n\n"
                    heard = time.monotonic()
                if watched.telling.env.done:
                    yield b"event: over\ndata: {}\n\n"
                    return
                await asyncio.sleep(EVERY)
                fresh = await self._lane.run(watched.catch_up)
        except UnknownSession:
            yield b"event: gone\ndata: {}\n\n"

    def _event(self, watched: Watched, fresh: Sequence[Chapter], whole: bool) -> bytes:
        """Pieces of the page, by the same templates: what they show is escaped there."""
        parts: Any = self._site.templates.get_template("watched.html").make_module(watched.shown(whole))
        calls = [str(parts.call(chapter, whole, True)) for chapter in reversed(fresh)]
        said = {"calls": "".join(calls), "state": str(parts.state()), "said": str(parts.said(fresh[-1]))}
        return b"id: %d\ndata: %s\n\n" % (fresh[-1].number, msgspec.json.encode(said))

    async def _watched(self, request: Request) -> Watched:
        session_id, owner = self.session_of(request.path_params["code"]), owner_of(request)
        return await self._lane.run(lambda sessions: Watched(sessions, session_id, owner))


class _Line(StreamingResponse):
    """A response that goes on, and that nobody can hold open by not reading it. Counted for as long as somebody is there."""

    def __init__(self, watch: Watch, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers=HEADERS, media_type="text/event-stream")
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._watch.watchers += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LIFE + _GRACE):
                    await super().__call__(scope, receive, send)
        finally:
            self._watch.watchers -= 1


def owner_of(request: Request) -> str | None:
    """Whose sessions somebody may look at; None: everybody's."""
    caller = caller_of(request)
    return None if caller.admin else caller.owner


def _whole(request: Request) -> bool:
    """Whether the whole world is shown: to those who run the server, unless they want to see what the agent does."""
    return caller_of(request).admin and request.query_params.get("view") != "agent"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def _ago(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
