"""The office in a browser: the expert works by clicking, and no click makes two steps."""

import httpx
import pytest

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env import make, par, run_expert
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, family
from companyos.web.screen.driver import OfficeDriver
from tests.serve.servers import body_of, good
from tests.web.browser import Visit, browsing
from tests.web.page_checks import check_clean, look_at
from tests.web.site import RunningSite, served

SEED, CHAOS = 7, 0.5


@pytest.mark.parametrize("name", FAMILIES)
def test_an_expert_solves_a_task_of_every_family_through_the_pages(site: RunningSite, name: str) -> None:
    """The same company in this process must have the same digest after every click."""
    env = make(name, seed=SEED, chaos=CHAOS)
    program = family(name).expert(EpisodeSoFar(env.scene.brief, env.reset().now), ExpertStyle())
    with browsing() as seen:
        driver = OfficeDriver(seen.page)
        driver.begin(site.url, name, SEED, CHAOS)
        call = next(program)
        while not env.done:
            said = driver.perform(call)
            env.step(said)
            there = site.session(seen.page.url).env
            assert (there.turns[-1].call, there.digest()) == (said, env.digest())
            if not env.done:
                call = program.send(env.turns[-1].reply)
        seen.page.get_by_role("heading", name="Success").wait_for()
        assert (
            f"expert: {par(TaskId.parse(env.task_id))}, budget: {env.max_steps}"
            in seen.page.locator(".numbers").inner_text()
        )
        check_clean(seen, site)


# -- clicks ------------------------------------------------------------------------------------------------------------


def begun(seen: Visit, site: RunningSite, family: str = "vendor_onboarding", chaos: float = 0.0) -> OfficeDriver:
    driver = OfficeDriver(seen.page)
    driver.begin(site.url, family, SEED, chaos)
    seen.page.wait_for_load_state()  # a script handles the keys
    return driver


def steps(seen: Visit, site: RunningSite) -> int:
    return site.session(seen.page.url).env.step_count


def test_a_newcomer_plays_within_two_clicks(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(site.url)
        seen.page.get_by_role("button", name="Play a first task").click()
        seen.page.locator("blockquote button").first.click()
        seen.page.wait_for_load_state()
        assert steps(seen, site) == 1
        assert seen.page.get_by_role("heading", level=1).inner_text().startswith("Onboard ")
        check_clean(seen, site)


def test_each_newcomer_gets_a_first_task_whose_verdict_no_other_session_withholds() -> None:
    """Nobody finishes the first sessions, so a second session of their task would have no verdict."""
    with served() as site, httpx.Client(base_url=site.url) as guest:
        places = [guest.post("/play/first").headers["location"].removesuffix("/0") for _ in range(3)]
        sessions = [site.session(f"{place}/0") for place in places]
        assert [TaskId.parse(session.header.task_id).seed for session in sessions] == [7, 8, 9]
        ticket, session_id = sessions[-1].env.setting.case.ticket_id, sessions[-1].header.session_id
        closing = {"ticket_id": ticket, "resolution": "declined", "reason": "not_due", "evidence": []}
        good(guest.post("/step", json=body_of(session_id, Call("ticketdesk", "resolve_ticket", closing))))
        assert "You closed it as declined, not due" in guest.get(f"{places[-1]}/verdict").text
        again = guest.post("/play/first").headers["location"]
        assert TaskId.parse(site.session(again).header.task_id).seed == 9  # it is free again


def test_reload_back_and_double_click_make_no_second_step(site: RunningSite) -> None:
    with browsing() as seen:
        begun(seen, site)
        seen.page.get_by_role("button", name="Tickets", exact=True).first.dblclick()
        seen.page.get_by_role("heading", name="Tickets").wait_for()
        assert steps(seen, site) == 1
        seen.page.reload()
        assert steps(seen, site) == 1
        seen.page.get_by_role("button", name="Metrics", exact=True).first.click()
        seen.page.get_by_role("heading", name="Metrics").wait_for()
        seen.page.go_back()
        seen.page.get_by_text("You are looking back").wait_for()
        seen.page.go_forward()
        assert steps(seen, site) == 2
        seen.page.go_back()
        seen.page.get_by_role("button", name="Inbox", exact=True).first.click()
        seen.page.get_by_role("heading", name="Inbox").wait_for()
        assert steps(seen, site) == 3, "a page that one goes back to carries the turn that is due"
        check_clean(seen, site)


def test_a_second_tab_learns_that_its_turn_was_used(site: RunningSite) -> None:
    with browsing() as seen:
        begun(seen, site)
        other = seen.page.context.new_page()
        other.goto(seen.page.url)
        seen.page.get_by_role("button", name="Tickets", exact=True).first.click()
        seen.page.get_by_role("heading", name="Tickets").wait_for()
        other.get_by_role("button", name="Metrics", exact=True).first.click()
        other.get_by_role("heading", name="Nothing was done").wait_for()
        assert steps(seen, site) == 1
        other.get_by_role("button", name="Do it as step 2").click()
        other.get_by_role("heading", name="Metrics").wait_for()
        assert steps(seen, site) == 2


def test_the_office_works_without_javascript(site: RunningSite) -> None:
    env = make("handbook_update", seed=SEED)
    program = family("handbook_update").expert(EpisodeSoFar(env.scene.brief, env.reset().now), ExpertStyle())
    with browsing(scripts=False) as seen:
        driver = begun(seen, site, "handbook_update")
        call = next(program)
        while not env.done:
            env.step(driver.perform(call))
            if not env.done:
                call = program.send(env.turns[-1].reply)
        assert site.session(seen.page.url).env.digest() == env.digest()
        seen.page.get_by_role("heading", name="Success").wait_for()


def test_keyboard_shortcuts_work_and_are_listed(site: RunningSite) -> None:
    with browsing() as seen:
        begun(seen, site)
        seen.page.keyboard.press("?")
        listed = seen.page.get_by_role("dialog").inner_text().split("\n")
        assert listed[listed.index("i, Enter") + 1] == "Read your inbox"
        assert listed[listed.index("/") + 1] == "Type a call"
        seen.page.keyboard.press("Escape")
        seen.page.keyboard.press("i")
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name="Inbox").wait_for()
        seen.page.get_by_role("button", name="Tickets", exact=True).first.click()
        seen.page.get_by_role("heading", name="Tickets").wait_for()
        seen.page.wait_for_load_state()
        seen.page.keyboard.press("j")
        seen.page.keyboard.press("j")
        second = seen.page.locator("tbody tr").nth(1).locator("button").first.inner_text()
        seen.page.keyboard.press("Enter")
        seen.page.locator(".crumbs code", has_text=second).wait_for()
        seen.page.wait_for_load_state()
        seen.page.keyboard.press("[")
        seen.page.get_by_role("heading", name="Tickets").wait_for()
        seen.page.locator("select").first.press("i")
        assert steps(seen, site) == 3, "who is in a field is typing"
        check_clean(seen, site)


