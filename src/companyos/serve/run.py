"""Run: `companyos serve`, from its flags to a server that listens."""

import logging.config
import os
import secrets
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from companyos.serve.access.origins import LOOPBACK
from companyos.serve.http.connections import Connection, Socket
from companyos.serve.ledger import open_ledger
from companyos.serve.ops.greeting import greeting
from companyos.serve.ops.logs import configuration
from companyos.serve.ops.metrics import SHARED
from companyos.serve.ops.settings import PREFIX, BadSetting, Settings


def serve(flags: Mapping[str, str], factory: str = "companyos.serve.app:create") -> None:
    """Serves until it is stopped. Flags become variables, since that is how workers hear of them."""
    os.environ.update({f"{PREFIX}{name.upper()}": value for name, value in flags.items()})
    os.environ.setdefault(f"{PREFIX}WATCH_KEY", secrets.token_hex())  # which workers share
    settings = Settings.read(os.environ)
    if settings.results and not Path(settings.results).is_dir():
        raise BadSetting(f"there is no folder {settings.results}")
    # Found out before anything starts, and before several workers would furnish one file at once.
    open_ledger(settings.ledger, settings.fsync).close()
    _try_port(settings)
    if settings.log_format == "text" and settings.port:
        print(greeting(settings), flush=True)
    with tempfile.TemporaryDirectory(prefix="companyos-metrics-") as shared:
        if settings.workers > 1:
            os.environ.setdefault(SHARED, shared)
        logging.config.dictConfig(configuration(settings))
        _warn(settings)
        uvicorn.run(
            factory,
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            log_config=configuration(settings),
            http=Connection,
            ws=Socket,
            access_log=False,  # ours says more and has the request's id
            server_header=False,
            timeout_keep_alive=75,  # longer than what clients and balancers keep idle connections for
            timeout_graceful_shutdown=10,
            ws_max_size=4 * settings.body_limit,  # up to this, who sends too much is told so; beyond it, cut off
            ws_ping_timeout=600,  # models may write for minutes, in processes that do not answer meanwhile
            ws_per_message_deflate=False,  # costs more time than it saves where most sockets are near
        )


def _warn(settings: Settings) -> None:
    """Say loudly that a server is open to everybody."""
    if settings.host not in LOOPBACK and not settings.tokens:
        said = "ANYBODY WHO CAN REACH PORT %s CAN USE THIS SERVER: it listens at %s without tokens (%sTOKENS)"
        logging.getLogger("companyos.run").warning(said, settings.port, settings.host, PREFIX)


def _try_port(settings: Settings) -> None:
    """Says in one line what would else be a log's error, after the greeting."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise BadSetting(f"cannot listen at {settings.host}, port {settings.port}: {error.strerror}") from None
