"""A page shows every value of its reply, and charts are drawn from the reply."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from companyos.env import make, run_expert
from companyos.families import FAMILIES
from companyos.web import charts
from tests.evaluate.reports import Tags
from tests.web.site import RunningSite


def leaves(value: Any, name: str = "") -> Iterator[str]:
    """Yield every value of a reply as text, and the names of empty fields."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, name)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif value is not None and value != "":
        yield str(value)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_page_shows_every_value_that_its_reply_holds(site: RunningSite, name: str) -> None:
    env = make(name, seed=5, chaos=0.75)
    run_expert(env)
    session = site.begin(env.task_id)
    session.play(turn.call for turn in env.turns[:-1])
    with httpx.Client(base_url=site.url) as guest:
        for number, turn in enumerate(env.turns[:-1], 1):
            page = guest.get(f"/office/{session.header.session_id}/{number}").text
            text = " ".join(Tags(page[page.index("<main") :]).text.split())
            missing = [leaf for leaf in leaves(turn.reply.data) if " ".join(leaf.split()) not in text]
            assert missing == [], f"step {number}: {turn.call.tool}"
            assert turn.reply.ok or turn.reply.message in text


def test_a_metric_older_than_its_limit_is_marked_stale() -> None:
    assert 'class="stale"' in charts.freshness(9, 8)
    assert 'class="fresh"' in charts.freshness(8, 8)
    assert 'class="unknown"' in charts.freshness(300, None)
    assert "9 days old, counts up to 8" in charts.freshness(9, 8)


def test_readings_are_drawn_from_first_to_last() -> None:
    drawn = charts.readings([(3, 41), (9, 41), (12, 75)])
    assert drawn.count("<circle") == 3
    assert "41 at step 3, 41 at step 9, 75 at step 12" in drawn
    assert charts.readings([(3, 41), (4, 41)]).count("<circle") == 2


def test_a_calendar_marks_the_days_away_and_today() -> None:
    drawn = charts.calendar("Thu 2026-09-10 16:35", "2026-09-11 09:00", "2026-09-15 09:00")
    assert drawn.count("away") == 5, "from Friday to Tuesday"
    assert drawn.count("today") == 1
    assert "away" not in charts.calendar("Thu 2026-09-10 16:35", None, None).replace("days away", "")
