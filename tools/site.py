"""MkDocs hooks that add the pages at the top of the repository to the documentation site.

Links in the files are relative to the repository. The hooks rewrite them for the site. Broken links stay broken, and MkDocs
reports them.
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
    """Add the pages at the top of the repository to those of docs/."""
    for name in FROM_THE_TOP:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links of a page between docs/ and the top of the repository."""
    place = page.file.src_uri
    here = "" if place in FROM_THE_TOP else DOCS

    def rewritten(link: re.Match[str]) -> str:
        target = normpath(join(here, dirname(place), link["path"]))
        shown = target if target in FROM_THE_TOP else target.removeprefix(f"{DOCS}/")
        return relpath(shown, dirname(place) or ".")

    return _LINK.sub(rewritten, markdown)
