"""Looks: what holds of every page that somebody looks at."""

from axe_playwright_python.sync_playwright import Axe

from tests.web.browser import Visit
from tests.web.site import RunningSite


def check_clean(seen: Visit, site: RunningSite) -> None:
    """Nothing was complained about, and nothing was asked of anybody else."""
    assert seen.errors == []
    assert {address for address in seen.requests if not address.startswith(f"{site.url}/")} == set()


def look_at(seen: Visit, address: str, width: int) -> None:
    """It fits the screen, and everybody can use it."""
    seen.page.goto(address)
    check_looks(seen, width)


def check_looks(seen: Visit, width: int) -> None:
    """The same of a page that is open."""
    address = seen.page.url
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width, f"{address} scrolls sideways"
    found = Axe().run(seen.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, f"{address}: {serious}"
