"""Creates the server with its web pages. Run it with `uvicorn --factory companyos.web.app:create`."""

import os
from pathlib import Path

from fastapi import FastAPI

from companyos.serve import app
from companyos.serve.ops.settings import Settings
from companyos.web.pages.demonstrate import DemonstrationPages
from companyos.web.pages.docs import DocsPage
from companyos.web.pages.front import FrontPage
from companyos.web.pages.gallery import GalleryPages
from companyos.web.pages.office import OfficePages
from companyos.web.pages.play import PlayPages
from companyos.web.pages.replay import ReplayPages
from companyos.web.pages.study import StudyPages, StudyRedirect
from companyos.web.pages.watch import WatchPages
from companyos.web.results_folder import ResultsFolder
from companyos.web.screen.pool import ScreenPool
from companyos.web.site import PageGroup, Site


def create(settings: Settings | None = None) -> FastAPI:
    """Return the app with all interfaces: the ones for programs and the pages for people."""
    settings = settings or Settings.read(os.environ)
    if settings.study:
        return app.create(settings, Site(_study_groups(settings), ScreenPool()))
    watch, results = WatchPages(), ResultsFolder(Path(settings.results) if settings.results else None)
    groups: tuple[PageGroup, ...] = (
        FrontPage(),
        PlayPages(),
        OfficePages(),
        watch,
        DemonstrationPages(watch),
        ReplayPages(watch, results),
        GalleryPages(results),
        DocsPage(),
    )
    return app.create(settings, Site(groups, ScreenPool()))


def _study_groups(settings: Settings) -> tuple[PageGroup, ...]:
    """Return the pages of a study. Its routes come before those of the pages that they replace."""
    watch = WatchPages()
    watch.title = ""  # visitors must not find each other's sessions; the office links to the page of a single session
    redirects = (StudyRedirect("/"), StudyRedirect("/play"), StudyRedirect("/watch"))
    return (*redirects, StudyPages(settings), OfficePages(), watch, DocsPage())
