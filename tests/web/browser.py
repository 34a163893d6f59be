"""Opens pages in the system's Chromium, and records errors and requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from companyos.serve.ops import programs


class Visit:
    """An open page, with its console errors, its requests, and the requests that failed."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.stopped: list[str] = []
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.stopped.append(request.url))


@contextmanager
def visit(file: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[Visit]:
    """Open a file on a screen of this size."""
    with browsing(width, height, scheme) as seen:
        seen.page.goto(file.as_uri())
        yield seen


@contextmanager
def browsing(width: int = 1280, height: int = 900, scheme: str = "light", scripts: bool = True) -> Iterator[Visit]:
    """Give an empty page on a screen of this size, with or without JavaScript."""
    program = programs.chromium()
    assert program, "these tests need a Chromium: .ci/packages chromium installs it on Debian"
    with sync_playwright() as playwright:
        # The sandbox does not work for root, which CI uses. Only pages of the test are opened.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            screen: Any = {"width": width, "height": height}
            colours: Any = scheme
            context = browser.new_context(viewport=screen, color_scheme=colours, java_script_enabled=scripts)
            yield Visit(context.new_page())
        finally:
            browser.close()
