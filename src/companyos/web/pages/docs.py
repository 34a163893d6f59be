"""The page `/docs`: the HTTP API for people, generated from its OpenAPI description."""

import re

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.serve.http.describe import DOCS, endpoints
from companyos.serve.ops.greeting import example_lines
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.site import Site

# The host comes from a header. A shell gives characters other than these a meaning, and people copy the lines into one.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+")


class DocsPage:
    """The page `/docs`."""

    prefix, title = DOCS, ""

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        async def docs(request: Request) -> Response:
            url = f"{request.url.scheme}://{request.url.netloc}"
            lines = example_lines(url if _PLAIN_URL.fullmatch(url) else "http://127.0.0.1:8000", settings)
            page = site.page("api_docs.html", places=endpoints(app.openapi()), version=app.version, lines=lines)
            # Hosts such as Hugging Face Spaces show this page in a frame. Nothing on it changes anything, so this is safe.
            policy = page.headers["content-security-policy"]
            page.headers["content-security-policy"] = policy.replace("frame-ancestors 'none'", "frame-ancestors *")
            return page

        app.router.routes.append(Route(DOCS, docs))
