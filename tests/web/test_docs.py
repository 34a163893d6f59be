"""The page `/docs` describes the whole API and loads nothing from other hosts."""

import httpx
import pytest

from tests.evaluate.reports import Tags
from tests.serve.servers import AppClient
from tests.web.browser import browsing
from tests.web.page_checks import check_clean
from tests.web.site import served


def test_the_docs_page_lists_every_endpoint() -> None:
    with served() as site:
        described, page = httpx.get(f"{site.url}/openapi.json").json(), Tags(httpx.get(f"{site.url}/docs").text)
        for path, methods in described["paths"].items():
            for method in methods:
                assert f"{method.upper()} {path}" in page.text
        assert "turn_taken" in page.text


def test_the_docs_page_loads_nothing_from_other_hosts() -> None:
    with served() as site, browsing() as seen:
        seen.page.goto(site.url)
        seen.page.get_by_role("link", name="all endpoints").click()
        seen.page.locator(".place summary").first.click()
        assert "session_id" in seen.page.locator(".place[open]").inner_text()
        check_clean(seen, site)
        assert httpx.get(f"{site.url}/redoc").status_code == 404


@pytest.mark.parametrize("place", ["/reset", "/step", "/rollout", "/render"])
def test_a_server_without_pages_lists_its_endpoints_as_text(place: str) -> None:
    with AppClient() as door:
        listed = door.get("/docs")
        assert listed.headers["content-type"].startswith("text/plain")
        assert place in listed.text
