"""Local: a server with all its pages in a thread of this process, whose sessions whoever started it may look into."""

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
_PAUSE = 0.01  # seconds


class Local:
    """Where it is, what it is, and a way to its sessions."""

    def __init__(self, url: str, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self.url, self.app = url, app
        self._loop = loop

    def run(self, job: Callable[[Sessions], T]) -> T:
        """What is to be done with its sessions, in the server's own thread: they are not for two at once."""

        async def done() -> T:
            return job(self.app.state.sessions)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()


@contextmanager
def served(settings: Settings) -> Iterator[Local]:
    """Serves at a free port until it is left."""
    app = create(settings)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),), daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start; its log says why")
            time.sleep(_PAUSE)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Local(f"http://127.0.0.1:{port}", app, loop)
    finally:
        server.should_exit = True
        thread.join()
        loop.close()
