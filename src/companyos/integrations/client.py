"""Client: an episode on a server, as if it were here. It needs nothing but this package.

What it gives are the same observations that `companyos.make` gives. A call that got no answer is sent again with its turn,
so that it happens once, whatever became of the connection or of the server in between.
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
_OVER = "session_over"
_SCREEN = "screen"
_JSON = {"content-type": "application/json"}
_BUSY = 503
_PAUSE = 0.1  # seconds, between one try and the next


class ServerError(Exception):
    """What a server refuses. `code` never changes."""

    def __init__(self, status: int, code: str, message: str, what_next: str) -> None:
        super().__init__(f"{message} ({code}); {what_next}")
        self.status = status
        self.code = code


class Company:
    """One episode at a time, on a server. `reset` begins one; `fork` gives others that go on from where it stands."""

    def __init__(self, url: str, token: str = "", timeout: float = 30.0, retry_seconds: float = 30.0) -> None:
        self._url, self._token, self._timeout, self._retry = url.rstrip("/"), token, timeout, retry_seconds
        place = urlsplit(self._url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ValueError(f"a server's address begins with http:// or https://; got {url!r}")
        secure = place.scheme == "https"
        self._root = place.path
        self._line = (HTTPSConnection if secure else HTTPConnection)(place.hostname, place.port, timeout=timeout)
        self._last: Observation | None = None
        self._offered: tuple[str, ...] = ()  # the episode's tools
        self.session_id = ""
        self.task_id = ""  # for the trainer, never for agents; empty in an exam
        self.agent_token = ""  # for the model's side: steps in this episode, and nothing else
        self.success: bool | None = None  # known once it is done, except in an exam
        self.screenshot = b""  # a JPEG of the agent's page, after `reset(observation="screenshot")`

    # -- the episode -----------------------------------------------------------------------------------------------

    def reset(self, task: str | None = None, **choices: Any) -> Observation:
        """Begins an episode: by task id, by family with `seed=`, `chaos=`, `split=`, or by `split=` and `index=`.

        Further choices are `reward=`, `progress=` and `observation=`. The episode before it, if any, is closed.
        """
        self._forget()
        begun = self._ask("/reset", choices if task is None else {"task": task, **choices})
        self.session_id, self.task_id, self.success = begun["session_id"], begun.get("task_id", ""), None
        self.agent_token = begun.get("agent_token", "")
        self._offered = tuple(begun["tools"])
        return self._take(begun)

    def step(self, action: Action) -> Observation:
        """Makes one call. After the end nothing happens any more, and the observation says so.

        Where the episode is looked at by pictures, calls to app `screen` are what a hand does: `Call("screen", "click",
        {"x": 40, "y": 120})`. They have no turn: one that got no answer is not sent again.
        """
        try:
            return self._take(self._ask("/step", self._body(action)))
        except ServerError as error:
            if error.code != _OVER:
                raise
            return self._over()

    def fork(self, count: int = 1) -> list["Company"]:
        """Episodes that go on from where this one stands, each by itself."""
        made = []
        for session_id in self._ask("/fork", {"session_id": self.session_id, "count": count})["session_ids"]:
            twin = Company(self._url, self._token, self._timeout, self._retry)
            twin.session_id, twin.task_id, twin.success, twin._last = session_id, self.task_id, self.success, self._last
            twin._offered = self._offered
            made.append(twin)
        return made

    def render(self, view: str = "text") -> str:
        """The episode as its agent sees it: `text`, `html` or `json`."""
        return self._render(view).decode()

    def picture(self, kind: str = "png") -> bytes:
        """The page that its agent is on: `png` or `jpeg`."""
        return self._render(kind)

    def capacity(self) -> int:
        """How many episodes may go on at a time on the server, in each of its workers."""
        return int(msgspec.json.decode(self._exchange("GET", "/manifest"))["capacity"])

    def close(self) -> None:
        """Frees the episode's place on the server, and the connection."""
        self._forget()
        self._line.close()

    @property
    def done(self) -> bool:
        return self._last is not None and self._last.done

    def __enter__(self) -> "Company":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- how it goes over the wire ---------------------------------------------------------------------------------

    def _body(self, action: Action) -> dict[str, Any]:
        call = {"app": action.app, "method": action.method, "params": action.params} if isinstance(action, Call) else action
        turn = {} if call.get("app") == _SCREEN else {"turn": 1 if self._last is None else self._last.step + 1}
        return {**call, "session_id": self.session_id, **turn}

    def _render(self, view: str) -> bytes:
        return self._exchange("GET", f"/render?{urlencode({'session_id': self.session_id, 'view': view})}")

    def _take(self, reply: dict[str, Any]) -> Observation:
        seen = reply["observation"]
        self.screenshot = b64decode(seen.get("screenshot", ""))
        progress = tuple(seen["progress"]) if "progress" in seen else None
        said = Reply(seen["code"] == OK, seen["code"], seen["last_result"], seen["message"])
        scene = Scene(seen["task"], seen["max_steps"], self._offered)
        paid = reply.get("reward", 0.0)  # an exam tells nothing of it
        self._last = Observation(scene, seen["now"], seen["step"], said, paid, reply["done"], progress)
        self.success = reply.get("success", self.success)
        return self._last

    def _over(self) -> Observation:
        assert self._last is not None
        return msgspec.structs.replace(self._last, reply=OVER, reward=0.0)

    def _forget(self) -> None:
        if self.session_id:
            try:
                self._ask("/close", {"session_id": self.session_id})
            except ServerError as error:
                if error.code not in ("unknown_session", "other_version"):  # gone already
                    raise
        self.session_id, self._last = "", None

    def _ask(self, place: str, body: Mapping[str, Any]) -> dict[str, Any]:
        safe = body.get("app") != _SCREEN  # to send again
        found: dict[str, Any] = msgspec.json.decode(self._exchange("POST", place, msgspec.json.encode(body), safe))
        return found

    def _exchange(self, method: str, place: str, body: bytes | None = None, safe: bool = True) -> bytes:
        """One request and its reply, tried again for a while where the server is not there or has no room."""
        headers = {**_JSON, **({"authorization": f"Bearer {self._token}"} if self._token else {})}
        give_up = time.monotonic() + self._retry
        while True:
            pause = _PAUSE
            try:
                self._line.request(method, self._root + place, body, headers)
                answer = self._line.getresponse()
                raw = answer.read()
            except (OSError, HTTPException):
                self._line.close()
                if not safe or time.monotonic() + pause > give_up:
                    raise
            else:
                if answer.status == 200:
                    return raw
                pause = float(answer.headers.get("retry-after", pause))
                if answer.status != _BUSY or time.monotonic() + pause > give_up:
                    raise _refused(answer.status, raw)
            time.sleep(pause)


def rollout(companies: Sequence[Company], actions: Sequence[Action]) -> list[Observation | ServerError]:
    """One step in each of many episodes of one server, in one request; each is answered by itself."""
    if not companies:
        return []
    steps = [company._body(action) for company, action in zip(companies, actions, strict=True)]
    found: list[Observation | ServerError] = []
    for company, answer in zip(companies, companies[0]._ask("/rollout", {"steps": steps})["answers"], strict=True):
        if answer["status"] == 200:
            found.append(company._take(answer["result"]))
        elif answer["error"]["code"] == _OVER:
            found.append(company._over())
        else:
            found.append(ServerError(answer["status"], **answer["error"]))
    return found


def connect(url: str, token: str = "") -> Company:
    """A company on the server at this address."""
    return Company(url, token)


def _refused(status: int, raw: bytes) -> ServerError:
    try:
        return ServerError(status, **msgspec.json.decode(raw)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):  # somebody in between answered, not the server
        return ServerError(status, "not_ours", raw[:200].decode(errors="replace"), "look at what stands before the server")
