"""Runs the server with its pages in a thread, for BrowserGym and for tests, which also read its sessions directly."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import uvicorn
from fastapi import FastAPI

from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.sessions import Sessions
from companyos.web.app import create

T = TypeVar("T")
_POLL_SECONDS = 0.01


class LocalServer:
    """A running server: its URL, its app, and access to its sessions."""

    def __init__(self, url: str, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self.url, self.app = url, app
        self._loop = loop

    def run(self, job: Callable[[Sessions], T]) -> T:
        """Run a function on the sessions in the server's own thread, because sessions are not thread-safe."""

        async def run_job() -> T:
            return job(self.app.state.sessions)

        return asyncio.run_coroutine_threadsafe(run_job(), self._loop).result()


@contextmanager
def served(settings: Settings) -> Iterator[LocalServer]:
    """Serve on a free port until the context ends."""
    app = create(settings)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),), daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start; its log says why")
            time.sleep(_POLL_SECONDS)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield LocalServer(f"http://127.0.0.1:{port}", app, loop)
    finally:
        server.should_exit = True
        thread.join()
        loop.close()
