"""Pages over plain HTTP: their headers, who may see them, and their error messages."""

import re
from collections.abc import Iterator

import httpx
import pytest

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.evaluate.judge.blame import blame
from companyos.evaluate.judge.blame_text import sentences
from companyos.families import FAMILIES
from companyos.serve.sessions.sessions import Sessions
from companyos.web.links import encode_task_link
from tests.evaluate.reports import Tags
from tests.helpers import task_id
from tests.serve.servers import ADMIN, AS_ADMIN
from tests.web.site import RunningSite, served

FIRST = {"family": "vendor_onboarding", "seed": "7", "chaos": "0.5"}


@pytest.fixture
def guest(site: RunningSite) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url) as client:
        yield client


def begin(guest: httpx.Client, **form: str) -> str:
    """Start a task and return its address in the office."""
    reply = guest.post("/play", data=FIRST | form)
    assert reply.status_code == 303
    return reply.headers["location"].removesuffix("/0")


def call(guest: httpx.Client, place: str, turn: int, line: str) -> httpx.Response:
    return guest.post(f"{place}/call", data={"_turn": str(turn), "_line": line})


def brief_ticket(site: RunningSite, place: str) -> str:
    return site.session(place).env.setting.case.ticket_id


# -- turns and steps ---------------------------------------------------------------------------------------------------


def test_opening_pages_is_not_a_step(site: RunningSite, guest: httpx.Client) -> None:
    place = begin(guest)
    call(guest, place, 1, "list_tickets")
    pages = ("", "/0", "/1", "/steps", "/form/ticketdesk.resolve_ticket", "/verdict")
    for _ in range(2):
        for page in pages:
            assert guest.get(f"{place}{page}", follow_redirects=True).status_code == 200
    assert site.session(place).env.step_count == 1


def test_a_form_that_is_sent_twice_makes_one_step(site: RunningSite, guest: httpx.Client) -> None:
    place, ticket = begin(guest, chaos="0"), ""
    ticket = brief_ticket(site, place)
    for _ in range(3):
        reply = call(guest, place, 1, f"comment {ticket} hello")
        assert (reply.status_code, reply.headers["location"]) == (303, f"{place}/1")
    assert site.session(place).env.step_count == 1


def test_a_form_of_an_old_page_makes_no_step_and_can_be_sent_again(site: RunningSite, guest: httpx.Client) -> None:
    place = begin(guest)
    call(guest, place, 1, "list_tickets")
    late = call(guest, place, 1, "list_metrics")
    assert late.status_code == 409
    assert "Nothing was done" in late.text
    assert 'name="_turn" value="2"' in late.text
    assert 'value="list_metrics"' in late.text
    assert site.session(place).env.step_count == 1


def test_an_old_page_still_shows_its_own_reply(guest: httpx.Client) -> None:
    place = begin(guest)
    call(guest, place, 1, "list_tickets")
    then = re.search(r"<tbody>.*?</tbody>", guest.get(f"{place}/1").text, re.S)
    call(guest, place, 2, "wait 72")
    now = guest.get(f"{place}/1").text
    assert then
    assert then[0] in now
    assert "You are looking back" in now


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"_turn": "1"}, "there is no tool"),
        ({"_turn": "1", "_line": "dance"}, "there is no tool"),
        ({"_turn": "1", "_tool": "ticketdesk.dance"}, "there is no tool"),
        ({"_turn": "x", "_line": "list_tickets"}, "which turn this is for"),
        ({"_turn": "7", "_line": "list_tickets"}, "not due yet"),
        ({"_turn": "1", "_tool": "ticketdesk.wait", "hours": "many"}, "hours is a whole number"),
    ],
)
def test_an_invalid_call_makes_no_step(site: RunningSite, guest: httpx.Client, form: dict[str, str], said: str) -> None:
    place = begin(guest)
    reply = guest.post(f"{place}/call", data=form)
    assert reply.status_code == 422
    assert said in reply.text.lower()
    assert site.session(place).env.step_count == 0


def test_a_refused_call_shows_its_form_as_it_was_filled_in(guest: httpx.Client) -> None:
    place = begin(guest, chaos="0")
    sent = {"_turn": "1", "_tool": "ticketdesk.update_ticket", "ticket_id": "T-1", "field": "priority", "value": "odd"}
    guest.post(f"{place}/call", data=sent)
    page = guest.get(f"{place}/1").text
    assert "Not found" in page
    assert 'value="T-1"' in page
    assert '<option selected value="priority">' in page


