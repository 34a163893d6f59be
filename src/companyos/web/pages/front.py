"""The front page: what CompanyOS is, and a button that starts a first task."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.families import FAMILIES
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.labels import title_and_question
from companyos.web.site import Site


class FrontPage:
    """The page `/`."""

    prefix, title = "/", ""

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        families = [(name, *title_and_question(family)) for name, family in FAMILIES.items()]

        async def front(_: Request) -> Response:
            return site.page("front.html", families=families)

        app.router.routes.append(Route("/", front))
