"""Family pages: what docs/families says is what the families are."""

import pytest

from companyos.families import FAMILIES
from tools.families import FOLDER, index, page


@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text() == page(name), "run `make pages`"


def test_the_page_before_them_is_up_to_date() -> None:
    assert (FOLDER / "README.md").read_text() == index(), "run `make pages`"


def test_there_is_a_page_for_each_family_and_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*FAMILIES, "README"}
