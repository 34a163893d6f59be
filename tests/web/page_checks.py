"""Checks that every page must pass: no errors, no foreign requests, no sideways scrolling, accessible."""

from axe_playwright_python.sync_playwright import Axe

from tests.web.browser import Visit
from tests.web.site import RunningSite


def check_clean(seen: Visit, site: RunningSite) -> None:
    """Check that the browser reported no errors and asked no other host."""
    assert seen.errors == []
    assert {address for address in seen.requests if not address.startswith(f"{site.url}/")} == set()


def look_at(seen: Visit, address: str, width: int) -> None:
    """Open a page and check how it looks."""
    seen.page.goto(address)
    check_looks(seen, width)


def check_looks(seen: Visit, width: int) -> None:
    """Check that the open page fits the screen and has no serious accessibility problem."""
    address = seen.page.url
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width, f"{address} scrolls sideways"
    violations = Axe().run(seen.page).response["violations"]
    found = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    serious = [(violation["id"], violation["nodes"][0]["html"]) for violation in found]
    assert not serious, f"{address}: {serious}"
