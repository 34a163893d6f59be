"""Errors: what a door can say no to. Each has a code that never changes, a status, and says what to do next.

These are mistakes and mishaps on the way to an episode: a request that fails with one has changed nothing. What the
company refuses within an episode is no error here, but a reply like any other. Anything else is a bug of ours: it is
logged, answered with 500, and tells the caller nothing.
"""

from typing import ClassVar

from companyos.core.calls import Call
from companyos.serve.steps import Outcome


class ServeError(Exception):
    """A request that is answered by an error."""

    status: ClassVar[int]
    code: ClassVar[str]
    what_next: ClassVar[str]

    @property
    def message(self) -> str:
        return str(self)


class Malformed(ServeError):
    status, code = 422, "malformed"
    what_next = "correct the field that is named and send it again; /docs shows what is expected"


class BadTask(ServeError):
    status, code = 422, "bad_task"
    what_next = "name a family of /manifest, or a task id"


class WrongToken(ServeError):
    status, code = 401, "wrong_token"
    what_next = "send a valid token as `Authorization: Bearer TOKEN`"

    def __init__(self) -> None:
        super().__init__("this needs a token")


class NotForAgents(ServeError):
    status, code = 403, "not_for_agents"
    what_next = "an agent may step in its own session and look at it; anything else needs a trainer's token"

    def __init__(self) -> None:
        super().__init__("this place is not open to agents")


class AttemptUsed(ServeError):
    status, code = 409, "attempt_used"
    what_next = "begin another task; the first attempt can be continued with its session_id"

    def __init__(self) -> None:
        super().__init__("this token has already begun this task, and an exam allows one attempt")


class StillOpen(ServeError):
    status, code = 409, "still_open"
    what_next = "finish or close every session of this task, or ask with a trainer's token"

    def __init__(self) -> None:
        super().__init__("what is right in this task is shown once no session of it is unfinished on this server")


class NotOver(ServeError):
    status, code = 409, "not_over"
    what_next = "play it to its end, or ask with a trainer's token"

    def __init__(self) -> None:
        super().__init__("this episode has not ended, so what is true in it is not shown")


class NoSuchPlace(ServeError):
    status, code = 404, "no_such_place"
    what_next = "/docs lists what there is"


class WrongMethod(ServeError):
    status, code = 405, "wrong_method"
    what_next = "/docs lists what there is"


class UnknownSession(ServeError):
    status, code = 404, "unknown_session"
    what_next = "POST /reset begins another"

    def __init__(self) -> None:
        super().__init__("there is no such session; it may have been closed or have expired")


class NotBegun(ServeError):
    status, code = 409, "not_begun"
    what_next = "begin one first: reset, or episode_begin where the door is MCP's"

    def __init__(self) -> None:
        super().__init__("no episode has begun")


class SessionOver(ServeError):
    status, code = 409, "session_over"
    what_next = "POST /reset begins another; `result` is how this one ended"

    def __init__(self, result: Outcome) -> None:
        super().__init__("this episode is over")
        self.result = result


class TurnTaken(ServeError):
    status, code = 409, "turn_taken"
    what_next = "look at GET /render, then send the call with the next turn"

    def __init__(self, turn: int, stands: Call) -> None:
        super().__init__(f"turn {turn} holds another call, to {stands.tool}")
        self.stands = stands


class TurnAhead(ServeError):
    status, code = 409, "turn_ahead"
    what_next = "send the next turn first"

    def __init__(self, turn: int, next_turn: int) -> None:
        super().__init__(f"turn {turn} is not due; the next is {next_turn}")


class OtherVersion(ServeError):
    status, code = 410, "other_version"
    what_next = "POST /reset begins another"

    def __init__(self, version: int) -> None:
        super().__init__(f"this session was begun under benchmark version {version}, which is not served any more")


class OtherRelease(ServeError):
    status, code = 410, "other_release"
    what_next = "POST /reset begins another"

    def __init__(self) -> None:
        super().__init__("this session was begun by another release, with a task or a reward that this one does not have")


class SessionFull(ServeError):
    status, code = 413, "session_full"
    what_next = "send shorter arguments; POST /reset begins another session"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the calls of one session take at most {limit} bytes")


class OldTurns(ServeError):
    status, code = 429, "old_turns"
    what_next = "ask for the others in further requests"

    def __init__(self, most: int) -> None:
        super().__init__(f"one request looks up at most {most} turns before the last one of their session")


class TooLarge(ServeError):
    status, code = 413, "too_large"
    what_next = "send less at a time"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a body has at most {limit} bytes")


class UrlTooLong(ServeError):
    status, code = 414, "url_too_long"
    what_next = "send it in the body"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a URL has at most {limit} bytes")


class HeadTooLarge(ServeError):
    status, code = 431, "head_too_large"
    what_next = "send fewer or shorter headers"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers of a request have at most {limit} bytes")


class TooSlow(ServeError):
    status, code = 408, "too_slow"
    what_next = "send it again"

    def __init__(self, seconds: float, part: str = "body") -> None:
        super().__init__(f"the {part} did not arrive within {seconds:g} s")


class OtherOrigin(ServeError):
    status, code = 403, "other_origin"
    what_next = "send it from a page of this server, or name the origin in COMPANYOS_CORS_ORIGINS"

    def __init__(self) -> None:
        super().__init__("this was sent by a page of another site")


class WrongHost(ServeError):
    status, code = 421, "wrong_host"
    what_next = "use the server's own address, or name the host in COMPANYOS_ALLOWED_HOSTS"

    def __init__(self) -> None:
        super().__init__("this server does not answer under that host name")


class Busy(ServeError):
    """What passes by itself; `retry_after` is in seconds."""

    status: ClassVar[int] = 503
    retry_after: int = 1


class OverCapacity(Busy):
    code = "over_capacity"
    what_next = "try again after the seconds in Retry-After; POST /close frees a place at once"

    def __init__(self, capacity: int, retry_after: int) -> None:
        super().__init__(f"all {capacity} places are taken")
        self.retry_after = retry_after


class TooManyConnections(Busy):
    code = "too_many_connections"
    what_next = "send it again after the seconds in Retry-After"

    def __init__(self) -> None:
        super().__init__("all connections are in use")


class TooMany(Busy):
    """A quota of one token, or a brake."""

    status = 429


class OverQuota(TooMany):
    code = "over_quota"
    what_next = "try again after the seconds in Retry-After; closing sessions and sockets frees their places"

    def __init__(self, what: str, retry_after: int) -> None:
        super().__init__(f"this token may have {what}")
        self.retry_after = retry_after


class TooManySignIns(TooMany):
    code = "too_many_sign_ins"
    what_next = "wait for the seconds in Retry-After, then send a valid token"

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many wrong tokens came from this address")
        self.retry_after = retry_after


class LedgerDown(Busy):
    code = "ledger_down"
    what_next = "send it again, with `turn` to be sure that it happens once"

    def __init__(self) -> None:
        super().__init__("the ledger does not answer; whether this was written is not known")


class NoScreens(ServeError):
    status, code = 409, "no_screens"
    what_next = "do that and start the server again, or go without: view=text, html or json, observation=text"


class ScreenLost(ServeError):
    status, code = 502, "screen_lost"
    what_next = "GET /render?view=png shows where it stands; then go on from there"

    def __init__(self) -> None:
        super().__init__("the browser does not answer; whether this was done is not known")


class Bug(ServeError):
    status, code = 500, "bug"
    what_next = "please report it with the X-Request-Id of this reply"

    def __init__(self) -> None:
        super().__init__("this is our fault; the server's log says more")
