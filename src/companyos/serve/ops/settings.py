"""The settings of a server. Each is read from an environment variable `COMPANYOS_<NAME>`."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_origin, get_type_hints

import msgspec
from msgspec import Meta

PREFIX = "COMPANYOS_"
NO_LEDGER = "none"

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class BadSetting(ValueError):
    """A setting, or a combination of settings, that a server cannot run with. The message is one line."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. Secrets have no command line flag, because every user of the machine can read command lines."""

    host: str = "127.0.0.1"  # address to listen at; `0.0.0.0` accepts connections from other machines
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000  # `PORT` is used if `COMPANYOS_PORT` is not set
    workers: Annotated[int, Meta(ge=1, le=256)] = 1  # server processes, which share the ledger
    ledger: Annotated[str, Meta(min_length=1)] = "companyos.ledger"  # a file, a postgresql:// URL, or `none` for memory only
    fsync: bool = False  # flush every commit to disk, to survive a power cut and not only killed processes
    tokens: tuple[str, ...] = ()  # if set, every request needs one of them, except /health and /ready
    admin_token: str = ""  # needed for /inspect, which is off without it
    exam: bool = False  # serve agents only: no task id, reward or verdict in any reply, one attempt per task and token
    agent_tokens: tuple[str, ...] = ()  # tokens of an exam; if set, every request needs one, except /health and /ready
    progress: bool = False  # let clients choose, at reset, that observations list the milestones reached so far
    mcp_episodes: bool = False  # offer the tool `episode_begin` at /mcp-server, so that the model can begin episodes
    capacity: Count = 2000  # sessions in the memory of one worker
    idle_seconds: Seconds = 300.0  # after this an idle session is dropped from memory; its next request loads it again
    ttl_seconds: Seconds = 86400.0  # a session is deleted this long after its last step
    body_limit: Count = 1_000_000  # bytes of a request body or a WebSocket frame
    session_bytes: Count = 1_000_000  # bytes of all calls of one session
    request_seconds: Seconds = 30.0  # timeout for receiving the body of a request
    head_limit: Count = 32_768  # bytes of the headers of a request
    head_seconds: Seconds = 10.0  # timeout for receiving the URL and the headers of a request
    connections: Count = 4096  # open connections of one worker; when all are used, a new one replaces an idle one
    token_sessions: Count = 100_000  # sessions of one token in the ledger
    token_sockets: Count = 4096  # open WebSockets of one token at one worker
    token_bytes: Count = 1_000_000_000  # bytes that one token may send to one worker per minute
    allowed_hosts: tuple[str, ...] = ()  # accepted hosts; `*`: any. Default: local, or any if other machines can connect
    screens: Count = 32  # browser pages, one for each session that is observed by screenshots
    chromium: str = ""  # path of the browser; default: an installed Chromium, or else that of Playwright
    cors_origins: tuple[str, ...] = ()  # origins whose pages may send requests from a browser
    results: str = ""  # folder with the runs that the gallery shows
    study: str = ""  # a suite or a file of task ids: visitors play its tasks one after the other and choose none themselves
    study_out: Annotated[str, Meta(min_length=1)] = "runs/people"  # folder of the run with the episodes of a study
    agents: tuple[str, ...] = ()  # agents that visitors may watch in addition to the built-in ones, such as `tiny:FILE`
    watch_key: str = ""  # secret of watch links and of tokens for one session; servers that share a ledger need the same one
    log_format: Literal["text", "json"] = "text"  # text for people, or one JSON object per line
    log_level: Literal["debug", "info", "warning"] = "info"  # single steps are logged at `debug`

    @staticmethod
    def read(variables: Mapping[str, str]) -> "Settings":
        """Read the settings from environment variables. Variables that are missing or empty keep the default."""
        given: dict[str, str | list[str]] = {}
        for name, hint in get_type_hints(Settings).items():
            text = variables.get(f"{PREFIX}{name.upper()}") or (name == "port" and variables.get("PORT")) or ""
            if text:
                given[name] = _split_at_commas(text) if get_origin(hint) is tuple else text
        try:
            # Not strict, because variables hold numbers as text.
            settings = msgspec.convert(given, Settings, strict=False)
        except msgspec.ValidationError as error:
            # for example "Expected `int` >= 1 - at `$.workers`"
            problem, _, field = str(error).partition(" - at `$.")
            raise BadSetting(f"{PREFIX}{field.rstrip('`').upper()}: {problem}") from None
        if settings.workers > 1 and settings.ledger == NO_LEDGER:
            raise BadSetting("several workers share their sessions through a ledger: give a file, or run one worker")
        _check_exam(settings)
        _check_study(settings)
        return settings


def _check_exam(settings: Settings) -> None:
    """Refuse settings that contradict an exam, instead of ignoring them."""
    if settings.agent_tokens and not settings.exam:
        raise BadSetting(f"{PREFIX}AGENT_TOKENS is only for an exam: set {PREFIX}EXAM=1 or run `companyos serve --exam`")
    if settings.exam and settings.tokens:
        raise BadSetting(f"an exam serves agents only: set {PREFIX}AGENT_TOKENS instead of {PREFIX}TOKENS")
    if settings.exam and settings.progress:
        raise BadSetting(f"an exam does not show progress: unset {PREFIX}PROGRESS")
    if settings.exam and settings.ledger == NO_LEDGER:
        raise BadSetting("an exam records its attempts in the ledger: give a file or postgresql://...")


def _check_study(settings: Settings) -> None:
    """Refuse settings that contradict a study."""
    if settings.study and settings.exam:
        raise BadSetting("a study is for people, an exam for agents: run one server for each")
    if settings.study and settings.workers > 1:
        raise BadSetting("a study writes one run folder: run one worker")


def _split_at_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
