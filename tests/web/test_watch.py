"""Watching: calls appear live, hidden data only for admins, and the session is not disturbed."""

import re
import socket
import time
from html import unescape
from itertools import islice
from urllib.parse import urlsplit

import httpx
import pytest

from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.teacher import work_aloud
from companyos.web.episode.turn_recorder import hidden_causes
from companyos.web.pages import watch as watching
from tests.evaluate.reports import HOSTILE, Tags
from tests.helpers import task_id, ticket
from tests.serve.servers import ADMIN, AS_ADMIN, wait_for
from tests.web.browser import Visit, browsing
from tests.web.page_checks import check_clean, check_looks, look_at
from tests.web.site import RunningSite, served

TASK = task_id(8, "100")  # with all dials at their maximum


@pytest.fixture(scope="module")
def solved() -> CompanyEnv:
    env = make(TASK)
    run_expert(env)
    return env


def calls_of(env: CompanyEnv) -> list[Call]:
    return [turn.call for turn in env.turns]


def sign_in(seen: Visit, site: RunningSite) -> None:
    seen.page.context.add_cookies([{"name": "companyos_token", "value": ADMIN, "url": site.url}])


def last_step(seen: Visit) -> str:
    return str(seen.page.locator("#calls > li .number").first.inner_text())


# -- what the page shows -----------------------------------------------------------------------------------------------


def test_calls_appear_live_until_the_episode_ends(site: RunningSite, solved: CompanyEnv) -> None:
    agent, calls = site.agent(TASK), calls_of(solved)
    agent.make(calls[:3])
    with browsing() as seen:
        seen.page.goto(f"{site.url}/watch")
        seen.page.locator(f'a[href$="{agent.code}"]').click()
        seen.page.wait_for_load_state()
        assert seen.page.locator("#calls > li").count() == 3
        agent.make(calls[3:5])
        seen.page.locator('#calls > li[value="5"]').wait_for()
        assert seen.page.locator(".lamps .lit").inner_text().startswith("DataHub")
        assert "5 of" in seen.page.locator("#state").inner_text()
        agent.make(calls[5:])
        seen.page.get_by_text("Success. The episode is over").wait_for()
        assert seen.page.locator("#live").inner_text() == "Over"
        assert last_step(seen) == str(len(calls))
        assert "success" in seen.page.locator("#state").inner_text()
        seen.page.locator("#over a").click()
        seen.page.locator("#player").wait_for()
        seen.page.wait_for_load_state()
        assert seen.page.get_by_role("heading", name="Success").is_visible()
        check_clean(seen, site)


def test_hidden_data_is_for_admins(site: RunningSite, solved: CompanyEnv) -> None:
    agent, calls = site.agent(TASK), calls_of(solved)
    agent.make(calls[:18])
    with browsing() as seen:
        sign_in(seen, site)
        seen.page.goto(agent.place)
        agent.make(calls[18:20])
        seen.page.locator('#calls > li[value="20"]').wait_for()
        shown = seen.page.locator("main").inner_text()
        assert TASK in shown
        assert "Reward so far" in shown
        assert "✓ Verified" in shown
        assert "⚡ Interference" in shown
        earned = sum(turn.reward for turn in solved.turns[:20])
        assert f"{earned:+.2f}" in seen.page.locator("#state").inner_text()
        seen.page.get_by_role("link", name="Records of the case").click()
        seen.page.locator(".records summary").first.click()
        assert ticket(solved).reference in seen.page.locator("main").inner_text()
        check_clean(seen, site)


def test_a_failure_is_red_and_no_reward_is_not(site: RunningSite) -> None:
    agent = site.agent(task_id(7))
    ticket = make(task_id(7)).setting.case.ticket_id
    wrong_end = {"ticket_id": ticket, "resolution": "declined", "reason": "not_due", "evidence": []}
    with browsing() as seen:
        sign_in(seen, site)
        seen.page.goto(agent.place)
        assert seen.page.locator("#state .down").count() == 0
        assert "+0.00" in seen.page.locator("#state").inner_text()
        agent.make([Call("ticketdesk", "resolve_ticket", wrong_end)])
        seen.page.get_by_text("Failure. The episode is over").wait_for()
        live = seen.page.locator("#over").inner_html().strip()
        assert 'class="notice bad"' in live
        seen.page.reload()
        assert seen.page.locator("#over").inner_html().strip() == live
        assert "Live" not in seen.page.locator(".eyebrow").inner_text()


def test_troubles_from_before_the_start_are_listed_as_chaos(site: RunningSite) -> None:
    agent = site.agent(TASK)
    admin = Tags(httpx.get(agent.place, headers=AS_ADMIN).text).text
    [chaos] = re.findall(r"Chaos so far(.*?)Hidden causes", admin, re.S)
    troubles = [cause for cause in hidden_causes(make(TASK)) if cause.active]
    at_start = {cause.dial for cause in troubles if f"before the start ({cause.name.lower()}: {cause.value})" in chaos}
    during = {"flaky", "interference", "noise", "policy_drift", "refresh", "rejections"}
    assert at_start == {cause.dial for cause in troubles} - during
    assert "stale" in at_start
    assert "before the start" not in httpx.get(agent.place).text


