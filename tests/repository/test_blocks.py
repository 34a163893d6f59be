"""Code in our pages: none that is neither run nor marked, and what is marked is at least well-formed.

`tests/docs` runs the rest (`make test-docs`).
"""

import re
import subprocess
from pathlib import Path

import pytest

from companyos.cli.main import parser
from companyos.core.errors import Misuse
from tests.blocks import BLOCKS, CODE, NEEDS, OTHERS, PAGES, ROOT, Block, blocks_of, command_lines, inline_commands, words_of

PYTHON = [block for block in BLOCKS if block.language == "python" and not block.is_quoted]
SHELL = [block for block in BLOCKS if block.language == "sh"]
QUOTED = [block for block in BLOCKS if block.is_quoted]
PARSER = parser()
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_is_unmarked_and_unrun(page: Path) -> None:
    text = page.read_text()
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks_of(page)), (
        "a fence is not closed, or is indented"
    )
    assert not re.search(r"^\n {4}\S", words_of(page), re.MULTILINE), "code stands in a fence"
    for block in blocks_of(page):
        assert block.language in CODE + OTHERS, f"{block}: its fence names no language"
        assert block.runs or block.language in OTHERS or block.is_file or block.is_quoted or block.title in NEEDS, (
            f"{block}: its title is no file, and no reason of {NEEDS}"
        )


def test_every_reason_is_somebodys() -> None:
    assert {block.title for block in BLOCKS} >= set(NEEDS)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.code, str(block), "exec")


def test_shell_is_well_formed() -> None:
    for block in SHELL:
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{block}: {done.stderr}"


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_every_command_line_is_one(block: Block) -> None:
    for words in command_lines(block.code):
        assert complaint(words) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_so_is_every_one_within_a_sentence_as_far_as_it_goes(page: Path) -> None:
    for line in inline_commands(page):
        [words] = command_lines(line)
        assert not re.search(r"unrecognized|invalid choice", complaint(words)), line


def complaint(words: list[str]) -> str:
    """What the command line has to say against these words, if anything."""
    try:
        PARSER.parse_args(words)
    except Misuse as mistake:
        return str(mistake)
    except SystemExit:  # somebody asked for help
        pass
    return ""


def test_every_target_of_make_is_there() -> None:
    named = {target for page in PAGES for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert len(named) > 5
    for target in named:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"there is no `make {target}`"


@pytest.mark.parametrize("block", QUOTED, ids=str)
def test_what_is_quoted_stands_in_its_file(block: Block) -> None:
    whole = (ROOT / block.title).read_text()
    for part in re.split(r"^ *\.\.\.\n", block.code, flags=re.MULTILINE):
        assert part in whole, f"{block}: {part}"


def test_the_walk_through_of_a_family_is_quoted_from_one() -> None:
    assert [block.title for block in QUOTED if block.page == "CONTRIBUTING.md"].count("tests/laws/pool_car.py") >= 3
