"""WebSockets to an app in this process, and an expert who works through them."""

import asyncio
import json
from typing import Any

from starlette.types import ASGIApp, Message

from companyos.core.calls import Call
from tests.serve.servers import AppClient, Expert


class Socket:
    """A WebSocket to an app in this process, which sends a message and receives the reply."""

    def __init__(self, runner: asyncio.Runner, app: ASGIApp, path: str = "/ws", query: str = "", **headers: str) -> None:
        self._runner = runner
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._to_us: asyncio.Queue[Message] = asyncio.Queue()
        self._app = app
        self._scope = {
            "type": "websocket",
            "client": ("127.0.0.1", 123),
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self.first = runner.run(self._open())

    async def _open(self) -> Message:
        self._task = asyncio.create_task(self._live())
        await self._to_app.put({"type": "websocket.connect"})
        return await self._to_us.get()

    async def _live(self) -> None:
        await self._app(self._scope, self._to_app.get, self._to_us.put)
        await self._to_us.put({"type": "ended"})

    def send(self, **frame: Any) -> Message:
        """Send one ASGI frame (`text=` or `bytes=`) and return the reply."""

        async def exchange() -> Message:
            await self._to_app.put({"type": "websocket.receive", **frame})
            return await self._to_us.get()

        return self._runner.run(exchange())

    def hear(self) -> Message:
        return self._runner.run(self._to_us.get())

    def say(self, kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
        """Send one message of the protocol and return the reply."""
        message = {"type": kind, **({} if data is None else {"data": data}), **more}
        return self.said(self.send(text=json.dumps(message)))

    @staticmethod
    def said(message: Message) -> dict[str, Any]:
        assert message["type"] == "websocket.send", message
        found: dict[str, Any] = json.loads(message["text"])
        return found

    def drop(self) -> None:
        """Drop the connection without a close frame, as when a network fails."""

        async def vanish() -> None:
            await self._to_app.put({"type": "websocket.disconnect", "code": 1006})
            await self._task

        self._runner.run(vanish())


def socket(api: AppClient, path: str = "/ws", query: str = "", **headers: str) -> Socket:
    """Open a socket to the app."""
    return Socket(api.runner, api.app, path, query, **headers)


def action(call: Call, turn: int | None = None) -> dict[str, Any]:
    """Return a call in the form of `CompanyAction`."""
    about = {} if turn is None else {"metadata": {"turn": turn}}
    return {"app": call.app, "method": call.method, "params": call.params, **about}


def tool_action(call: Call) -> dict[str, Any]:
    """Return a call in the form of `CallToolAction`."""
    return {"type": "call_tool", "tool_name": f"{call.app}_{call.method}", "arguments": call.params}


def as_rest(data: dict[str, Any]) -> dict[str, Any]:
    """Convert a message of a socket to the form that `Expert` reads."""
    shown, about = data["observation"], data.get("metadata", {})
    ended = {"success": about["success"]} if "success" in about else {}
    return {"observation": shown, "reward": data["reward"], "done": data["done"], **ended}


def expert_at(begun: dict[str, Any], task_id: str) -> Expert:
    """Return an expert for a session that was begun over a socket."""
    about = begun["observation"]["metadata"]
    return Expert({"session_id": about["session_id"], "task_id": task_id, "observation": begun["observation"]})


def play(one: Socket, task_id: str, reward: str = "dense") -> Expert:
    """Play a whole episode with the expert over a socket."""
    expert = expert_at(one.say("reset", {"task": task_id, "reward": reward})["data"], task_id)
    while expert.call is not None:
        expert.hear(as_rest(one.say("step", action(expert.call))["data"]))
    return expert


def play_by_tools(one: Socket, task_id: str) -> Expert:
    """Do the same at the path that takes `CallToolAction`."""
    expert = expert_at(one.say("reset", {"task": task_id})["data"], task_id)
    while expert.call is not None:
        data = one.say("step", tool_action(expert.call))["data"]
        shown = {**data["observation"]["metadata"], "text": data["observation"]["result"]}
        expert.hear(as_rest(data | {"observation": shown}))
    return expert
