"""Hostile text in a record, a message or a call is shown as text, in every field and on every page."""

from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from msgspec.structs import replace

from companyos.core.calls import Call, Reply
from companyos.core.episode import Turn
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import FAMILIES
from tests.evaluate.reports import HOSTILE, Tags
from tests.web.browser import browsing
from tests.web.site import RunningSite

BREAKOUTS = (
    HOSTILE,
    "\"'><svg onload=alert(1)>",
    "</textarea></title></button><iframe src=//example.invalid>",
    "{{ 7 * 7 }} {% raw %} \x0b\x00",
)


def spoiled(value: Any, text: str) -> Any:
    """Replace every text in the data by this text, and add a field of this name."""
    if isinstance(value, dict):
        kept = {name: spoiled(item, text) for name, item in value.items()}
        return kept | ({f"{text}{len(value)}": text} if value else {})
    if isinstance(value, list | tuple):
        return [spoiled(item, text) for item in value]
    return text if isinstance(value, str) else value


def played(name: str) -> CompanyEnv:
    env = make(name, seed=3, chaos=1.0)
    run_expert(env)
    return env


def one_of_each(turns: list[Turn]) -> list[Turn]:
    """Keep only the first of the turns whose replies have the same shape."""
    shapes = {(turn.call.tool, turn.reply.code, str(sorted(turn.reply.data or ()))): turn for turn in reversed(turns)}
    return list(shapes.values())


@pytest.mark.parametrize("text", BREAKOUTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_text_of_a_reply_or_a_call_becomes_a_part_of_a_page(site: RunningSite, name: str, text: str) -> None:
    env, session = played(name), site.begin(f"{name}-v{BENCHMARK_VERSION}-train-3-100")
    session.env.turns = [
        replace(
            turn,
            call=Call(turn.call.app, turn.call.method, spoiled(turn.call.params, text)),
            reply=Reply(turn.reply.ok, turn.reply.code, spoiled(turn.reply.data, text), text),
        )
        for turn in one_of_each(env.turns)
    ]
    place, pages = f"/office/{session.header.session_id}", ["steps"]
    pages += [str(number) for number in range(1, len(session.env.turns) + 1)]
    pages += [f"form/{tool.name}?{urlencode(dict.fromkeys(tool.hints, text))}" for tool in session.env.toolbox]
    told = 0
    with httpx.Client(base_url=site.url) as guest:
        for page in pages:
            reply = guest.get(f"{place}/{page}")
            assert reply.status_code == 200, page
            seen = Tags(reply.text)
            assert [seen.count(tag) for tag in ("script", "img", "iframe")] == [1, 1, 0], page
            assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
            told += text[:12] in seen.text or text in [value for _, attributes in seen.tags for value in attributes.values()]
        assert told > len(pages) / 2, "and yet it is shown"


ODD: tuple[Any, ...] = (
    5,
    None,
    True,
    "x",
    [5],
    [None],
    {"a": 1},
    [[]],
    1e300,
    [{"record": ["a"], "field": {}, "value": [1]}],
)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_arguments_of_any_shape_are_shown_on_every_page(site: RunningSite, odd: Any) -> None:
    task, calls = f"vendor_onboarding-v{BENCHMARK_VERSION}-train-7-0", 0
    for tool in site.begin(task).env.toolbox:
        agent = site.agent(task)
        agent.make([Call(tool.app, tool.method, dict.fromkeys(tool.hints, odd))])
        for page in (f"/office/{agent.session_id}/1", f"/office/{agent.session_id}/steps", f"/watch/{agent.code}"):
            assert httpx.get(f"{site.url}{page}").status_code == 200, (tool.name, page)
            calls += 1
        agent.close()
    assert calls > 30


def test_hostile_text_does_not_run_in_a_browser(site: RunningSite) -> None:
    """The text is written by real calls, read back and cited, on every page of the episode."""
    session = site.begin(f"vendor_onboarding-v{BENCHMARK_VERSION}-train-7-0")
    ticket = session.env.setting.case.ticket_id
    calls = [
        Call("ticketdesk", "comment", {"ticket_id": ticket, "text": HOSTILE, "facts": {"fact": HOSTILE[:80]}}),
        Call("ticketdesk", "get_history", {"ticket_id": ticket}),
        Call("ticketdesk", "search_tickets", {"query": HOSTILE[:80]}),
        Call("ticketdesk", "get_ticket", {"ticket_id": HOSTILE}),
        Call("ticketdesk", HOSTILE, {HOSTILE: HOSTILE}),
        Call("ticketdesk", "update_ticket", {"ticket_id": ticket, "field": "priority", "value": HOSTILE[:80]}),
    ]
    session.play(calls)
    place = f"{site.url}/office/{session.header.session_id}"
    with browsing() as seen:
        for page in (*range(len(calls) + 1), "steps", f"form/ticketdesk.resolve_ticket?ticket_id={ticket}"):
            seen.page.goto(f"{place}/{page}")
            assert seen.page.title() != "lost"
            assert seen.page.locator("img").count() == 1
        assert seen.errors == []
        closing = {"resolution": "declined", "reason": "not_due", "evidence": [], "note": HOSTILE}
        session.play([Call("ticketdesk", "resolve_ticket", {"ticket_id": ticket, **closing})])
        seen.page.goto(f"{place}/verdict")
        assert seen.page.get_by_role("heading", name="Failure").is_visible()
        assert seen.page.title() == "Failure · CompanyOS"
        assert {address for address in seen.requests if not address.startswith(f"{site.url}/")} == set()
