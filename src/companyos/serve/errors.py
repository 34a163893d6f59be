"""The errors that endpoints answer with. Each has a stable code, an HTTP status, and a hint what to do next.

A request that fails with one of them has changed nothing, unless its message says that this is unknown. A call that the
company refuses within an episode is not an error here: it gets a normal reply. Any other exception is a bug: it is logged
and answered with status 500 and no details.
"""

from typing import ClassVar

from companyos.core.calls import Call
from companyos.core.errors import install_hint
from companyos.serve.steps import StepResult


class ServeError(Exception):
    """Base class of the errors."""

    status: ClassVar[int]
    code: ClassVar[str]
    what_next: ClassVar[str]

    @property
    def message(self) -> str:
        return str(self)


class Malformed(ServeError):
    status, code = 422, "malformed"
    what_next = "correct the field named in the message and send the request again; /docs lists the fields"


class InvalidTask(ServeError):
    status, code = 422, "bad_task"
    what_next = "give a task id, or a family listed in /manifest"


class WrongToken(ServeError):
    status, code = 401, "wrong_token"
    what_next = "send a valid token as `Authorization: Bearer TOKEN`"

    def __init__(self) -> None:
        super().__init__("this request needs a valid token")


class NotForAgents(ServeError):
    status, code = 403, "not_for_agents"
    what_next = "an agent may only step in its own session and look at it; anything else needs a trainer's token"

    def __init__(self) -> None:
        super().__init__("agents may not use this endpoint")


class AttemptUsed(ServeError):
    status, code = 409, "attempt_used"
    what_next = "begin another task, or continue the first attempt with its session_id"

    def __init__(self) -> None:
        super().__init__("this token has already begun this task, and an exam allows one attempt")


class TaskInUse(ServeError):
    status, code = 409, "still_open"
    what_next = "finish or close every session of this task, or use a trainer's token"

    def __init__(self) -> None:
        super().__init__("the solution of a task is shown once no session of it is unfinished on this server")


class EpisodeNotOver(ServeError):
    status, code = 409, "not_over"
    what_next = "play the episode to its end, or use a trainer's token"

    def __init__(self) -> None:
        super().__init__("the ground truth of an episode is shown once it has ended")


class UnknownRoute(ServeError):
    status, code = 404, "no_such_place"
    what_next = "/docs lists all endpoints and their methods"


class WrongMethod(ServeError):
    status, code = 405, "wrong_method"
    what_next = "/docs lists all endpoints and their methods"


class UnknownSession(ServeError):
    status, code = 404, "unknown_session"
    what_next = "begin a new session with POST /reset"

    def __init__(self) -> None:
        super().__init__("there is no such session; it may have been closed or have expired")


class NotBegun(ServeError):
    status, code = 409, "not_begun"
    what_next = "begin an episode first, with reset, or with the tool episode_begin over MCP"

    def __init__(self) -> None:
        super().__init__("no episode has begun")


class SessionOver(ServeError):
    status, code = 409, "session_over"
    what_next = "begin a new session with POST /reset; `result` holds the last step of this one"

    def __init__(self, result: StepResult) -> None:
        super().__init__("this episode is over")
        self.result = result


class TurnTaken(ServeError):
    status, code = 409, "turn_taken"
    what_next = "look at the session with GET /render, then send the call with the next turn"

    def __init__(self, turn: int, recorded: Call) -> None:
        super().__init__(f"turn {turn} was already made with another call, to {recorded.tool}")
        self.recorded = recorded


class TurnAhead(ServeError):
    status, code = 409, "turn_ahead"
    what_next = "send the next turn first"

    def __init__(self, turn: int, next_turn: int) -> None:
        super().__init__(f"turn {turn} cannot be made yet; the next turn is {next_turn}")


class OtherVersion(ServeError):
    status, code = 410, "other_version"
    what_next = "begin a new session with POST /reset"

    def __init__(self, version: int) -> None:
        super().__init__(f"this session was begun under benchmark version {version}, which this server no longer supports")


class OtherRelease(ServeError):
    status, code = 410, "other_release"
    what_next = "begin a new session with POST /reset"

    def __init__(self) -> None:
        super().__init__(
            "this session was begun by another release, with a task or a reward that this release does not have"
        )