def test_the_expert_s_comparisons_are_shown_where_hidden_data_is(site: RunningSite) -> None:
    env = make(TASK)
    spoken = list(work_aloud(env))
    comparisons = [comparison for turn in spoken for comparison in turn.working]
    agent = site.agent(TASK)
    agent.make([turn.call for turn in spoken])
    admin, guest = httpx.get(agent.place, headers=AS_ADMIN).text, httpx.get(agent.place).text
    shown = [unescape(text) for text in re.findall(r"<li>= (.*?)</li>", admin)]
    assert len(shown) > 3
    assert set(shown) <= set(comparisons)
    for text in (guest, httpx.get(f"{agent.place}?view=agent", headers=AS_ADMIN).text):
        assert "<li>= " not in text


def test_the_agent_s_view_has_no_hidden_data(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:20])
    guest, admin = httpx.get(agent.place).text, httpx.get(agent.place, headers=AS_ADMIN).text
    streamed = _first_event(f"{agent.place}/events?after=0")
    assert "Interference" in admin
    for text in (guest, streamed, httpx.get(f"{agent.place}?view=agent", headers=AS_ADMIN).text):
        assert "search_register" in text
        for secret in (TASK, "Reward", "Milestones", "Interference", "Meddling", 'class="pay', "priority_missing"):
            assert secret not in text
    assert httpx.get(f"{agent.place}/world", headers={"accept": "text/html"}).status_code == 401
    over = httpx.get(f"{site.url}/replay/session/{agent.code}")
    assert (over.status_code, "not over yet" in over.text) == (404, True)


def _first_event(address: str) -> str:
    with httpx.stream("GET", address) as line:
        return next(text for text in line.iter_lines() if text.startswith("data:"))


def test_without_javascript_a_reload_shows_new_calls(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    with browsing(scripts=False) as seen:
        seen.page.goto(agent.place)
        assert "No calls yet" in seen.page.locator("main").inner_text()
        agent.make(calls_of(solved)[:2])
        seen.page.get_by_role("link", name="Reload").click()
        assert last_step(seen) == "2"


def test_a_closed_session_is_shown_as_gone(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:1])
    with browsing() as seen:
        seen.page.goto(agent.place)
        agent.close()
        seen.page.get_by_text("This session no longer exists").wait_for()
        assert last_step(seen) == "1"
        assert httpx.get(agent.place).status_code == 404


def test_no_text_that_streams_in_becomes_a_part_of_the_page(site: RunningSite) -> None:
    agent = site.agent(task_id(7))
    ticket = make(task_id(7)).setting.case.ticket_id
    with browsing() as seen:
        sign_in(seen, site)
        seen.page.goto(agent.place)
        agent.make(
            [
                Call("ticketdesk", "comment", {"ticket_id": ticket, "text": HOSTILE}),
                Call("ticketdesk", "get_history", {"ticket_id": ticket}),
                Call(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}),
            ]
        )
        seen.page.locator('#calls > li[value="3"]').wait_for()
        assert HOSTILE[:30] in seen.page.locator("#calls").inner_text()
        assert (seen.page.title(), seen.page.locator("img").count()) == ("Watching, step 0 · CompanyOS", 1)
        for page in (f"{site.url}/watch", f"{agent.place}/world", agent.place):
            seen.page.goto(page)
            assert (seen.page.title() != "lost", seen.page.locator("img").count()) == (True, 1)
        check_clean(seen, site)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_watch_pages_fit_every_screen_and_are_accessible(
    site: RunningSite, solved: CompanyEnv, width: int, scheme: str
) -> None:
    agent, calls = site.agent(TASK), calls_of(solved)
    agent.make(calls[:20])
    with browsing(width, 844, scheme) as seen:
        look_at(seen, f"{site.url}/watch", width)
        look_at(seen, agent.place, width)
        sign_in(seen, site)
        seen.page.goto(agent.place)
        agent.make(calls[20:24])
        seen.page.locator('#calls > li[value="24"]').wait_for()
        seen.page.locator(".causes summary").click()
        check_looks(seen, width)
        look_at(seen, f"{agent.place}/world", width)


# -- access ------------------------------------------------------------------------------------------------------------


def test_a_watch_link_does_not_allow_steps(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:2])
    pages = [httpx.get(f"{site.url}/watch").text, httpx.get(agent.place).text, httpx.get(agent.place, headers=AS_ADMIN).text]
    assert agent.session_id not in "".join(pages)
    assert httpx.get(f"{site.url}/office/{agent.code}").status_code == 404
    stepped = httpx.post(f"{site.url}/step", json={"session_id": agent.code, "app": "ticketdesk", "method": "list_tickets"})
    assert stepped.status_code == 404


@pytest.mark.parametrize("code", ["nothing", "x" * 300, "%00", "ä"])
def test_an_invalid_watch_link_is_reported(site: RunningSite, code: str) -> None:
    reply = httpx.get(f"{site.url}/watch/{code}")
    assert reply.status_code == 404
    assert "There is no such session" in reply.text


