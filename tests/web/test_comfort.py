"""Comfort of playing: values are picked, lists keep their place, policies open beside the ticket, mistakes show in place."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from companyos.company import ALL_TOOLS
from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.web.episode.forms import refused_argument
from tests.evaluate.reports import Tags
from tests.web.browser import Visit, browsing
from tests.web.page_checks import check_clean, check_looks
from tests.web.site import RunningSite

TASK = make("vendor_onboarding", seed=2, chaos=0.25)


@pytest.fixture(scope="module")
def played() -> list[Call]:
    """The calls of the expert up to the last but one."""
    run_expert(TASK)
    return [turn.call for turn in TASK.turns[:-1]]


@pytest.fixture
def office(site: RunningSite, played: list[Call]) -> Iterator[str]:
    """The address of a session in which the expert has worked for a while."""
    agent = site.agent(TASK.task_id)
    agent.make(played)
    yield f"{site.url}/office/{agent.session_id}"
    agent.close()


def ticket_id() -> str:
    return TASK.setting.case.ticket_id


def step_of(calls: list[Call], method: str) -> int:
    """Return the first step that used a tool."""
    return next(number for number, call in enumerate(calls, 1) if call.method == method)


# -- picking values ----------------------------------------------------------------------------------------------------


def test_a_click_fills_in_a_known_reference(site: RunningSite, office: str) -> None:
    with browsing() as seen:
        seen.page.goto(f"{office}/form/datahub.search_register")
        chip = seen.page.locator("main .chip", has_text=re.compile(r"^TAX-\d+$")).first
        chip.click()
        assert seen.page.locator("[name=query]").input_value() == chip.inner_text()
        seen.page.get_by_role("button", name="Search", exact=True).click()
        seen.page.get_by_role("heading", name="Search register").wait_for()
        check_clean(seen, site)


def test_a_reference_is_searched_for_with_one_click(site: RunningSite, office: str) -> None:
    with browsing(scripts=False) as seen:
        seen.page.goto(f"{office}/1")
        seen.page.get_by_role("button", name="search the register").click()
        assert seen.page.locator(".crumbs code").inner_text().startswith("search_register TAX-")


def test_only_what_the_player_was_told_is_offered(office: str, played: list[Call]) -> None:
    told = TASK.scene.brief + "".join(str(turn.reply.data) for turn in TASK.turns[: len(played)])
    offered: set[str] = set()
    for tool in ALL_TOOLS:
        page = httpx.get(f"{office}/form/{tool.name}")
        if page.status_code == 200:
            offered |= set(re.findall(r'class="chip" data-fill="[^"]*">([^<]*)<', page.text))
            for name in ("known-records", "known-values"):
                [known] = re.findall(rf'<datalist id="{name}">(.*?)</datalist>', page.text, re.S)
                offered |= set(re.findall(r'<option value="([^"]*)">', known))
    assert len(offered) > 20
    assert {value for value in offered if value.strip("&#34;") not in told} == set()


# -- lists -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [True, False])
def test_a_list_keeps_its_place_and_its_filters(site: RunningSite, scripts: bool) -> None:
    agent = site.agent(TASK.task_id)
    agent.make([Call("ticketdesk", "list_tickets", {"status": "open", "page": 1})])
    with browsing(height=500, scripts=scripts) as seen:
        seen.page.goto(f"{site.url}/office/{agent.session_id}/1")
        row = seen.page.locator("tbody tr").last
        opened = row.locator("button").first.inner_text()
        row.locator("button").first.click()
        seen.page.get_by_role("link", name="Back to Tickets, step 1").click()
        target = seen.page.locator("tr:target")
        assert target.locator("button").first.inner_text() == opened
        box = target.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 500
        assert seen.page.locator("[name=status]").input_value() == "open"
    agent.close()


# -- policies beside the ticket ----------------------------------------------------------------------------------------


def test_a_policy_is_read_beside_the_ticket(site: RunningSite, office: str, played: list[Call]) -> None:
    step = step_of(played, "read_policy")
    for width, beside in ((1280, True), (390, False)):
        with browsing(width) as seen:
            seen.page.goto(f"{office}/{step}")
            policy, ticket = (seen.page.locator("article.sheet").nth(number).bounding_box() for number in (0, 1))
            assert policy is not None
            assert ticket is not None
            assert (ticket["x"] >= policy["x"] + policy["width"]) == beside
            assert ticket_id() in seen.page.locator("aside").inner_text()
            check_clean(seen, site)


def test_the_policies_that_were_read_open_beside_the_ticket(office: str, played: list[Call]) -> None:
    read = {call.params["policy_id"] for call in played if call.method == "read_policy"}
    with browsing() as seen:
        for page in ("1", f"form/ticketdesk.resolve_ticket?ticket_id={ticket_id()}"):
            seen.page.goto(f"{office}/{page}")
            policies = seen.page.locator(".policies details")
            assert {text.split()[0] for text in policies.locator("summary").all_inner_texts()} == read
            policies.last.locator("summary").click()
            assert "The first that applies decides" in policies.last.inner_text()


def test_before_a_policy_was_read_none_is_shown(site: RunningSite) -> None:
    agent = site.agent(TASK.task_id)
    agent.make([Call("ticketdesk", "get_ticket", {"ticket_id": ticket_id()})])
    page = Tags(httpx.get(f"{site.url}/office/{agent.session_id}/1").text)
    assert "Policies you have read" not in page.text
    agent.close()


# -- mistakes in forms -------------------------------------------------------------------------------------------------


def post(office: str, **form: str) -> httpx.Response:
    session = httpx.get(office, follow_redirects=True).url.path
    return httpx.post(f"{office}/call", data={"_turn": str(int(session.rpartition("/")[2]) + 1)} | form)


def test_a_field_that_cannot_be_read_is_marked_and_everything_typed_is_kept(site: RunningSite, office: str) -> None:
    with browsing() as seen:
        seen.page.goto(f"{office}/form/ticketdesk.wait")
        seen.page.locator("[name=hours]").evaluate("field => { field.type = 'text'; field.value = 'a day'; }")
        seen.page.locator("form.call > button").click()
        seen.page.locator("[aria-invalid=true]").wait_for()
        field = seen.page.locator("[name=hours]")
        assert "Hours is a whole number, not 'a day'" in _message_of(seen, field)
        assert field.input_value() == "a day"
        assert field.evaluate("field => field === document.activeElement")
        check_looks(seen, 1280)


def _message_of(seen: Visit, field: Any) -> str:
    return str(seen.page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text())


def test_an_unreadable_form_makes_no_step_and_keeps_every_field(site: RunningSite, office: str) -> None:
    steps = site.session(office).env.step_count
    typed = {"_tool": "ticketdesk.resolve_ticket", "ticket_id": "T-77", "resolution": "declined", "note": "because"}
    reply = post(
        office, **typed, evidence="{", **{"evidence:record": "E-1", "evidence:field": "owner", "evidence:value": "x"}
    )
    assert reply.status_code == 422
    for shown in ('value="T-77"', '<option selected value="declined">', "because", "Evidence: "):
        assert shown in reply.text
    assert site.session(office).env.step_count == steps


def test_a_refused_call_is_shown_at_the_argument_that_it_is_about(office: str) -> None:
    reply = post(
        office, _tool="ticketdesk.comment", ticket_id="T-1", text="hello", **{"facts:name": "sum", "facts:value": "9"}
    )
    page = httpx.get(office, follow_redirects=True).text
    assert reply.status_code == 303
    [marked] = re.findall(r'name="(\w+)" aria-invalid="true" aria-describedby="([^"]+)"', page)
    assert marked[0] == "ticket_id"
    assert re.search(rf'<p class="wrong" id="{marked[1]}">[^<]*T-1', page)
    assert 'name="facts:name" value="sum"' in page
    assert 'name="facts:value" value="9"' in page


def test_facts_that_were_typed_are_kept_when_the_call_is_refused(office: str) -> None:
    typed = {"evidence:record": "E-4242", "evidence:field": "owner", "evidence:value": "nobody"}
    closing = {"ticket_id": "T-1", "resolution": "declined", "reason": "not_due"}
    post(office, _tool="ticketdesk.resolve_ticket", **closing, **typed)
    page = httpx.get(office, follow_redirects=True).text
    for name, value in typed.items():
        assert f'name="{name}" value="{value}"' in page


def test_a_line_that_is_no_call_stays_in_its_field(site: RunningSite, office: str) -> None:
    with browsing() as seen:
        seen.page.goto(f"{office}/0")
        seen.page.locator("#line").fill("dance T-1")
        seen.page.keyboard.press("Enter")
        seen.page.locator("#line[aria-invalid=true]").wait_for()
        assert seen.page.locator("#line").input_value() == "dance T-1"
        assert "There is no tool" in seen.page.locator("#line-wrong").inner_text()


def test_a_wrong_seed_is_marked_in_the_form_of_a_task(site: RunningSite) -> None:
    reply = httpx.post(f"{site.url}/play", data={"family": "data_deletion", "seed": "-5", "chaos": "0.75"})
    assert reply.status_code == 422
    assert re.search(r'value="-5" required aria-invalid="true"', reply.text)
    assert 'value="data_deletion" checked' in reply.text
    assert 'value="0.75" checked' in reply.text


@pytest.mark.parametrize(
    ("params", "message", "argument"),
    [
        ({"hours": 0}, "ticketdesk.wait: Expected `int` >= 1 - at `$.hours`", "hours"),
        ({"ticket_id": "T-1", "text": "T"}, "there is no ticket T-1", "ticket_id"),
        ({"ticket_id": "T-12", "text": "x"}, "nobody may comment on T-123", ""),
        ({"ticket_id": "T-1", "to": "@a.b"}, "`to` names nobody", "to"),
        ({}, "the episode is over", ""),
    ],
)
def test_a_refusal_belongs_to_the_argument_that_its_message_names(params: Any, message: str, argument: str) -> None:
    assert refused_argument(ALL_TOOLS.tools["ticketdesk", "comment"], params, message) == argument


# -- the keyboard ------------------------------------------------------------------------------------------------------


def tab_to(seen: Visit, text: str) -> None:
    """Press Tab until the focus is on the control with this text or name."""
    label = "(it => it.labels?.[0]?.innerText || it.innerText || it.ariaLabel)(document.activeElement)"
    for _ in range(200):
        seen.page.keyboard.press("Tab")
        if str(seen.page.evaluate(label) or "").startswith(text):
            return
    raise AssertionError(f"the keyboard does not reach {text!r}")


def test_the_keyboard_alone_leads_from_the_front_page_to_the_verdict(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(site.url)
        tab_to(seen, "Play a first task")
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name="What you were asked to do").wait_for()
        tab_to(seen, "T-")
        seen.page.keyboard.press("Enter")
        seen.page.locator("aside", has_text="Resolve ticket").wait_for()
        tab_to(seen, "Resolve ticket")
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name="Resolve ticket").wait_for()
        for field, choice in (("Resolution", "declined"), ("Reason", "not_due")):
            tab_to(seen, field)
            seen.page.keyboard.press("Enter")
            seen.page.keyboard.type(choice)
            seen.page.keyboard.press("Enter")
        tab_to(seen, "Resolve ticket")
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name="Failure").wait_for()
        assert "You closed it as declined, not due" in seen.page.locator("main").inner_text()
        check_clean(seen, site)
