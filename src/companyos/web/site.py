"""Site: what all pages share. Templates, files, headers, errors, and where a form may come from."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import FastAPI
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from companyos.families import FAMILIES
from companyos.serve.errors import (
    BadTask,
    Malformed,
    NoSuchPlace,
    OtherOrigin,
    OtherVersion,
    ServeError,
    UnknownSession,
    WrongToken,
)
from companyos.serve.http.guard import respond
from companyos.serve.http.pages import COOKIE
from companyos.serve.http.requests import body_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.screens import Screens
from companyos.web import charts
from companyos.web.aside import Aside
from companyos.web.words import in_words, sentence, tool_title, with_code

HTML = "text/html; charset=utf-8"
STATIC, SIGN_IN = "/static", "/sign-in"
MOST_FIELDS = 1000  # of one form
_MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
# Nothing runs and nothing is fetched but what lies in `static/`; no page of ours stands in somebody else's frame.
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # an address may hold a session's id, which is all one needs to play on
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",  # going back asks again, so that forms carry the turn that is due
}


# What programs are told to do next where people do something else.
_NEXT = {
    "unknown_session": "sessions are forgotten some time after their last step; begin another",
    "no_such_place": "the front page leads everywhere",
    "wrong_method": "the front page leads everywhere",
    "bad_task": "choose another",
    "malformed": "go back, correct it, and send it again",
    "other_version": "begin another",
    "over_capacity": "try again in a while",
    "ledger_down": "send it again; it happens once",
}


class Part(Protocol):
    """Some pages that belong together, all under one place."""

    place: str  # `/office`: its pages lie there and below
    title: str  # in the navigation; empty: not in it

    def open(self, app: FastAPI, site: "Site", lane: Lane, metrics: Metrics, settings: Settings) -> None:
        """Adds its pages to the app."""


class Camera(Screens, Protocol):
    """What takes pictures of pages, once it knows which."""

    def open(self, app: FastAPI, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        """Hears of the app whose pages they are."""


class Site:
    """All pages of a server: `serve.pages.Pages`."""

    def __init__(self, parts: Sequence[Part], screens: Camera) -> None:
        self.screens = screens
        self._parts = parts
        self._places = {part.place for part in parts} | {STATIC, SIGN_IN}
        self._files = _static_files()
        self._settings = Settings()
        self.aside = Aside()
        self.at_end: list[Callable[[], None]] = [self.aside.close]  # what is to be done when the server ends
        self.templates = Environment(
            loader=PackageLoader("companyos.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        said = (in_words, sentence, tool_title, with_code)
        self.templates.filters |= {one.__name__: one for one in said}
        self.templates.globals |= {"asset": self._asset, "earned": charts.earned}
        self.templates.globals["ways"] = [(part.place, part.title) for part in parts if part.title]

    # -- what the server asks of pages -----------------------------------------------------------------------------

    def open(self, app: FastAPI, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._settings = settings
        for part in self._parts:
            part.open(app, self, lane, metrics, settings)
        self.screens.open(app, lane, metrics, settings)
        app.router.routes.extend(
            [
                Route(f"{STATIC}/{{name}}", self._file),
                Route(SIGN_IN, self._ask_token),
                Route(SIGN_IN, self._take_token, methods=["POST"]),
            ]
        )

    def close(self) -> None:
        for end in self.at_end:
            end()

    def place(self, path: str) -> str:
        first = "/" + path.split("/", 2)[1]
        return first if first in self._places else ""

    def is_open(self, path: str) -> bool:
        return path == SIGN_IN or path.startswith(f"{STATIC}/")

    def wants(self, scope: Scope) -> bool:
        accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        return scope["type"] == "http" and (bool(self.place(scope["path"])) or b"text/html" in accepted)

    def refusal(self, scope: Scope, error: ServeError) -> Response:
        """Says what is wrong and what to do next, in words; an unknown task gets the list of what there is to do."""
        if scope["path"].startswith(STATIC):
            return respond(error)
        if isinstance(error, WrongToken):
            if scope["method"] == "GET":
                return self.page("sign_in.html", error.status, wrong=False, back=_address(scope))
            return self.page("sign_in.html", error.status, wrong=False, back="/")
        families = list(FAMILIES) if isinstance(error, BadTask | NoSuchPlace) else []
        shown = self.page(
            "error.html",
            error.status,
            error=error,
            families=families,
            what_next=_NEXT.get(error.code, error.what_next),
            back=_session_in(scope["path"], error),
        )
        if (seconds := getattr(error, "retry_after", None)) is not None:
            shown.headers["retry-after"] = str(seconds)
        return shown

    # -- what parts ask for ----------------------------------------------------------------------------------------

    def page(self, template: str, status: int = 200, **shown: Any) -> Response:
        """A page from its template. What is shown is escaped there, all of it."""
        text = self.templates.get_template(template).render(shown)
        # Half of a pair of signs, which a record may hold, has no bytes.
        return Response(text.encode("utf-8", "replace"), status, HEADERS, HTML)

    # -- its own places --------------------------------------------------------------------------------------------

    def _asset(self, name: str) -> str:
        """A file's address, which changes when the file does: so it may be kept for ever."""
        return f"{STATIC}/{name}?v={self._files[name][1]}"

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise NoSuchPlace("there is no such file")
        raw, digest = found
        kept = "public, max-age=31536000, immutable" if request.query_params.get("v") == digest else "no-cache"
        media = _MEDIA[request.path_params["name"].rpartition(".")[2]]
        return Response(raw, headers={"cache-control": kept, "x-content-type-options": "nosniff"}, media_type=media)

    async def _ask_token(self, request: Request) -> Response:
        return self.page("sign_in.html", wrong=False, back=_local(request.query_params.get("back", "/")))

    async def _take_token(self, request: Request) -> Response:
        """Keeps a token where scripts cannot read it and other sites cannot make a form of it."""
        form = await form_of(request)
        token, back = form.one("token").strip(), _local(form.one("back"))
        if token not in (*self._settings.tokens, self._settings.admin_token or None):
            return self.page("sign_in.html", WrongToken.status, wrong=True, back=back)
        reply = RedirectResponse(back, 303, HEADERS)
        reply.set_cookie(COOKIE, quote(token), httponly=True, samesite="lax", secure=request.url.scheme == "https")
        return reply


