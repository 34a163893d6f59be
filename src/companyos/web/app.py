"""App: the server with all its pages. `uvicorn --factory companyos.web.app:create` runs it anywhere."""

import os
from pathlib import Path

from fastapi import FastAPI

from companyos.serve import app
from companyos.serve.settings import Settings
from companyos.web.docs import Docs
from companyos.web.front import Front
from companyos.web.gallery import Gallery
from companyos.web.office import Office
from companyos.web.play import Play
from companyos.web.replay import Replay
from companyos.web.screens import Screens
from companyos.web.shelf import Shelf
from companyos.web.site import Part, Site
from companyos.web.watch import Watch


def create(settings: Settings | None = None) -> FastAPI:
    """The app with all its doors, for programs and for people."""
    settings = settings or Settings.read(os.environ)
    watch, shelf = Watch(), Shelf(Path(settings.results) if settings.results else None)
    parts: tuple[Part, ...] = (Front(), Play(), Office(), watch, Replay(watch, shelf), Gallery(shelf), Docs())
    return app.create(settings, Site(parts, Screens()))
