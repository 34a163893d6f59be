"""The interface to the HTML pages. `companyos.web` implements it; a server without pages serves programs only."""

from typing import Protocol

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Scope

from companyos.serve.errors import ServeError
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.screens import ScreenBackend
from companyos.serve.sessions.work_queue import WorkQueue

COOKIE = "companyos_token"  # holds the token in a browser, which sends no Authorization header


class Pages(Protocol):
    """Routes for people: they return HTML, read the token from a cookie, and show errors as a page."""

    @property
    def screens(self) -> ScreenBackend:
        """The browser that takes screenshots of the pages."""

    def open(self, app: FastAPI, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        """Add the routes to the app."""

    def close(self) -> None:
        """Stop the background work of the pages."""

    def route_name(self, path: str) -> str:
        """Return the name of a path in metrics and logs, without ids, or "" if it is not a page."""

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token."""

    def wants(self, scope: Scope) -> bool:
        """Return whether the client prefers a page to JSON."""

    def refusal(self, scope: Scope, error: ServeError) -> Response:
        """Return an error as a page."""
