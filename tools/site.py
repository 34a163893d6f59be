"""Site: the pages at the top of the repository as pages of the documentation, and the links between both.

MkDocs runs these hooks. Links are written so that they work where the files lie; here they are bent to where a page stands
in the site. What leads nowhere still does, and MkDocs complains about it.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FROM_THE_TOP = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "ERRATA.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "AGENTS.md",
)
DOCS = "docs"
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from the top beside those of docs/."""
    for name in FROM_THE_TOP:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Bends the links of a page that cross from docs/ to the top of the repository, or from there into docs/."""
    place = page.file.src_uri
    here = "" if place in FROM_THE_TOP else DOCS

    def bent(link: re.Match[str]) -> str:
        target = normpath(join(here, dirname(place), link["path"]))
        shown = target if target in FROM_THE_TOP else target.removeprefix(f"{DOCS}/")
        return relpath(shown, dirname(place) or ".")

    return _LINK.sub(bent, markdown)
