"""What all pages share: templates, static files, response headers, error pages, forms and sign-in."""

from collections.abc import Callable, Mapping, Sequence
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
    InvalidTask,
    Malformed,
    OtherOrigin,
    OtherVersion,
    ServeError,
    UnknownRoute,
    UnknownSession,
    WrongToken,
)
from companyos.serve.http.guard import json_error, request_id_of
from companyos.serve.http.pages import COOKIE
from companyos.serve.http.requests import body_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.screens import ScreenBackend
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web import charts
from companyos.web.background import BackgroundProcess
from companyos.web.labels import capitalized, in_words, title_and_question, tool_title, with_code

HTML = "text/html; charset=utf-8"
STATIC, SIGN_IN = "/static", "/sign-in"
MAX_FORM_FIELDS = 1000
_MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
# Pages run and load only files of `static/`, and no other site can show them in a frame.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # an address may contain a session id, which is enough to play on
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",  # the browser's Back button reloads, so that forms contain the current turn
}


# Advice for people, where the error's own `what_next` is for programs.
_ADVICE = {
    "unknown_session": "sessions expire some time after their last step; start another one",
    "no_such_place": "the front page links to every page",
    "wrong_method": "the front page links to every page",
    "bad_task": "choose another task",
    "malformed": "go back, correct the form and send it again",
    "other_version": "start another session",
    "over_capacity": "try again later",
    "ledger_down": "send the form again; the call is made only once",
    "bug": "please report this with the request id below",
}


