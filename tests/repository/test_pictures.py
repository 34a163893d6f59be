"""Pictures: what docs/images shows of episodes is what happened in them."""

from html import escape
from xml.etree import ElementTree

import pytest

from companyos.env import make, run_expert
from companyos.env.line_syntax import write_line
from tools.pictures import EPISODE, FOLDER, PICTURES, WIDTH


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_up_to_date(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text() == PICTURES[name](), "run `make reference`"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_one_that_asks_for_nothing_and_says_what_it_shows(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name]())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("title")
    assert root[0].text
    for element in root.iter():
        assert not any("href" in attribute for attribute in element.attrib)
        assert 0 <= float(element.get("x", 0)) <= WIDTH


def test_the_timeline_has_every_call_of_its_episode() -> None:
    env = make(EPISODE)
    run_expert(env)
    shown = PICTURES["timeline"]()
    assert shown.count("<circle") == 3 + env.step_count  # and one for each app
    assert all(escape(write_line(turn.call)[:40]) in shown for turn in env.turns)
