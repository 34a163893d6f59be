"""The documentation site: builds without a warning, has no dead link, and asks nobody else for anything."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.blocks import ROOT

RESOURCES = {
    "script": "src",
    "link": "href",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "video": "src",
    "object": "data",
}


class Page(HTMLParser):
    """What a built page leads to, what it fetches, and the places in it that can be pointed at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.classes: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        self.classes.update(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in RESOURCES and RESOURCES[tag] in given and given.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(given[RESOURCES[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    program = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(program, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def pages(site: Path) -> Iterator[Page]:
    return (Page(path) for path in sorted(site.rglob("*.html")))


def test_every_page_of_the_docs_is_in_it(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (name.with_name("index.html") if name.stem == "README" else name)).is_file(), path
    assert (site / "CONTRIBUTING.html").is_file()


def test_no_link_within_it_is_dead(site: Path) -> None:
    found = {page.path: page for page in pages(site)}
    looked_at = 0
    for page in found.values():
        for link in page.links + page.fetched:
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = (
                site / split.path.lstrip("/") if link.startswith("/") else page.path.parent / unquote(split.path)
            ).resolve()
            target = page.path if not split.path else target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.path.name} leads to {link}"
            if split.fragment and target in found and not split.fragment.startswith("__"):
                assert unquote(split.fragment) in found[target].ids, f"{page.path.name} leads to {link}"
            looked_at += 1
    assert looked_at > 1000


def test_it_asks_no_other_host_for_anything(site: Path) -> None:
    for page in pages(site):
        foreign = [link for link in page.fetched if urlsplit(link).netloc or urlsplit(link).scheme not in ("", "data")]
        assert not foreign, f"{page.path.name} fetches {foreign}"
        assert "mermaid" not in page.classes, "the theme draws these with what it fetches from elsewhere"
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//", style.read_text()), f"{style.name} fetches from elsewhere"


def test_search_knows_what_is_in_it(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert "submit_approval" in {entry["title"] for entry in index["docs"]}
    assert (ROOT / "mkdocs.yml").read_text().count("- search\n") == 1