def test_a_session_is_found_by_its_id_and_an_unknown_id_is_refused(site: RunningSite) -> None:
    agent = site.agent(TASK)
    found = httpx.post(f"{site.url}/watch", data={"session": f" {agent.session_id} "})
    assert (found.status_code, found.headers["location"]) == (303, f"/watch/{agent.code}")
    assert httpx.post(f"{site.url}/watch", data={"session": "nobody"}).status_code == 404


def test_with_tokens_users_see_their_own_sessions_and_admins_all() -> None:
    with served(tokens=("one", "other")) as site:
        mine, theirs = site.agent(TASK, "one"), site.agent(TASK, "other")
        as_one = {"authorization": "Bearer one"}
        listed = httpx.get(f"{site.url}/watch", headers=as_one).text
        assert (mine.code in listed, theirs.code in listed) == (True, False)
        assert httpx.get(mine.place, headers=as_one).status_code == 200
        for place in (theirs.place, f"{theirs.place}/events", f"{site.url}/replay/session/{theirs.code}"):
            assert httpx.get(place, headers=as_one).status_code == 404
        assert httpx.get(mine.place).status_code == 401
        listed = httpx.get(f"{site.url}/watch", headers=AS_ADMIN).text
        assert (mine.code in listed, theirs.code in listed) == (True, True)


def test_watch_links_work_on_another_server_only_with_the_same_key(site: RunningSite) -> None:
    agent = site.agent(TASK)
    with served() as other, served(watch_key="a") as third, served(watch_key="a") as fourth:
        assert other.watch.code(agent.session_id) != agent.code
        assert third.watch.code(agent.session_id) == fourth.watch.code(agent.session_id)


# -- the session is not disturbed --------------------------------------------------------------------------------------


def test_watching_does_not_keep_a_session_in_memory_or_change_it(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:5])
    session = next(one for one in site.watch._queue.sessions.live() if one.header.session_id == agent.session_id)
    touched, digest = session.touched, session.env.digest()
    for place in ("", "?view=agent", "/world"):
        assert httpx.get(f"{agent.place}{place}", headers=AS_ADMIN).status_code == 200
    _first_event(f"{agent.place}/events?after=0")
    httpx.get(f"{site.url}/watch")
    assert (session.touched, session.env.digest(), session.env.step_count) == (touched, digest, 5)


def test_a_watcher_that_leaves_is_no_longer_counted(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:1])
    wait_for(lambda: site.watch.watchers == 0)
    lines = []
    for _ in range(3):
        with httpx.stream("GET", f"{agent.place}/events") as line:
            texts = line.iter_lines()
            lines.append(next(texts))
            assert site.watch.watchers >= 1
    assert lines == [": here"] * 3
    wait_for(lambda: site.watch.watchers == 0)


def test_a_watcher_that_does_not_read_delays_nobody(site: RunningSite) -> None:
    """A watcher that reads nothing of hundreds of large replies does not delay the steps."""
    task = task_id(7)
    agent, call = site.agent(task), Call("ticketdesk", "list_tickets")
    port = urlsplit(site.url).port
    with socket.create_connection(("127.0.0.1", port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(f"GET /watch/{agent.code}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        wait_for(lambda: site.watch.watchers > 0)
        most = make(task).max_steps
        agent.make([call] * (most - 1))
        assert site.watch._queue.sessions.observe(agent.session_id).env.step_count == most - 1
    wait_for(lambda: site.watch.watchers == 0)


def test_an_event_stream_outlives_the_request_timeout(solved: CompanyEnv) -> None:
    with served(request_seconds=0.5) as site:
        agent = site.agent(TASK)
        with httpx.stream("GET", f"{agent.place}/events") as line:
            texts = line.iter_lines()
            assert next(texts) == ": here"
            time.sleep(1)
            agent.make(calls_of(solved)[:1])
            assert next(text for text in texts if text.startswith("id:")) == "id: 1"


def test_a_browser_that_reconnects_gets_the_calls_it_missed(site: RunningSite, solved: CompanyEnv) -> None:
    agent = site.agent(TASK)
    agent.make(calls_of(solved)[:6])
    with httpx.stream("GET", f"{agent.place}/events?after=1", headers={"last-event-id": "4"}) as line:
        [data] = [text for text in islice(line.iter_lines(), 5) if text.startswith("data:")]
    assert re.findall(r'class=\\"number\\">(\d+)<', data) == ["6", "5"]


def test_the_number_of_watchers_is_limited(site: RunningSite, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = site.agent(TASK)
    wait_for(lambda: site.watch.watchers == 0)
    monkeypatch.setattr(watching, "MAX_WATCHERS", 1)
    with httpx.stream("GET", f"{agent.place}/events") as line:
        texts = line.iter_lines()
        assert next(texts) == ": here"
        refused = httpx.get(f"{agent.place}/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert httpx.get(agent.place).status_code == 200
