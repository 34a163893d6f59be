"""Docs: the API for people, from its own description, without a line of program from elsewhere."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.serve.http.describe import DOCS, places
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.web.site import Site


class Docs:
    """The page at `/docs`."""

    place, title = DOCS, ""

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        async def docs(_: Request) -> Response:
            shown = site.page("docs.html", places=places(app.openapi()), version=app.version)
            # Hosts show it in a frame of theirs (`base_path` of a Space). There is nothing to click here that does anything.
            policy = shown.headers["content-security-policy"]
            shown.headers["content-security-policy"] = policy.replace("frame-ancestors 'none'", "frame-ancestors *")
            return shown

        app.router.routes.append(Route(DOCS, docs))
