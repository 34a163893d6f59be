"""YAML: a rulebook survives it, and a mistake is reported with its line."""

import subprocess
import sys
from types import ModuleType

import pytest
from hypothesis import given, settings

from companyos.rules import BadRulebook, Evidence, Limit, check_book, from_yaml, lines_of, to_yaml
from tests.rules import visitor_badges
from tests.rules.helpers import desks, drawn, seeds

SMALL = """
rules:
- rule: limit
  limit: most_badges
  number: 3
- rule: unless
  check: host
  when: [days at_most 2, brief_visit is true]
"""


@given(desks, seeds)
@settings(max_examples=40, deadline=None)
def test_a_drawn_book_survives_yaml(desk: ModuleType, seed: int) -> None:
    book = drawn(desk, seed).book
    text = to_yaml(book)
    again, where = from_yaml(text)
    assert again == book
    lines = text.splitlines()
    assert all(lines[where[piece] - 1].startswith("- ") for piece in book.pieces)


def test_a_comparison_is_one_text() -> None:
    book, where = from_yaml(SMALL)
    assert to_yaml(book).strip() == SMALL.replace("- rule: limit", "- {rule: limit").strip().replace(
        "- {rule: limit\n  limit: most_badges\n  number: 3", "- {rule: limit, limit: most_badges, number: 3}"
    )
    assert where[Limit("most_badges", 3)] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a rulebook has the key `rules`"),
        ("rules: 3", "line 1: expected a list of rules"),
        ("rules:\n- rule: limt", "line 2: Invalid value 'limt'"),
        ("rules:\n- {rule: limit, limit: x, number: many}", "line 2: Expected `int`, got `str`"),
        ("rules:\n- {rule: unless, check: x, when: [amount over 3]}", "line 2: 'amount over 3' is not a condition"),
        ("rules:\n- {rule: limit", "line 2"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(BadRulebook) as error:
        from_yaml(text)
    assert message in str(error.value)


def test_flaws_name_the_line() -> None:
    text = to_yaml(drawn(visitor_badges, 1).book).replace("facts: [open_badges]", "facts: [open_bages]")
    book, where = from_yaml(text)
    lines = lines_of(check_book(book, visitor_badges.LANGUAGE, visitor_badges.DOMAINS), visitor_badges.LANGUAGE, where)
    at = where[Evidence("host", ("open_bages",))]
    assert [line for line in lines if line.startswith(f"line {at}: unknown citation open_bages")]


def test_rules_can_be_imported_without_yaml() -> None:
    code = "import sys; import companyos.rules; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
