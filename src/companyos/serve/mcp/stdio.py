"""`companyos mcp`: a server that an MCP host starts and talks to over stdin and stdout."""

import asyncio
import logging.config
import os
import re
import secrets
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from companyos.serve.errors import ServeError
from companyos.serve.ledger import open_ledger
from companyos.serve.mcp.server import McpClient, build_server
from companyos.serve.ops.logs import configuration
from companyos.serve.ops.settings import NO_LEDGER, PREFIX, BadSetting, Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.work_queue import WorkQueue

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def serve(session: str | None, flags: Mapping[str, str], chosen: Mapping[str, Any]) -> None:
    """Serve until the host closes stdin. By default nothing is stored, because the host chooses the working directory.

    `session` names the MCP session; a server that is started later with the same name and ledger continues it.
    `flags` are settings by name. `chosen` has the fields of the reset that begins the episode.
    """
    variables = {f"{PREFIX}{name.upper()}": value for name, value in flags.items()}
    settings = Settings.read({f"{PREFIX}LEDGER": NO_LEDGER, **os.environ, **variables})
    name = secrets.token_urlsafe(24) if session is None else session
    client = McpClient(name, agent=settings.exam, chosen=chosen)  # in an exam every client is an agent
    if not _NAME.fullmatch(client.name):
        raise BadSetting("the name of a session must have 1 to 32 letters, digits, - or _")
    logging.config.dictConfig(configuration(settings))
    ledger = open_ledger(settings.ledger, settings.fsync)
    queue = WorkQueue(Sessions(ledger, settings.capacity, settings.idle_seconds, settings.ttl_seconds))
    try:
        if not settings.mcp_episodes:
            asyncio.run(_begin(queue, settings, client))
        # FastMCP closes the stream it writes to when the host disconnects, so it gets a copy of stdout.
        with os.fdopen(os.dup(sys.stdout.fileno()), "w") as copy, redirect_stdout(copy):
            server = build_server(queue, settings, current_client=lambda: client, count_steps=lambda _: None)
            asyncio.run(server.run_stdio_async(show_banner=False))
    finally:
        queue.close()
        ledger.close()


async def _begin(queue: WorkQueue, settings: Settings, client: McpClient) -> None:
    """Begin the episode that the command line names, unless the named session already has one."""
    existing_id = await queue.run(lambda sessions: sessions.ledger.newest(client.name))
    try:
        if existing_id is None:
            await begin(queue, settings, read_reset(client.chosen), client.owner, name=client.name)
    except ServeError as mistake:
        raise BadSetting(mistake.message) from None