def test_a_session_is_the_same_through_every_interface(site: RunningSite, guest: httpx.Client) -> None:
    begun = guest.post("/reset", json={"task": "vendor_onboarding", "seed": 7}).json()
    place = f"/office/{begun['session_id']}"
    guest.post("/step", json={"session_id": begun["session_id"], "app": "ticketdesk", "method": "list_tickets"})
    assert guest.get(place).headers["location"] == f"{place}/1"
    call(guest, place, 2, "my_changes")
    seen = guest.get("/render", params={"session_id": begun["session_id"], "view": "json"}).json()
    assert seen["step"] == 2
    assert [turn.call for turn in site.session(place).env.turns][1] == Call("ticketdesk", "my_changes")


def test_after_the_end_pages_have_the_verdict_and_no_call_form(site: RunningSite, guest: httpx.Client) -> None:
    place = begin(guest, chaos="0", seed="71")  # a seed that no other session uses
    ticket = brief_ticket(site, place)
    ended = call(guest, place, 1, f"resolve_ticket {ticket} declined not_due []")
    assert ended.headers["location"] == f"{place}/verdict"
    page = guest.get(f"{place}/verdict").text
    assert "Failure" in page
    assert "You closed it as declined, not due. The right ending was" in page
    assert "The expert&#39;s calls" in page
    told = list(sentences(blame(site.session(place).env.transcript())))
    assert len(told) > 2
    assert all(sentence in Tags(page).text for sentence in told)
    for looked in ("/0", "/1", "/verdict", "/form/ticketdesk.comment"):
        shown = guest.get(f"{place}{looked}").text
        assert f'action="{place}/call"' not in shown
        assert 'name="_line"' not in shown
    assert call(guest, place, 2, "list_tickets").headers["location"] == f"{place}/verdict"


# -- hidden information ------------------------------------------------------------------------------------------------


def test_no_page_reveals_hidden_data_before_the_end(site: RunningSite, guest: httpx.Client) -> None:
    place = begin(guest)
    env, shown = site.session(place).env, []
    for turn, line in enumerate(("read_inbox", "list_tickets", "search_policies vendor"), 1):
        call(guest, place, turn, line)
    for page in ("/0", "/1", "/2", "/3", "/steps", "/form/ticketdesk.resolve_ticket"):
        shown.append(guest.get(f"{place}{page}").text)
    text = "".join(shown)
    assert env.task_id not in text
    assert env.setting.ending.name not in text
    assert not [cause for cause in env.setting.causes.__struct_fields__ if f"{cause}." in text]
    assert not re.search(r"\b(par|expert)\b", text)


def test_a_link_begins_its_task_and_shows_no_cause(site: RunningSite, guest: httpx.Client) -> None:
    task = TaskId.parse(f"{task_id(chaos='50')}-insurance.expired")
    code = encode_task_link(task)
    page = guest.get(f"/play/{code}")
    assert page.status_code == 200
    assert "insurance" not in page.text
    begun = guest.post(f"/play/{code}")
    assert site.session(begun.headers["location"]).env.task_id == str(task)
    assert "insurance." not in guest.get(begun.headers["location"]).text


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["nothing", "x" * 900, "%2e%2e", "ä"])
def test_an_invalid_task_link_shows_the_list_of_families(guest: httpx.Client, code: str) -> None:
    reply = guest.get(f"/play/{code}")
    assert reply.status_code in (404, 422)
    assert all(f"/play?family={name}" in reply.text for name in FAMILIES)


def test_an_unknown_task_starts_no_session(guest: httpx.Client) -> None:
    reply = guest.post("/play", data=FIRST | {"family": "juggling"})
    assert reply.status_code == 422
    assert "Unknown family" in reply.text
    assert guest.post("/play", data=FIRST | {"seed": "seven"}).status_code == 422
    assert guest.post("/play", data=FIRST | {"chaos": "7"}).status_code == 422


@pytest.mark.parametrize("place", ["/office/nobody", "/office/nobody/3", "/office/nobody/verdict", "/nowhere"])
def test_people_get_a_page_for_an_unknown_address(guest: httpx.Client, place: str) -> None:
    reply = guest.get(place, headers={"accept": "text/html"})
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Choose a task" in reply.text