class SessionFull(ServeError):
    status, code = 413, "session_full"
    what_next = "send shorter arguments, or begin a new session with POST /reset"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the calls of one session may take at most {limit} bytes")


class OldTurns(ServeError):
    status, code = 429, "old_turns"
    what_next = "ask for the other turns in further requests"

    def __init__(self, limit: int) -> None:
        super().__init__(f"one request may repeat at most {limit} turns that are older than the last turn of their session")


class TooLarge(ServeError):
    status, code = 413, "too_large"
    what_next = "send less data per request"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a request body may have at most {limit} bytes")


class UrlTooLong(ServeError):
    status, code = 414, "url_too_long"
    what_next = "send the data in the body"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a URL may have at most {limit} bytes")


class HeadTooLarge(ServeError):
    status, code = 431, "head_too_large"
    what_next = "send fewer or shorter headers"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers of a request may have at most {limit} bytes")


class TooSlow(ServeError):
    status, code = 408, "too_slow"
    what_next = "send the request again"

    def __init__(self, seconds: float, part: str = "body") -> None:
        super().__init__(f"the {part} did not arrive within {seconds:g} s")


class OtherOrigin(ServeError):
    status, code = 403, "other_origin"
    what_next = "send the request from a page of this server, or add the origin to COMPANYOS_CORS_ORIGINS"

    def __init__(self) -> None:
        super().__init__("this request was sent by a page of another site")


class WrongHost(ServeError):
    status, code = 421, "wrong_host"
    what_next = "use the address of the server, or add the host name to COMPANYOS_ALLOWED_HOSTS"

    def __init__(self) -> None:
        super().__init__("this server does not accept requests for that host name")


class Busy(ServeError):
    """A temporary condition. `retry_after` is in seconds."""

    status: ClassVar[int] = 503
    retry_after: int = 1


class OverCapacity(Busy):
    code = "over_capacity"
    what_next = "try again after the seconds in Retry-After, or close a session with POST /close"

    def __init__(self, capacity: int, retry_after: int) -> None:
        super().__init__(f"the server is full: it holds {capacity} sessions")
        self.retry_after = retry_after


class TooManyConnections(Busy):
    code = "too_many_connections"
    what_next = "send the request again after the seconds in Retry-After"

    def __init__(self) -> None:
        super().__init__("the server has no free connection")


class TooMany(Busy):
    """A token or an address has reached a limit."""

    status = 429


class OverQuota(TooMany):
    code = "over_quota"
    what_next = "try again after the seconds in Retry-After, or close sessions or sockets"

    def __init__(self, limit: str, retry_after: int) -> None:
        super().__init__(f"the limit of this token is {limit}")
        self.retry_after = retry_after


class TooManySignIns(TooMany):
    code = "too_many_sign_ins"
    what_next = "wait for the seconds in Retry-After, then send a valid token"

    def __init__(self, retry_after: int) -> None:
        super().__init__("this address has sent too many wrong tokens")
        self.retry_after = retry_after


class LedgerDown(Busy):
    code = "ledger_down"
    what_next = "send the request again, with `turn` so that the call is made once"

    def __init__(self) -> None:
        super().__init__("the ledger does not answer; it is unknown whether this was written")


class NoScreens(ServeError):
    status, code = 409, "no_screens"
    what_next = "correct this and restart the server, or use text: view=text, html or json, observation=text"


class ScreenLost(ServeError):
    status, code = 502, "screen_lost"
    what_next = "look at the current page with GET /render?view=png, then continue"

    def __init__(self) -> None:
        super().__init__("the browser does not answer; it is unknown whether this was done")


class NoMcp(ServeError):
    status, code = 501, "no_mcp"
    what_next = f"restart the server after {install_hint('serve')}, or use another interface; /docs lists them"

    def __init__(self) -> None:
        super().__init__("this server was installed without MCP")


class AgentFailed(ServeError):
    status, code = 500, "agent_raised"
    what_next = "watch another agent; the log of the server has the traceback"

    def __init__(self) -> None:
        super().__init__("the agent that plays this session raised an exception, so the episode ends here")


class Bug(ServeError):
    status, code = 500, "bug"
    what_next = "please report this with the X-Request-Id of the reply"

    def __init__(self) -> None:
        super().__init__("this is a bug in the server; its log has the details")