class PageGroup(Protocol):
    """Pages that belong together and share a path prefix."""

    prefix: str  # the first path segment, such as `/office`
    title: str  # in the navigation bar; empty: not in it

    def open(self, app: FastAPI, site: "Site", queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        """Add the pages to the app."""


class ScreenshotService(ScreenBackend, Protocol):
    """Takes screenshots of pages."""

    def open(self, app: FastAPI, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        """Set the app whose pages are shown."""


class Site:
    """All pages of a server. Implements `serve.http.pages.Pages`."""

    def __init__(self, groups: Sequence[PageGroup], screens: ScreenshotService) -> None:
        self.screens = screens
        self._groups = groups
        self._prefixes = {group.prefix for group in groups} | {STATIC, SIGN_IN}
        self._files = _static_files()
        self._settings = Settings()
        self.background = BackgroundProcess()
        self.at_end: list[Callable[[], None]] = [self.background.close]  # called when the server stops
        self.templates = Environment(
            loader=PackageLoader("companyos.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters = (in_words, capitalized, tool_title, with_code)
        self.templates.filters |= {function.__name__: function for function in filters}
        self.templates.globals |= {"asset": self._asset, "reward_sparkline": charts.reward_sparkline}
        self.templates.globals["page_links"] = [(group.prefix, group.title) for group in groups if group.title]

    # -- the server's interface, `serve.http.pages.Pages` ---------------------------------------------------------------

    def open(self, app: FastAPI, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._settings = settings
        for group in self._groups:
            group.open(app, self, queue, metrics, settings)
        self.screens.open(app, queue, metrics, settings)
        app.router.routes.extend(
            [
                Route(f"{STATIC}/{{name}}", self._serve_file),
                Route(SIGN_IN, self._sign_in_page),
                Route(SIGN_IN, self._sign_in, methods=["POST"]),
            ]
        )

    def close(self) -> None:
        for callback in self.at_end:
            callback()

    def route_name(self, path: str) -> str:
        prefix = "/" + path.split("/", 2)[1]
        return prefix if prefix in self._prefixes else ""

    def is_open(self, path: str) -> bool:
        return path == SIGN_IN or path.startswith(f"{STATIC}/")

    def wants(self, scope: Scope) -> bool:
        accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        return scope["type"] == "http" and (bool(self.route_name(scope["path"])) or b"text/html" in accepted)

    def refusal(self, scope: Scope, error: ServeError) -> Response:
        """Return an error page that says what is wrong and what to do. For an unknown task it lists the families."""
        if scope["path"].startswith(STATIC):
            return json_error(error)
        if isinstance(error, WrongToken):
            if scope["method"] == "GET":
                return self.page("sign_in.html", error.status, wrong=False, back=_address_of(scope))
            return self.page("sign_in.html", error.status, wrong=False, back="/")
        titles = [(name, title_and_question(family)[0]) for name, family in FAMILIES.items()]
        response = self.page(
            "error.html",
            error.status,
            error=error,
            families=titles if isinstance(error, InvalidTask | UnknownRoute) else [],
            request_id=request_id_of(scope),
            what_next=_ADVICE.get(error.code, error.what_next),
            back=_session_address(scope["path"], error),
        )
        if (seconds := getattr(error, "retry_after", None)) is not None:
            response.headers["retry-after"] = str(seconds)
        return response

    # -- for page groups -----------------------------------------------------------------------------------------------

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a template, which escapes all values."""
        text = self.templates.get_template(template).render(values)
        # A record may contain a lone surrogate, which UTF-8 cannot encode.
        return Response(text.encode("utf-8", "replace"), status, HEADERS, HTML)

    # -- static files and sign-in --------------------------------------------------------------------------------------

    def _asset(self, name: str) -> str:
        """Return the address of a static file. It changes with the content, so browsers may cache it forever."""
        return f"{STATIC}/{name}?v={self._files[name][1]}"

    async def _serve_file(self, request: Request) -> Response:
        if request.path_params["name"] not in self._files:
            raise UnknownRoute("there is no such file")
        raw, digest = self._files[request.path_params["name"]]
        cache_control = "public, max-age=31536000, immutable" if request.query_params.get("v") == digest else "no-cache"
        media_type = _MEDIA_TYPES[request.path_params["name"].rpartition(".")[2]]
        return Response(
            raw, headers={"cache-control": cache_control, "x-content-type-options": "nosniff"}, media_type=media_type
        )

    async def _sign_in_page(self, request: Request) -> Response:
        return self.page("sign_in.html", wrong=False, back=_local_or_root(request.query_params.get("back", "/")))

    async def _sign_in(self, request: Request) -> Response:
        """Store the token in a cookie that scripts cannot read and that other sites' forms do not send."""
        form = await read_form(request)
        token, back = form.first("token").strip(), _local_or_root(form.first("back"))
        if token not in (*self._settings.tokens, self._settings.admin_token or None):
            return self.page("sign_in.html", WrongToken.status, wrong=True, back=back)
        reply = RedirectResponse(back, 303, HEADERS)
        reply.set_cookie(COOKIE, quote(token), httponly=True, samesite="lax", secure=request.url.scheme == "https")
        return reply


class FormState:
    """The values of a form that is shown, and the mistake of one that was refused: its message and its field."""

    def __init__(self, values: Mapping[str, str] | None = None, error: ServeError | None = None) -> None:
        self.values = values or {}
        self.status = error.status if error else 200
        # For example "Expected `int` >= 0 - at `$.seed`": the message, and the field after `$.`.
        message, _, position = str(error or "").partition(" - at `$.")
        self.message, self.field = message, position.rstrip("`")

    def value(self, name: str, default: str = "") -> str:
        """Return what is filled in."""
        return self.values.get(name, default)


class SubmittedForm:
    """The fields of a submitted form, in their order."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            # Browsers send lines with CRLF.
            self._values.setdefault(name, []).append(value.replace("\r\n", "\n"))

    def first(self, name: str) -> str:
        """Return the first value of a name, or an empty text."""
        return self._values.get(name, [""])[0]

    def values(self, name: str) -> list[str]:
        """Return all values of a name."""
        return self._values.get(name, [])

    def filled_in(self) -> dict[str, str]:
        """Return the first value of each name."""
        return {name: values[0] for name, values in self._values.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Any:
        return iter(self._values)


async def read_form(request: Request) -> SubmittedForm:
    """Read a form that a page of this server sent. Refuse one that comes from another site."""
    check_origin(request)
    try:
        text = (await body_of(request)).decode()
        return SubmittedForm(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS))
    except ValueError as error:
        raise Malformed(f"this is not a valid form: {error}") from None


def check_origin(request: Request) -> None:
    """Refuse requests that a page of another site sends. Programs send no `Origin` header, so they pass.

    This is a second defence: another site does not know the session id in the address either.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise OtherOrigin
    origin = request.headers.get("origin")
    if site is None and origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise OtherOrigin


def redirect_to(path: str) -> Response:
    """Redirect a browser with GET, so that a reload does not send the form again."""
    return RedirectResponse(path, 303, HEADERS)


def _session_address(path: str, error: ServeError) -> str:
    """Return the address of the session in which the error happened, or an empty text."""
    parts = path.split("/")
    in_session = parts[1] == "office" and len(parts) > 3 and not isinstance(error, UnknownSession | OtherVersion)
    return f"/office/{quote(parts[2], safe='')}" if in_session else ""


def _address_of(scope: Scope) -> str:
    """Return the path of a request with its query."""
    query = scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _local_or_root(address: str) -> str:
    """Return the address if it is on this server, else `/`, so that a sign-in link cannot lead to another site."""
    parts = urlsplit(address)
    is_path = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if is_path and not parts.scheme and not parts.netloc else "/"


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Return the content and the digest of each static file, by name."""
    contents = {}
    for file in (files("companyos.web") / "static").iterdir():
        raw = file.read_bytes()
        contents[file.name] = (raw, blake2b(raw, digest_size=6).hexdigest())
    return contents
