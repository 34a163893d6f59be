"""The code blocks of our pages, and how the tests check each of them.

The fence of a block names its language. `tests/docs` runs every block of Python or shell as it is shown; the blocks of one
page share a folder. A title changes that. It can be a reason why a plain machine cannot run the block (`NEEDS`), the name
of a file that later blocks of the page need (`title="my_company.py"`), or a file of the repository that the block quotes
(`title="tests/laws/pool_car.py"`). A `text` block with the title `OUTPUT` must equal what the block before it prints. The
site shows titles above the code; GitHub does not show them.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_TOP = (
    "README",
    "ARCHITECTURE",
    "CONTRIBUTING",
    "CHANGELOG",
    "ERRATA",
    "SECURITY",
    "CODE_OF_CONDUCT",
    "AGENTS",
    "space/README",
)
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / f"{name}.md" for name in _TOP)])
NEEDS = (
    "needs a GPU",
    "needs a hub",
    "needs the network",
    "needs a server",
    "needs an endpoint",
    "needs Docker",
    "needs PostgreSQL",
    "needs Ray",
    "needs TRL",
    "needs SkyRL",
    "needs Inspect",
    "needs verifiers",
    "needs NeMo Gym",
    "needs BrowserGym",
    "needs a checkout",
    "takes minutes",
    "stays until you end it",
)  # why a block is compiled and not run
OUTPUT = "output"
CODE = ("python", "sh")
OTHERS = ("text", "console", "toml", "json", "yaml")

_SECONDS = 300  # a block that runs longer is stopped
_FENCE = re.compile(r"^```(?P<info>.*)\n(?P<code>(?:.*\n)*?)```$", re.MULTILINE)
_INFO = re.compile(r'(?P<language>\w*)(?: title="(?P<title>[^"]*)")?')
_INLINE = re.compile(r"`(companyos [a-z][^`]*)`")
_PROGRAM = re.compile(r"(?:^|&&|\|\|?|;|\$\()\s*(?:[A-Z_]+=\S+ )*(companyos .*)")


class Block(NamedTuple):
    """A fence of a page: where it begins, what it is written in, what it says of itself, and its code."""

    page: str
    line: int
    language: str
    title: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in CODE and not self.title

    @property
    def is_file(self) -> bool:
        """Whether it is there for later blocks of its page, under a name that is none of the repository's."""
        return re.fullmatch(r"[\w/.-]+\.\w+", self.title) is not None and not self.is_quoted

    @property
    def is_quoted(self) -> bool:
        return "/" in self.title and (ROOT / self.title).is_file()


def blocks_of(page: Path) -> list[Block]:
    """Every fence of a page, in order."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    found = []
    for fence in _FENCE.finditer(text):
        info = _INFO.fullmatch(fence["info"])
        assert info, f"{name}: a fence says its language and at most a title, not {fence['info']!r}"
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(name, line, info["language"], info["title"] or "", fence["code"]))
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def run_block(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in a folder. `companyos` and `python` are those of the environment that runs this."""
    script = folder / f"block_{block.line}"
    script.write_text(block.code)
    program = [sys.executable] if block.language == "python" else ["bash", "-euo", "pipefail"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [*program, str(script)],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def words_of(page: Path) -> str:
    """A page without its fences."""
    return _FENCE.sub("", page.read_text())


def command_lines(shell: str) -> Iterator[list[str]]:
    """The command lines of ours in a piece of shell, each split into its words."""
    for line in shell.replace("\\\n", " ").splitlines():
        if program := _PROGRAM.search(line):
            words = shlex.split(program[1], comments=True)
            ends = [at for at, word in enumerate(words) if word in ("&", "&&", "|", ">", ";", "2>&1")]
            yield words[1 : min(ends, default=len(words))]


def inline_commands(page: Path) -> Iterator[str]:
    """The command lines of ours that stand within a sentence; they may leave out what does not matter there."""
    yield from _INLINE.findall(words_of(page))
