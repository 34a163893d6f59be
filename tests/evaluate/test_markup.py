"""Markup: whatever somebody wrote stays a text."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from companyos.evaluate.reports.markup import Markup, data_block, joined, tag
from companyos.evaluate.stats.headline import plain
from tests.evaluate.reports import HOSTILE, Tags
from tests.helpers import STEADY

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.sampled_from(
    [HOSTILE, "&lt;", "<!--", "]]>", "&amp;amp;"]
)


@STEADY
@given(TEXTS, TEXTS)
def test_any_text_comes_out_as_it_went_in_and_makes_no_tag(inside: str, attribute: str) -> None:
    seen = Tags(tag("p", inside, title=attribute))
    assert seen.text == inside
    assert seen.tags == [("p", {"title": attribute})]


@STEADY
@given(st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)))
def test_data_comes_out_as_it_went_in_and_cannot_end_its_element(data: object) -> None:
    block = data_block("data", data)
    seen = Tags(block)
    assert msgspec.json.decode(seen.text) == data
    assert len(seen.tags) == 1
    assert block.count("<") == 2


@STEADY
@given(TEXTS)
def test_any_text_fits_into_one_cell_of_a_markdown_table(text: str) -> None:
    cell = plain(text)
    assert "|" not in cell
    assert "\n" not in cell
    assert "<" not in cell


def test_signs_that_no_page_may_hold_are_replaced() -> None:
    assert tag("p", "a\x00b\x1bc\ud800d") == "<p>a\ufffdb\ufffdc\ufffdd</p>"


def test_pieces_are_joined_and_attributes_may_be_left_out() -> None:
    assert joined(["<", None, Markup("<hr>"), ["&"]]) == "&lt;<hr>&amp;"
    assert tag("a", href="#x", title=None, class_="y", hidden=True, open=False) == '<a href="#x" class="y" hidden></a>'
    assert tag("wbr") == "<wbr>"
