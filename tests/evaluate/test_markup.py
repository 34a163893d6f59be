"""Templates of the report: every text stays a text, whatever it contains."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from companyos.evaluate.reports.markup import jinja_environment, script_json
from companyos.evaluate.stats.headline import escape_cell
from tests.evaluate.reports import HOSTILE, Tags
from tests.helpers import STEADY

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.sampled_from(
    [HOSTILE, "&lt;", "<!--", "]]>", "&amp;amp;"]
)


def rendered(inside: str, attribute: str = "") -> str:
    template = jinja_environment().from_string('<p title="{{ attribute }}">{{ inside }}</p>')
    return template.render(inside=inside, attribute=attribute)


@STEADY
@given(TEXTS, TEXTS)
def test_any_text_comes_out_as_it_went_in_and_makes_no_tag(inside: str, attribute: str) -> None:
    seen = Tags(rendered(inside, attribute))
    assert seen.text == inside
    assert seen.tags == [("p", {"title": attribute})]


@STEADY
@given(st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)))
def test_data_comes_out_as_it_went_in_and_cannot_end_its_element(data: object) -> None:
    block = jinja_environment().from_string("<script>{{ data|script_json }}</script>").render(data=data)
    assert msgspec.json.decode(Tags(block).text) == data
    assert not {"<", ">", "&"} & set(script_json(data))


@STEADY
@given(TEXTS)
def test_any_text_fits_into_one_cell_of_a_markdown_table(text: str) -> None:
    cell = escape_cell(text)
    assert "|" not in cell
    assert "\n" not in cell
    assert "<" not in cell


def test_characters_that_no_page_may_contain_are_replaced() -> None:
    assert rendered("a\x00b\x1bc\ud800d") == '<p title="">a\ufffdb\ufffdc\ufffdd</p>'
