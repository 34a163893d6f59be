"""Settings: all that a server can be told, each by a variable `COMPANYOS_<NAME>`."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_origin, get_type_hints

import msgspec
from msgspec import Meta

PREFIX = "COMPANYOS_"
NO_LEDGER = "none"

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class BadSetting(ValueError):
    """A variable or a combination of them that a server cannot run with, in one line."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a server runs. Secrets come by variable only: a command line is seen by everybody on the machine."""

    host: str = "127.0.0.1"  # whom to listen to: this machine alone; `0.0.0.0`: everybody
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000  # `PORT` counts where `COMPANYOS_PORT` is not set
    workers: Annotated[int, Meta(ge=1, le=256)] = 1  # processes that share the ledger
    ledger: Annotated[str, Meta(min_length=1)] = "companyos.ledger"  # a file or postgresql://...; `none`: memory only
    fsync: bool = False  # survive a power cut, too, not only the death of any process
    tokens: tuple[str, ...] = ()  # with any, every request but for /health needs one of them
    admin_token: str = ""  # without one there is no /inspect
    exam: bool = False  # serve agents only: no task id, reward or verdict in any reply, one attempt per task and token
    agent_tokens: tuple[str, ...] = ()  # of an exam: with any, every request but for /health needs one of them
    progress: bool = False  # let resets ask for the milestones that have been reached; never show them otherwise
    mcp_episodes: bool = False  # let the model begin episodes itself at /mcp-server, with the tool `episode_begin`
    capacity: Count = 2000  # sessions in the memory of one worker
    idle_seconds: Seconds = 300.0  # after these a session leaves memory; its next request brings it back
    ttl_seconds: Seconds = 86400.0  # this long after its last step a session is forgotten for good
    body_limit: Count = 1_000_000  # bytes
    session_bytes: Count = 1_000_000  # of all calls of one session
    request_seconds: Seconds = 30.0  # within these a request's body must have arrived
    head_limit: Count = 32_768  # bytes of a request's headers
    head_seconds: Seconds = 10.0  # within these a request's URL and headers must have arrived
    connections: Count = 4096  # of one worker; idle ones make room for new ones
    token_sessions: Count = 100_000  # of one token, in the ledger
    token_sockets: Count = 4096  # of one token, open at one worker
    token_bytes: Count = 1_000_000_000  # that one token may send to one worker within a minute
    allowed_hosts: tuple[str, ...] = ()  # host names to answer under; `*`: any, as by default where others can connect
    screens: Count = 32  # pages of the browser that takes pictures, each of a session that is looked at by them
    chromium: str = ""  # that browser's program; else one of the system's, or Playwright's own
    cors_origins: tuple[str, ...] = ()  # whose pages may call from a browser
    results: str = ""  # a folder whose runs the gallery shows
    watch_key: str = ""  # secret behind links to watch a session and agents' tokens; all who serve one ledger share it
    log_format: Literal["text", "json"] = "text"  # for people, or a JSON object a line
    log_level: Literal["debug", "info", "warning"] = "info"  # single steps are logged at `debug`

    @staticmethod
    def read(variables: Mapping[str, str]) -> "Settings":
        """The settings that these environment variables say; those that are not set or empty are as by default."""
        given: dict[str, str | list[str]] = {}
        for name, hint in get_type_hints(Settings).items():
            text = variables.get(f"{PREFIX}{name.upper()}") or (name == "port" and variables.get("PORT")) or ""
            if text:
                given[name] = _parts(text) if get_origin(hint) is tuple else text
        try:
            # Numbers stand as text in variables, hence not strict.
            settings = msgspec.convert(given, Settings, strict=False)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            raise BadSetting(f"{PREFIX}{where.rstrip('`').upper()}: {what}") from None
        if settings.workers > 1 and settings.ledger == NO_LEDGER:
            raise BadSetting("several workers share their sessions by a ledger: give a file, or run one worker")
        _check_exam(settings)
        return settings


def _check_exam(settings: Settings) -> None:
    """Refuse what contradicts an exam, instead of leaving it out silently."""
    if settings.agent_tokens and not settings.exam:
        raise BadSetting(f"{PREFIX}AGENT_TOKENS are for an exam: set {PREFIX}EXAM=1 or run `companyos serve --exam`")
    if settings.exam and settings.tokens:
        raise BadSetting(f"an exam serves agents only: give {PREFIX}AGENT_TOKENS in place of {PREFIX}TOKENS")
    if settings.exam and settings.progress:
        raise BadSetting(f"an exam shows no progress: unset {PREFIX}PROGRESS")
    if settings.exam and settings.ledger == NO_LEDGER:
        raise BadSetting("an exam records its attempts in the ledger: give a file or postgresql://...")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
