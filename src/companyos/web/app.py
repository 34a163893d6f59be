"""App: the server with all its pages. `uvicorn --factory companyos.web.app:create` runs it anywhere."""

from fastapi import FastAPI

from companyos.serve import app
from companyos.serve.settings import Settings
from companyos.web.front import Front
from companyos.web.office import Office
from companyos.web.play import Play
from companyos.web.site import Part, Site


def create(settings: Settings | None = None) -> FastAPI:
    """The app with all its doors, for programs and for people."""
    parts: tuple[Part, ...] = (Front(), Play(), Office())
    return app.create(settings, Site(parts))
