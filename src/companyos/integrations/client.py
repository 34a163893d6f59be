"""The HTTP client: an episode on a server, used like one in this process. It needs no other package.

It returns the same observations as `companyos.make`. A call that got no answer is sent again with its turn number. The
server does not make it a second time, even if the connection or the server failed in between.
"""

import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from companyos.core.calls import OK, Call, Reply
from companyos.env import OVER
from companyos.env.observations import Observation, Scene

Action = Call | Mapping[str, Any]
_SESSION_OVER = "session_over"
_SCREEN = "screen"  # the app of gestures, such as clicks, in episodes with screenshots
_JSON = {"content-type": "application/json"}
_BUSY = 503
_PAUSE = 0.1  # seconds between two attempts to send a request


class ServerError(Exception):
    """An error reply of the server. `code` is stable."""

    def __init__(self, status: int, code: str, message: str, what_next: str) -> None:
        super().__init__(f"{message} ({code}); {what_next}")
        self.status = status
        self.code = code


class Company:
    """One episode at a time on a server. `reset` begins one; `fork` returns others that continue from its current turn."""

    def __init__(self, url: str, token: str = "", timeout: float = 30.0, retry_seconds: float = 30.0) -> None:
        self._url, self._token, self._timeout, self._retry = url.rstrip("/"), token, timeout, retry_seconds
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a server begins with http:// or https://; got {url!r}")
        secure = parts.scheme == "https"
        self._root = parts.path
        self._connection = (HTTPSConnection if secure else HTTPConnection)(parts.hostname, parts.port, timeout=timeout)
        self._last: Observation | None = None
        self._offered: tuple[str, ...] = ()  # the tools of the episode
        self.session_id = ""
        self.task_id = ""  # for the trainer, not for agents; empty in an exam
        self.agent_token = ""  # for the agent: a token that only allows to step in this episode
        self.success: bool | None = None  # set when the episode has ended, except in an exam
        self.screenshot = b""  # a JPEG of the agent's page, if `reset` asked for `observation="screenshot"`

    # -- the episode -----------------------------------------------------------------------------------------------

    def reset(self, task: str | None = None, **options: Any) -> Observation:
        """Begin an episode: by task id, by family with `seed=`, `chaos=`, `split=`, or by `split=` and `index=`.

        Other options are `reward=`, `progress=` and `observation=`. Closes the previous episode, if any.
        """
        self._forget()
        begun = self._ask("/reset", options if task is None else {"task": task, **options})
        self.session_id, self.task_id, self.success = begun["session_id"], begun.get("task_id", ""), None
        self.agent_token = begun.get("agent_token", "")
        self._offered = tuple(begun["tools"])
        return self._take(begun)

    def step(self, action: Action) -> Observation:
        """Make one call. After the end of the episode it changes nothing, and the observation says so.

        In an episode with screenshots, calls to the app `screen` are gestures, for example `Call("screen", "click",
        {"x": 40, "y": 120})`. They have no turn number, so a gesture that got no answer is not sent again.
        """
        try:
            return self._take(self._ask("/step", self._body(action)))
        except ServerError as error:
            if error.code != _SESSION_OVER:
                raise
            return self._over()

    def fork(self, count: int = 1) -> list["Company"]:
        """Return independent episodes that continue from the current turn of this one."""
        forks = []
        for session_id in self._ask("/fork", {"session_id": self.session_id, "count": count})["session_ids"]:
            fork = Company(self._url, self._token, self._timeout, self._retry)
            fork.session_id, fork.task_id, fork.success, fork._last = session_id, self.task_id, self.success, self._last
            fork._offered = self._offered
            forks.append(fork)
        return forks

    def render(self, view: str = "text") -> str:
        """Return the episode as its agent sees it, as `text`, `html` or `json`."""
        return self._render(view).decode()

    def picture(self, kind: str = "png") -> bytes:
        """Return a screenshot of the agent's page, as `png` or `jpeg`."""
        return self._render(kind)

    def capacity(self) -> int:
        """Return how many sessions each worker of the server can hold in memory."""
        return int(msgspec.json.decode(self._exchange("GET", "/manifest"))["capacity"])

    def close(self) -> None:
        """Delete the episode on the server, and close the connection."""
        self._forget()
        self._connection.close()

    @property
    def done(self) -> bool:
        return self._last is not None and self._last.done

    def __enter__(self) -> "Company":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- requests ---------------------------------------------------------------------------------------------------

    def _body(self, action: Action) -> dict[str, Any]:
        """Return the body of a request for a step. A gesture has no turn number."""
        call = {"app": action.app, "method": action.method, "params": action.params} if isinstance(action, Call) else action
        turn = {} if call.get("app") == _SCREEN else {"turn": 1 if self._last is None else self._last.step + 1}
        return {**call, "session_id": self.session_id, **turn}

    def _render(self, view: str) -> bytes:
        return self._exchange("GET", f"/render?{urlencode({'session_id': self.session_id, 'view': view})}")

    def _take(self, reply: dict[str, Any]) -> Observation:
        """Return the observation in a reply of the server, and remember it."""
        fields = reply["observation"]
        self.screenshot = b64decode(fields.get("screenshot", ""))
        progress = tuple(fields["progress"]) if "progress" in fields else None
        last_reply = Reply(fields["code"] == OK, fields["code"], fields["last_result"], fields["message"])
        scene = Scene(fields["task"], fields["max_steps"], self._offered)
        reward = reply.get("reward", 0.0)  # an exam does not send it
        self._last = Observation(scene, fields["now"], fields["step"], last_reply, reward, reply["done"], progress)
        self.success = reply.get("success", self.success)
        return self._last

    def _over(self) -> Observation:
        """Return the last observation again, with a reply that says that the episode is over."""
        assert self._last is not None
        return msgspec.structs.replace(self._last, reply=OVER, reward=0.0)

    def _forget(self) -> None:
        """Delete the episode on the server, if there is one."""
        if self.session_id:
            try:
                self._ask("/close", {"session_id": self.session_id})
            except ServerError as error:
                if error.code not in ("unknown_session", "other_version"):  # already deleted
                    raise
        self.session_id, self._last = "", None

    def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        repeatable = body.get("app") != _SCREEN
        reply: dict[str, Any] = msgspec.json.decode(self._exchange("POST", path, msgspec.json.encode(body), repeatable))
        return reply

    def _exchange(self, method: str, path: str, body: bytes | None = None, repeatable: bool = True) -> bytes:
        """Send a request and return the reply. Retry for a while if the server does not answer or is busy."""
        headers = {**_JSON, **({"authorization": f"Bearer {self._token}"} if self._token else {})}
        deadline = time.monotonic() + self._retry
        while True:
            pause = _PAUSE
            try:
                self._connection.request(method, self._root + path, body, headers)
                answer = self._connection.getresponse()
                raw = answer.read()
            except (OSError, HTTPException):
                self._connection.close()
                if not repeatable or time.monotonic() + pause > deadline:
                    raise
            else:
                if answer.status == 200:
                    return raw
                pause = float(answer.headers.get("retry-after", pause))
                if answer.status != _BUSY or time.monotonic() + pause > deadline:
                    raise _refused(answer.status, raw)
            time.sleep(pause)


