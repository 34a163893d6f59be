"""`companyos serve`: starts the server from its command line flags."""

import errno
import logging.config
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import uvicorn

from companyos.serve.access.origins import LOOPBACK
from companyos.serve.http.connections import Connection, Socket
from companyos.serve.ledger import open_ledger
from companyos.serve.ops.greeting import greeting
from companyos.serve.ops.logs import configuration
from companyos.serve.ops.metrics import SHARED_FOLDER_VARIABLE
from companyos.serve.ops.settings import PREFIX, BadSetting, Settings
from companyos.serve.ops.worker_folder import worker_folder

_PORTS_TRIED = 20  # ports above a busy one, of which the first free one is suggested


def serve(
    flags: Mapping[str, str],
    factory: str = "companyos.serve.app:create",
    check: Callable[[Settings], None] = lambda settings: None,
) -> None:
    """Serve until stopped. The flags become environment variables, because the workers read their settings there.

    `check` is called with the settings before anything starts.
    """
    os.environ.update({f"{PREFIX}{name.upper()}": value for name, value in flags.items()})
    os.environ.setdefault(f"{PREFIX}WATCH_KEY", secrets.token_hex())  # all workers must have the same key
    settings = Settings.read(os.environ)
    if settings.results and not Path(settings.results).is_dir():
        raise BadSetting(f"there is no folder {settings.results}")
    check(settings)
    # Fail before anything starts, and create the tables before several workers try to.
    open_ledger(settings.ledger, settings.fsync).close()
    _check_port(settings)
    if settings.log_format == "text" and settings.port:
        print(greeting(settings), flush=True)
    with ExitStack() as stack:
        if settings.workers > 1:
            os.environ.setdefault(SHARED_FOLDER_VARIABLE, str(stack.enter_context(worker_folder())))
        logging.config.dictConfig(configuration(settings))
        _warn_if_open(settings)
        uvicorn.run(
            factory,
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            log_config=configuration(settings),
            http=Connection,
            ws=Socket,
            access_log=False,  # `Guard` logs each request, with its id
            server_header=False,
            timeout_keep_alive=75,  # longer than clients and load balancers keep idle connections
            timeout_graceful_shutdown=10,
            ws_max_size=4 * settings.body_limit,  # above `body_limit` a frame gets an error, above this the socket is closed
            ws_ping_timeout=600,  # a model may generate for minutes in a process that does not answer meanwhile
            ws_per_message_deflate=False,  # compression costs more time than it saves on a fast network
        )


def _warn_if_open(settings: Settings) -> None:
    """Log a warning if anybody on the network can use the server."""
    if settings.host not in LOOPBACK and not settings.tokens:
        message = "ANYBODY WHO CAN REACH PORT %s CAN USE THIS SERVER: it listens at %s without tokens (%sTOKENS)"
        logging.getLogger("companyos.run").warning(message, settings.port, settings.host, PREFIX)


def _check_port(settings: Settings) -> None:
    """Raise `BadSetting` if the port cannot be used, before the greeting; uvicorn would only log it after that."""
    error = _listen_error(settings.host, settings.port)
    if error is None:
        return
    message = f"cannot listen at {settings.host}, port {settings.port}: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        others = range(settings.port + 1, min(settings.port + _PORTS_TRIED, 65535) + 1)
        free = next((port for port in others if _listen_error(settings.host, port) is None), None)
        message += f"; port {free} is free: companyos serve --port {free}" if free else "; choose another with --port"
    raise BadSetting(message)


def _listen_error(host: str, port: int) -> OSError | None:
    """Return why a server cannot listen there; None if it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return error
    return None
