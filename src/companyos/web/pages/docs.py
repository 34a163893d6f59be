"""The page `/docs`: the HTTP API for people, generated from its OpenAPI description."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.serve.http.describe import DOCS, endpoints
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.site import Site


class DocsPage:
    """The page `/docs`."""

    place, title = DOCS, ""

    def open(self, app: FastAPI, site: Site, lane: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        async def docs(_: Request) -> Response:
            page = site.page("api_docs.html", places=endpoints(app.openapi()), version=app.version)
            # Hosts such as Hugging Face Spaces show this page in a frame. Nothing on it changes anything, so this is safe.
            policy = page.headers["content-security-policy"]
            page.headers["content-security-policy"] = policy.replace("frame-ancestors 'none'", "frame-ancestors *")
            return page

        app.router.routes.append(Route(DOCS, docs))
