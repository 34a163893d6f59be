"""Pages: what a server knows of its places for people. They come from above; without any, it speaks to programs only."""

from typing import Protocol

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Scope

from companyos.serve.errors import ServeError
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.screens import Screens

COOKIE = "companyos_token"  # where a browser, which sends no header by itself, keeps its token


class Pages(Protocol):
    """Places whose visitors read HTML, bring their token in a cookie, and are told by a page what is wrong."""

    @property
    def screens(self) -> Screens:
        """What takes pictures of them."""

    def open(self, app: FastAPI, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        """Adds its places to the app."""

    def close(self) -> None:
        """Ends what it has begun beside the server."""

    def place(self, path: str) -> str:
        """By which name counts and logs know a path, without any id; empty: it is none of ours."""

    def is_open(self, path: str) -> bool:
        """Whether a path is for everybody, tokens or not."""

    def wants(self, scope: Scope) -> bool:
        """Whether whoever asks would rather read a page than JSON."""

    def refusal(self, scope: Scope, error: ServeError) -> Response:
        """An error as a page."""