class Form:
    """What a form sent: texts by name, in their order."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            # Browsers end lines as telegraphs did.
            self._values.setdefault(name, []).append(value.replace("\r\n", "\n"))

    def one(self, name: str) -> str:
        """The first of this name, or an empty text."""
        return self._values.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Any:
        return iter(self._values)


async def form_of(request: Request) -> Form:
    """What a form of ours sent. One that another site's page sent is refused."""
    check_origin(request)
    try:
        text = (await body_of(request)).decode()
        return Form(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise Malformed(f"this is no form: {error}") from None


def check_origin(request: Request) -> None:
    """Lets through what a page of this server sends, and programs, which say nothing of where they are.

    Beside it stands the session's id in the address, which no other site knows: this is the second lock, not the first.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise OtherOrigin
    origin = request.headers.get("origin")
    if site is None and origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise OtherOrigin


def go_to(path: str) -> Response:
    """Sends a browser on to a page, by GET: loading that again sends no form again."""
    return RedirectResponse(path, 303, HEADERS)


def _session_in(path: str, error: ServeError) -> str:
    """Where to go on working, if what went wrong did so within a session."""
    parts = path.split("/")
    within = parts[1] == "office" and len(parts) > 3 and not isinstance(error, UnknownSession | OtherVersion)
    return f"/office/{quote(parts[2], safe='')}" if within else ""


def _address(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _local(address: str) -> str:
    """An address, if it is on this server: nobody is sent elsewhere by a link to our sign-in."""
    parts = urlsplit(address)
    here = not parts.scheme and not parts.netloc and address.startswith("/") and "\\" not in address
    return address if here and not address.startswith("//") else "/"


def _static_files() -> dict[str, tuple[bytes, str]]:
    found = {}
    for file in (files("companyos.web") / "static").iterdir():
        raw = file.read_bytes()
        found[file.name] = (raw, blake2b(raw, digest_size=6).hexdigest())
    return found
