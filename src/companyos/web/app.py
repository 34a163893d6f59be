"""App: the server with all its pages. `uvicorn --factory companyos.web.app:create` runs it anywhere."""

import os
from pathlib import Path

from fastapi import FastAPI

from companyos.serve import app
from companyos.serve.ops.settings import Settings
from companyos.web.pages.docs import Docs
from companyos.web.pages.front import Front
from companyos.web.pages.gallery import Gallery
from companyos.web.pages.office import Office
from companyos.web.pages.play import Play
from companyos.web.pages.replay import Replay
from companyos.web.pages.watch import Watch
from companyos.web.screen.screens import Screens
from companyos.web.shelf import Shelf
from companyos.web.site import Part, Site


def create(settings: Settings | None = None) -> FastAPI:
    """The app with all its doors, for programs and for people."""
    settings = settings or Settings.read(os.environ)
    watch, shelf = Watch(), Shelf(Path(settings.results) if settings.results else None)
    parts: tuple[Part, ...] = (Front(), Play(), Office(), watch, Replay(watch, shelf), Gallery(shelf), Docs())
    return app.create(settings, Site(parts, Screens()))