def rollout(companies: Sequence[Company], actions: Sequence[Action]) -> list[Observation | ServerError]:
    """Make one step in each of many episodes on one server, in one request: the call `/rollout` of the server.

    `actions[i]` is for `companies[i]`. Returns the observation or the error of each. A whole rollout is a series of such
    calls.
    """
    if not companies:
        return []
    steps = [company._body(action) for company, action in zip(companies, actions, strict=True)]
    answers: list[Observation | ServerError] = []
    for company, answer in zip(companies, companies[0]._ask("/rollout", {"steps": steps})["answers"], strict=True):
        if answer["status"] == 200:
            answers.append(company._take(answer["result"]))
        elif answer["error"]["code"] == _SESSION_OVER:
            answers.append(company._over())
        else:
            answers.append(ServerError(answer["status"], **answer["error"]))
    return answers


def connect(url: str, token: str = "") -> Company:
    """Return a client of the server at this address."""
    return Company(url, token)


def _refused(status: int, raw: bytes) -> ServerError:
    """Return the error for a reply with another status than 200."""
    try:
        return ServerError(status, **msgspec.json.decode(raw)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):  # the reply came from a proxy, not from the server
        return ServerError(status, "not_ours", raw[:200].decode(errors="replace"), "check the proxy in front of the server")
