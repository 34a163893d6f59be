"""Browser: a headless Chromium of the system's, and what it had to complain about."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from companyos.serve.ops import programs


class Visit:
    """A page that is open, all it asked for, what of that was not let out, and every error."""

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
    """Opens a file as somebody with such a screen sees it."""
    with browsing(width, height, scheme) as seen:
        seen.page.goto(file.as_uri())
        yield seen


@contextmanager
def browsing(width: int = 1280, height: int = 900, scheme: str = "light", scripts: bool = True) -> Iterator[Visit]:
    """An empty page on such a screen, of somebody who lets scripts run or does not."""
    program = programs.chromium()
    assert program, "these tests need a Chromium: .ci/packages chromium installs it on Debian"
    with sync_playwright() as playwright:
        # Without a sandbox, since CI is root; all that is opened was made by the test.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            screen = {"width": width, "height": height}
            context = browser.new_context(viewport=screen, color_scheme=scheme, java_script_enabled=scripts)
            yield Visit(context.new_page())
        finally:
            browser.close()