def test_the_page_of_a_bug_shows_the_id_to_report(guest: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the cause is cfo_away")

    assert "Request id" not in guest.get("/gallery/nowhere").text, "the visitor can correct this without a report"
    monkeypatch.setattr(Sessions, "observe", broken)
    reply = guest.get("/office/nobody", headers={"x-request-id": "mine-1"})
    assert (reply.status_code, reply.headers["x-request-id"]) == (500, "mine-1")
    assert "Request id: <code>mine-1</code>" in reply.text
    assert "cfo_away" not in reply.text


def test_programs_get_errors_as_json(guest: httpx.Client) -> None:
    assert guest.get("/nowhere").json()["error"]["code"] == "no_such_place"
    assert guest.get("/render", params={"session_id": "nobody"}).json()["error"]["code"] == "unknown_session"


# -- access ------------------------------------------------------------------------------------------------------------


def test_every_page_has_a_strict_content_security_policy(guest: httpx.Client) -> None:
    place = begin(guest)
    for page in ("/", "/play", f"{place}/0", "/office/nobody", "/sign-in"):
        headers = guest.get(page).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
    page = guest.get(f"{place}/0").text
    assert not re.search(r"<script(?! src=\"/static/)|<style| style=|\son\w+=|javascript:", page)


def test_static_files_are_cached_by_their_versioned_address(guest: httpx.Client) -> None:
    [address] = re.findall(r'href="(/static/companyos\.css\?v=\w+)"', guest.get("/").text)
    assert "immutable" in guest.get(address).headers["cache-control"]
    assert guest.get("/static/companyos.css").headers["cache-control"] == "no-cache"
    assert guest.get("/static/..%2fsite.py").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://elsewhere.invalid"},
        {"origin": "null"},
    ],
)
def test_a_form_on_another_site_does_nothing(site: RunningSite, guest: httpx.Client, headers: dict[str, str]) -> None:
    place = begin(guest)
    sent = guest.post(f"{place}/call", data={"_turn": "1", "_line": "list_tickets"}, headers=headers)
    assert sent.status_code == 403
    assert site.session(place).env.step_count == 0
    assert guest.post("/play", data=FIRST, headers=headers).status_code == 403
    assert guest.post("/sign-in", data={"token": "x", "back": "/"}, headers=headers).status_code == 403


def test_with_tokens_people_sign_in_and_see_their_own_sessions_only() -> None:
    with served(tokens=("one", "other ü")) as site, httpx.Client(base_url=site.url) as guest:
        refused = guest.get("/play", params={"family": "expense_report"})
        assert refused.status_code == 401
        assert 'value="/play?family=expense_report"' in refused.text
        assert guest.get("/static/companyos.css").status_code == 200
        assert guest.post("/sign-in", data={"token": "wrong", "back": "/"}).status_code == 401
        let_in = guest.post("/sign-in", data={"token": "other ü", "back": "/play"})
        assert (let_in.status_code, let_in.headers["location"]) == (303, "/play")
        assert "HttpOnly" in let_in.headers["set-cookie"]
        place = begin(guest)
        assert guest.get(f"{place}/0").status_code == 200
        assert guest.get("/render", params={"session_id": place.split("/")[2]}).status_code == 401, "programs send a header"
        with httpx.Client(base_url=site.url) as another:
            another.post("/sign-in", data={"token": "one", "back": "/"})
            assert another.get(f"{place}/0").status_code == 404
            assert another.get(f"{place}/0", headers=AS_ADMIN).status_code == 200
        with httpx.Client(base_url=site.url) as admin:
            admin.post("/sign-in", data={"token": ADMIN, "back": "/"})
            assert admin.get(f"{place}/0").status_code == 200


@pytest.mark.parametrize("back", ["https://elsewhere.invalid/", "//elsewhere.invalid/", "/\\elsewhere.invalid", "elsewhere"])
def test_signing_in_does_not_redirect_to_other_sites(back: str) -> None:
    with served(tokens=("one",)) as site:
        let_in = httpx.post(f"{site.url}/sign-in", data={"token": "one", "back": back})
        assert let_in.headers["location"] == "/"


def test_metrics_count_pages_by_path_without_session_ids(guest: httpx.Client) -> None:
    place = begin(guest)
    guest.get(f"{place}/0")
    counted = guest.get("/metrics").text
    assert 'place="/office"' in counted
    assert place not in counted


def test_guessing_tokens_is_rate_limited_and_signed_in_users_are_not_affected() -> None:
    with served(tokens=("one", "other")) as site, httpx.Client(base_url=site.url) as guest:
        assert guest.post("/sign-in", data={"token": "one", "back": "/"}).status_code == 303
        assert guest.get("/play").status_code == 200
        codes = [httpx.post(f"{site.url}/sign-in", data={"token": "guess", "back": "/"}).status_code for _ in range(31)]
        assert codes == [401] * 30 + [429]
        assert httpx.post(f"{site.url}/sign-in", data={"token": "other", "back": "/"}).status_code == 429
        assert guest.get("/play").status_code == 200
