"""docs/rules.md: its table has an example of every piece, and each example says that piece."""

import re

import pytest

from companyos.rules.pieces import PIECES
from tests.blocks import ROOT
from tests.rules.visitor_badges import LANGUAGE

PAGE = (ROOT / "docs" / "rules.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_the_page_has_an_example_of_every_piece() -> None:
    assert sorted(name for name, _ in ROWS) == sorted(kind.__name__ for kind in PIECES)


@pytest.mark.parametrize(("name", "sentence"), ROWS, ids=[name for name, _ in ROWS])
def test_an_example_says_its_piece(name: str, sentence: str) -> None:
    assert type(LANGUAGE.parse(sentence)).__name__ == name
