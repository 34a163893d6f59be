"""Stdio: `companyos mcp`, a server that an MCP host starts for itself and talks to over stdin and stdout."""

import asyncio
import logging.config
import os
import re
import secrets
import sys
from contextlib import redirect_stdout

from companyos.serve.lane import Lane
from companyos.serve.ledger import open_ledger
from companyos.serve.logs import configuration
from companyos.serve.mcp import Guest, company
from companyos.serve.sessions import Sessions
from companyos.serve.settings import NO_LEDGER, PREFIX, BadSetting, Settings

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def serve(session: str | None, ledger: str | None) -> None:
    """Serves until the host hangs up. Nothing is kept unless asked for: who knows in which folder hosts start us."""
    guest = Guest(secrets.token_urlsafe(24) if session is None else session)
    if not _NAME.fullmatch(guest.name):
        raise BadSetting("the name of a session has up to 32 letters, digits, - and _")
    place = f"{PREFIX}LEDGER"
    settings = Settings.read({place: NO_LEDGER, **os.environ, **({} if ledger is None else {place: ledger})})
    logging.config.dictConfig(configuration(settings))
    kept = open_ledger(settings.ledger, settings.fsync)
    lane = Lane(Sessions(kept, settings.capacity, settings.idle_seconds, settings.ttl_seconds))
    try:
        # FastMCP closes what it writes to once the host has hung up, which must not be what others still hold.
        with os.fdopen(os.dup(sys.stdout.fileno()), "w") as its_own, redirect_stdout(its_own):
            asyncio.run(company(lane, lambda: guest, lambda _: None).run_stdio_async(show_banner=False))
    finally:
        lane.close()
        kept.close()
