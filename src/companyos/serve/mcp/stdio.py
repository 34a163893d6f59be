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


def serve(name: str | None, flags: Mapping[str, str], reset_fields: Mapping[str, Any]) -> None:
    """Serve until the host closes stdin.

    Episodes are stored under `name`, which is random if it is None. A server that is started later with the same name and
    ledger continues the newest of them. `flags` are settings by name. `reset_fields` has the fields of the reset with which
    the episode begins: task, seed, chaos and others.
    """
    variables = {f"{PREFIX}{setting.upper()}": value for setting, value in flags.items()}
    # Without a setting for the ledger, nothing is stored. The usual default is a file in the working directory, and here the
    # host chooses that directory, not the user.
    settings = Settings.read({f"{PREFIX}LEDGER": NO_LEDGER, **os.environ, **variables})
    # There is only one client. In an exam it must not see task ids, rewards or results, so it has the role of an agent.
    client = McpClient(secrets.token_urlsafe(24) if name is None else name, agent=settings.exam, reset_fields=reset_fields)
    if not _NAME.fullmatch(client.name):
        raise BadSetting("the name of a session must have 1 to 32 letters, digits, - or _")
    logging.config.dictConfig(configuration(settings))
    ledger = open_ledger(settings.ledger, settings.fsync)
    queue = WorkQueue(Sessions(ledger, settings.capacity, settings.idle_seconds, settings.ttl_seconds))
    try:
        # With the setting `mcp_episodes`, the model begins episodes itself.
        if not settings.mcp_episodes:
            asyncio.run(_begin(queue, settings, client))
        # FastMCP closes the stream it writes to when the host disconnects, so it gets a copy of stdout.
        with os.fdopen(os.dup(sys.stdout.fileno()), "w") as copy, redirect_stdout(copy):
            # Steps are not counted, because only the HTTP server has metrics.
            server = build_server(queue, settings, current_client=lambda: client, count_steps=lambda _: None)
            asyncio.run(server.run_stdio_async(show_banner=False))
    finally:
        queue.close()
        ledger.close()


async def _begin(queue: WorkQueue, settings: Settings, client: McpClient) -> None:
    """Begin the episode that the command line asks for, unless one is already stored under the name of the client."""
    existing_id = await queue.run(lambda sessions: sessions.ledger.newest(client.name))
    try:
        if existing_id is None:
            # Over stdio there are no tokens, so the session has no owner.
            await begin(queue, settings, read_reset(client.reset_fields), owner="", name=client.name)
    except ServeError as mistake:
        raise BadSetting(mistake.message) from None
