"""Blocks: the code that our pages show, and how each is held to what is so.

A fence names its language, and one of Python or shell is run as it stands, in a folder that it shares with the rest of its
page. Its title may say otherwise: why it cannot be run here (`NEEDS`), that it is a file for the blocks after it
(`title="my_company.py"`), or from which file of ours it is quoted (`title="tests/laws/pool_car.py"`). The site shows titles
above the code, GitHub leaves them out.
"""

import re
import shlex
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
CODE = ("python", "sh")
OTHERS = ("text", "toml", "json", "yaml")

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
