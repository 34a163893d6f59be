"""Stdio: `companyos mcp`, a server that an MCP host starts for itself and talks to over stdin and stdout."""

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
from companyos.serve.mcp.server import Guest, company
from companyos.serve.ops.logs import configuration
from companyos.serve.ops.settings import NO_LEDGER, PREFIX, BadSetting, Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Sessions

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def serve(session: str | None, flags: Mapping[str, str], chosen: Mapping[str, Any]) -> None:
    """Serves until the host hangs up. Nothing is kept unless asked for: who knows in which folder hosts start us.

    `flags` are settings by name. `chosen` says which episode to begin, in the fields of a reset.
    """
    given = {f"{PREFIX}{name.upper()}": value for name, value in flags.items()}
    settings = Settings.read({f"{PREFIX}LEDGER": NO_LEDGER, **os.environ, **given})
    name = secrets.token_urlsafe(24) if session is None else session
    guest = Guest(name, agent=settings.exam, chosen=chosen)
    if not _NAME.fullmatch(guest.name):
        raise BadSetting("the name of a session has up to 32 letters, digits, - and _")
    logging.config.dictConfig(configuration(settings))
    kept = open_ledger(settings.ledger, settings.fsync)
    lane = Lane(Sessions(kept, settings.capacity, settings.idle_seconds, settings.ttl_seconds))
    try:
        if not settings.mcp_episodes:
            asyncio.run(_begin(lane, settings, guest))
        # FastMCP closes what it writes to once the host has hung up, which must not be what others still hold.
        with os.fdopen(os.dup(sys.stdout.fileno()), "w") as its_own, redirect_stdout(its_own):
            asyncio.run(company(lane, settings, lambda: guest, lambda _: None).run_stdio_async(show_banner=False))
    finally:
        lane.close()
        kept.close()


async def _begin(lane: Lane, settings: Settings, guest: Guest) -> None:
    """Begin the episode that the command line names, unless one of this name is under way."""
    under_way = await lane.run(lambda sessions: sessions.ledger.newest(guest.name))
    try:
        if under_way is None:
            await begin(lane, settings, read_reset(guest.chosen), guest.owner, name=guest.name)
    except ServeError as mistake:
        raise BadSetting(mistake.message) from None