def test_no_single_key_makes_a_step(site: RunningSite) -> None:
    with browsing() as seen:
        begun(seen, site)
        seen.page.get_by_role("button", name="Tickets", exact=True).first.click()
        seen.page.get_by_role("heading", name="Tickets").wait_for()
        office = seen.page.url.rpartition("/")[0]
        for page in ("1", "steps"):
            seen.page.goto(f"{office}/{page}")
            keys = seen.page.eval_on_selector_all("[data-key]", "controls => controls.map(one => one.dataset.key)")
            assert {"i", "/", "s"} <= set(keys)
            for key in ("j", "k", *keys):
                seen.page.goto(f"{office}/{page}")
                seen.page.keyboard.press(key)
                seen.page.wait_for_load_state("networkidle")
        seen.page.goto(f"{office}/1")
        seen.page.keyboard.press("i")
        assert seen.page.evaluate("document.activeElement.value") == "read_inbox"
        assert steps(seen, site) == 1


def test_a_call_can_be_typed_as_a_line_on_every_page(site: RunningSite) -> None:
    with browsing() as seen:
        begun(seen, site)
        office = seen.page.url.rpartition("/")[0]
        for made, page in enumerate(("0", "1", "steps", "form/ticketdesk.comment")):
            seen.page.goto(f"{office}/{page}")
            seen.page.keyboard.press("/")
            seen.page.keyboard.type("search_policies vendor")
            assert in_window(seen, "#line")
            seen.page.keyboard.press("Enter")
            seen.page.get_by_role("heading", name="Search policies").wait_for()
            seen.page.wait_for_load_state()
            assert steps(seen, site) == made + 1


@pytest.mark.parametrize("scripts", [True, False])
def test_why_a_typed_call_is_invalid_is_shown_without_scrolling(site: RunningSite, scripts: bool) -> None:
    with browsing(1280, 800, scripts=scripts) as seen:
        begun(seen, site)
        office = seen.page.url.rpartition("/")[0]
        seen.page.get_by_role("button", name="Tickets", exact=True).first.click()
        for page in ("0", "1"):
            seen.page.goto(f"{office}/{page}")
            seen.page.locator("#line").fill("dance T-1")
            seen.page.locator("#line").press("Enter")
            seen.page.locator("#line-wrong", has_text="There is no tool").wait_for()
            assert in_window(seen, "#line-wrong")
            assert in_window(seen, "#line")
            assert steps(seen, site) == 1


def in_window(seen: Visit, selector: str) -> bool:
    """Return whether an element is in the part of the page that the window shows."""
    top, bottom, height = seen.page.locator(selector).evaluate(
        "element => [element.getBoundingClientRect().top, element.getBoundingClientRect().bottom, innerHeight]"
    )
    return bool(0 <= top < bottom <= height)


# -- appearance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_every_screen_and_is_accessible(site: RunningSite, width: int, scheme: str) -> None:
    """Checked with axe, on one page of each kind."""
    env = make("expense_report", seed=8, chaos=0.5)
    run_expert(env)
    session = site.begin(env.task_id)
    session.play(turn.call for turn in env.turns[:-1])
    sorts = {(turn.call.method, turn.reply.code): number for number, turn in enumerate(env.turns[:-1], 1)}
    place = f"/office/{session.header.session_id}"
    forms = ("ticketdesk.resolve_ticket", "approvalflow.submit_approval?approval_type=expense_report", "ticketdesk.comment")
    pages = ["/", "/play", "/play/nothing", "/sign-in", f"{place}/steps", f"{place}/0"]
    pages += [f"{place}/{number}" for number in sorts.values()] + [f"{place}/form/{form}" for form in forms]
    with browsing(width, 844, scheme) as seen:
        for page in pages:
            look_at(seen, f"{site.url}{page}", width)
        session.play([env.turns[-1].call])
        look_at(seen, f"{site.url}{place}/verdict", width)
