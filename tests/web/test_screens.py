"""Pictures as observations: working on a screen is the same task, and no screen shows another session."""

import asyncio
import io
import json
import os
import signal
import sys
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from playwright.async_api import async_playwright
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send
from websockets.sync.client import connect

from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.env.line_syntax import write_line
from companyos.families import EpisodeSoFar, ExpertStyle, family
from companyos.integrations.client import Company, ServerError
from companyos.serve.errors import Malformed
from companyos.serve.ops import programs
from companyos.web.screen.gestures import GESTURES, HEIGHT, WIDTH, Click, read_gesture
from companyos.web.screen.screen import Screen
from tests.blocks import ROOT, blocks_of
from tests.helpers import task_id
from tests.serve.servers import ADMIN, wait_for
from tests.web.browser import browsing
from tests.web.screen_user import ScreenUser
from tests.web.site import RunningSite, served


@pytest.fixture
def guest(site: RunningSite) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, timeout=60) as client:
        yield client


# -- the same episode, on a screen or by tools -------------------------------------------------------------------------


def test_an_expert_solves_a_task_by_clicks_and_keys_alone(site: RunningSite, guest: httpx.Client) -> None:
    """The user clicks a button that makes the call, or types it. The digest is the same after every step."""
    env = make("handbook_update", seed=7, chaos=0.5)
    program = family("handbook_update").expert(EpisodeSoFar(env.scene.brief, env.reset().now), ExpertStyle())
    with browsing(WIDTH, HEIGHT) as seen:
        user, call, clicks = ScreenUser(guest, seen.page, env.task_id), next(program), 0
        while not env.done:
            user.look_at(str(env.step_count))
            button = seen.page.locator(f"main button[name=_line][value={json.dumps(write_line(call))}]:visible")
            if button.count():
                clicks += 1
                user.click(button.first)
            else:
                user.types_call(call)
            obs = env.step(call)
            there = site.session(f"/office/{user.session_id}").env
            assert (there.turns[-1].call, there.digest()) == (call, env.digest())
            assert (user.last["turn"], user.last["reward"], user.last["done"]) == (obs.step, obs.reward, obs.done)
            if not env.done:
                call = program.send(env.turns[-1].reply)
        assert user.last["success"] is True
        assert clicks >= 3


def test_a_form_is_filled_in_on_the_screen_with_what_a_list_offers(site: RunningSite, guest: httpx.Client) -> None:
    with browsing(WIDTH, HEIGHT) as seen:
        user, page = ScreenUser(guest, seen.page, task_id()), seen.page
        user.look_at("0")
        user.click(page.locator('nav.side a[href$="/form/ticketdesk.list_tickets"]'))
        user.look_at("form/ticketdesk.list_tickets")
        closed = user.picture
        user.click(page.locator("select[name=status]"))
        assert user.picture != closed, "what a list offers is on the picture"
        page.locator("select[name=status]").click()
        user.click(page.locator("select[name=status] option", has_text="in_progress"))
        last = user.click(page.locator("main form.call > button"))
        assert last["turn"] == 1
        assert site.session(f"/office/{user.session_id}").calls == [
            Call("ticketdesk", "list_tickets", {"status": "in_progress"})
        ]


def test_gestures_without_a_call_are_not_steps(site: RunningSite, guest: httpx.Client) -> None:
    with browsing(WIDTH, HEIGHT) as seen:
        user = ScreenUser(guest, seen.page, task_id())
        user.calls("ticketdesk", "list_tickets")
        digest = site.session(f"/office/{user.session_id}").env.digest()
        pictures = [user.picture]
        for method, params in (
            ("scroll", {"dy": 200}),
            ("key", {"key": "?"}),
            ("type", {"text": "i"}),
            ("click", {"x": 1, "y": 1}),
            ("key", {"key": "Escape"}),
            ("key", {"key": "Tab"}),
            ("key", {"key": "Enter"}),  # skips to the content, on the same page
        ):
            last = user.does(method, **params)
            assert (last["turn"], last["reward"], last["done"]) == (1, 0.0, False)
            pictures.append(user.picture)
        assert pictures[0] != pictures[1] != pictures[2], "it shows what was done"
        assert site.session(f"/office/{user.session_id}").env.digest() == digest


def test_tool_calls_and_gestures_can_be_mixed(guest: httpx.Client) -> None:
    with browsing(WIDTH, HEIGHT) as seen:
        user = ScreenUser(guest, seen.page, task_id())
        before = user.picture
        assert user.calls("ticketdesk", "list_tickets")["turn"] == 1
        listed = user.picture
        assert listed != before
        user.look_at("1")
        assert user.click(seen.page.get_by_role("button", name="Metrics", exact=True).first)["turn"] == 2
        assert user.calls("ticketdesk", "list_tickets")["turn"] == 3
        assert user.does("key", key="[")["turn"] == 3  # opens the previous step
        assert user.does("key", key="i")["turn"] == 3  # moves the focus to the inbox
        assert user.does("key", key="Enter")["observation"]["code"] == "ok"
        assert user.last["turn"] == 4


def test_a_screen_shows_the_last_turn_even_if_it_was_made_elsewhere(site: RunningSite, guest: httpx.Client) -> None:
    session = site.begin(task_id())
    place = {"session_id": session.header.session_id}
    first = guest.get("/render", params=place | {"view": "png"}).content
    session.play([Call("ticketdesk", "list_tickets")])
    second = guest.get("/render", params=place | {"view": "png"}).content
    assert Image.open(io.BytesIO(first)).size == Image.open(io.BytesIO(second)).size == (WIDTH, HEIGHT)
    assert first != second
    jpeg = guest.get("/render", params=place | {"view": "jpeg"})
    assert (jpeg.headers["content-type"], Image.open(io.BytesIO(jpeg.content)).format) == ("image/jpeg", "JPEG")


def test_the_last_picture_shows_the_last_reply_and_not_the_verdict(guest: httpx.Client, site: RunningSite) -> None:
    env = make("handbook_update", seed=7)
    run_expert(env)
    calls = [turn.call for turn in env.turns]
    by_tools = site.begin(env.task_id)
    by_tools.play(calls)
    with browsing(WIDTH, HEIGHT) as seen:
        user = ScreenUser(guest, seen.page, env.task_id)
        for call in calls[:-1]:
            user.calls(call.app, call.method, **call.params)
        user.types_call(calls[-1])
        assert user.last["done"] is True
        ids = (user.session_id, by_tools.header.session_id)
        shots = [guest.get("/render", params={"session_id": one, "view": "png"}).content for one in ids]
        assert shots[0] == shots[1]
        over = guest.post("/step", json={"session_id": ids[0], "app": "screen", "method": "key", "params": {"key": "i"}})
        assert (over.status_code, over.json()["error"]["code"]) == (409, "session_over")


# -- screens of different sessions -------------------------------------------------------------------------------------


def worked(guest: httpx.Client, seed: int) -> bytes:
    """Work a little in a new session and return its picture."""
    begun = guest.post("/reset", json={"seed": seed, "chaos": 0.5, "observation": "screenshot"}).json()
    body = {"session_id": begun["session_id"]}
    for app, method, params in (
        ("screen", "key", {"key": "/"}),
        ("screen", "type", {"text": "list_tickets"}),
        ("screen", "key", {"key": "Enter"}),
        ("screen", "key", {"key": "j"}),
        ("screen", "key", {"key": "Enter"}),
        ("datahub", "list_metrics", {}),
        ("screen", "scroll", {"dy": 120}),
    ):
        reply = guest.post("/step", json=body | {"app": app, "method": method, "params": params})
        assert reply.status_code == 200, reply.text
    assert reply.json()["turn"] == 3
    shown = guest.get("/render", params=body | {"view": "png"}).content
    guest.post("/close", json=body)
    return shown


def test_no_session_shows_content_of_another(guest: httpx.Client) -> None:
    """Eight sessions at once give the same bytes as each of them on a reused page."""
    with ThreadPoolExecutor(8) as people:
        together = list(people.map(lambda seed: worked(guest, seed), range(8)))
    assert len(set(together)) == 8
    with served(screens=1) as site, httpx.Client(base_url=site.url, timeout=60) as alone:
        assert [worked(alone, seed) for seed in (0, 5, 3)] == [together[seed] for seed in (0, 5, 3)]


PROBE = """<!doctype html><title>none</title><a href="/office/another/0" style="position: fixed; inset: 0">elsewhere</a>
<script>
document.title = [document.cookie, localStorage.length, history.length];
document.cookie = "a=1";
localStorage.a = 1;
</script>"""


def test_a_reused_page_has_no_traces_and_cannot_leave_its_session() -> None:
    """Tested with a page that leaves every possible trace and links to another session."""
    asked: list[tuple[str, str]] = []

    async def office(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append((scope["path"], scope["state"]["client"].owner))
        await HTMLResponse(PROBE)(scope, receive, send)

    async def titles() -> list[str]:
        async with async_playwright() as playwright:
            program = programs.chromium()
            screen, found = Screen(office), []
            await screen.open(await playwright.chromium.launch(executable_path=program))
            for owner in ("me", "you"):
                screen.assign_to(f"of-{owner}", owner)
                await screen.clear()
                for turn in (0, 1):
                    await screen.show(turn)
                    found.append(await screen._page.title())
                await screen.perform(Click(5, 5))
            return found

    first, later, *others = asyncio.run(titles())
    assert first != later, "it does leave traces"
    assert others == [first, later]
    own = ("/office/of-{}/0", "/office/of-{}/1", "/office/of-{}")  # the link to another session led back here
    assert asked == [(path.format(owner), owner) for owner in ("me", "you") for path in own]


def test_a_screen_stays_with_its_session(guest: httpx.Client) -> None:
    """Links to other pages lead back to the session."""
    with browsing(WIDTH, HEIGHT) as seen:
        user = ScreenUser(guest, seen.page, task_id())
        before = user.picture
        user.look_at("0")
        for link in (seen.page.get_by_role("link", name="Another task"), seen.page.locator("header a").first):
            user.click(link)
            user.does("click", x=WIDTH // 2, y=HEIGHT - 1)  # where there is nothing
            assert user.picture == before
        assert user.calls("ticketdesk", "list_tickets")["turn"] == 1


def test_pictures_of_a_session_need_the_token_that_started_it() -> None:
    with served(tokens=("mine", "yours")) as site:
        mine, yours = ({"authorization": f"Bearer {token}"} for token in ("mine", "yours"))
        begun = httpx.post(f"{site.url}/reset", json={"observation": "screenshot"}, headers=mine, timeout=60).json()
        body = {"session_id": begun["session_id"]}
        press = body | {"app": "screen", "method": "key", "params": {"key": "i"}}
        enter = body | {"app": "screen", "method": "key", "params": {"key": "Enter"}}
        assert httpx.post(f"{site.url}/step", json=press, headers=yours, timeout=60).status_code == 404
        assert httpx.get(f"{site.url}/render", params=body | {"view": "png"}, headers=yours, timeout=60).status_code == 404
        assert httpx.get(f"{site.url}/render", params=body | {"view": "png"}, timeout=60).status_code == 401
        assert httpx.post(f"{site.url}/step", json=press, headers=mine, timeout=60).json()["turn"] == 0
        assert httpx.post(f"{site.url}/step", json=enter, headers=yours, timeout=60).status_code == 404
        assert httpx.post(f"{site.url}/step", json=enter, headers=mine, timeout=60).json()["turn"] == 1
        admin = {"authorization": f"Bearer {ADMIN}"}
        assert httpx.get(f"{site.url}/render", params=body | {"view": "png"}, headers=admin, timeout=60).status_code == 200


def test_a_fork_of_a_session_with_pictures_has_pictures(guest: httpx.Client) -> None:
    begun = guest.post("/reset", json={"observation": "screenshot"}).json()
    [twin] = guest.post("/fork", json={"session_id": begun["session_id"]}).json()["session_ids"]
    press = {"session_id": twin, "app": "screen", "method": "key"}
    turns = [guest.post("/step", json=press | {"params": {"key": key}}).json() for key in ("i", "Enter")]
    assert [step["turn"] for step in turns] == [0, 1]
    step = turns[-1]
    assert step["observation"]["screenshot"] != begun["observation"]["screenshot"]
    stands = guest.post(
        "/step", json={"session_id": begun["session_id"], "app": "screen", "method": "scroll", "params": {"dy": 0}}
    )
    assert stands.json()["turn"] == 0


# -- other interfaces --------------------------------------------------------------------------------------------------


def test_openenv_s_socket_shows_pictures_as_well(site: RunningSite) -> None:
    with connect(f"ws{site.url.removeprefix('http')}/ws") as socket:

        def ask(kind: str, **data: Any) -> dict[str, Any]:
            socket.send(json.dumps({"type": kind, "data": data}))
            found: dict[str, Any] = json.loads(socket.recv())["data"]
            return found

        begun = ask("reset", seed=7, observation="screenshot")
        ask("step", app="screen", method="key", params={"key": "i"})
        pressed = ask("step", app="screen", method="key", params={"key": "Enter"})
        called = ask("step", app="ticketdesk", method="list_tickets")
        pictures = [b64decode(one["observation"]["metadata"]["screenshot"]) for one in (begun, pressed, called)]
        assert len(set(pictures)) == 3
        assert [one["observation"]["step"] for one in (begun, pressed, called)] == [0, 1, 2]


def test_the_light_client_has_the_picture_of_every_step(site: RunningSite) -> None:
    with Company(site.url) as company:
        company.reset("vendor_onboarding", seed=7, observation="screenshot")
        first = company.screenshot
        assert company.step(Call("screen", "key", {"key": "i"})).step == 0
        assert company.step(Call("screen", "key", {"key": "Enter"})).step == 1
        assert company.step(Call("ticketdesk", "list_tickets")).step == 2
        assert first != company.screenshot
        assert Image.open(io.BytesIO(company.screenshot)).format == "JPEG"
        assert Image.open(io.BytesIO(company.picture())).format == "PNG"


def test_the_example_in_the_docs_opens_the_ticket(
    site: RunningSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = [block for block in blocks_of(ROOT / "docs" / "screens.md") if block.title == "needs a server"]
    names: dict[str, Any] = {}
    exec(block.code.replace("http://127.0.0.1:8000", site.url), names)
    made = site.session(f"/office/{names['company'].session_id}").calls
    assert [call.method for call in made] == ["get_ticket"]
    assert Image.open(io.BytesIO(Path("page.jpg").read_bytes())).size == (WIDTH, HEIGHT)
    names["company"].close()


def test_a_text_session_refuses_gestures(guest: httpx.Client) -> None:
    session_id = guest.post("/reset", json={}).json()["session_id"]
    body = {"session_id": session_id, "app": "screen", "method": "key", "params": {"key": "i"}}
    reply = guest.post("/step", json=body).json()
    assert reply["observation"]["code"] == "unknown_tool"
    assert "screenshot" not in reply["observation"]


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "more", "says"),
    [
        ("click", {"x": WIDTH, "y": 0}, {}, "$.params.x"),
        ("click", {"x": 1}, {}, "`y`"),
        ("key", {"key": "Hyper"}, {}, "$.params.key"),
        ("type", {"text": ""}, {}, "$.params.text"),
        ("drag", {}, {}, "$.method"),
        ("key", {"key": "i"}, {"turn": 1}, "$.turn"),
    ],
)
def test_an_invalid_gesture_is_refused_with_a_reason(
    guest: httpx.Client, method: str, params: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    body = {"session_id": guest.post("/reset", json={"observation": "screenshot"}).json()["session_id"]}
    reply = guest.post("/step", json=body | {"app": "screen", "method": method, "params": params} | more)
    assert reply.status_code == 422
    assert says in reply.json()["error"]["message"]
    assert guest.get("/render", params=body | {"view": "json"}).json()["step"] == 0


NAMES = st.sampled_from(("x", "y", "dx", "dy", "key", "text", "method", "method "))
METHODS = st.sampled_from([one.__struct_config__.tag for one in GESTURES]) | st.text(max_size=8)


@given(METHODS, st.dictionaries(NAMES, st.integers() | st.text()))
def test_any_input_is_a_gesture_or_malformed(method: str, params: dict[str, Any]) -> None:
    with suppress(Malformed):
        assert isinstance(read_gesture(Call("screen", method, params)), GESTURES)


def test_a_rollout_refuses_gestures(guest: httpx.Client) -> None:
    session_id = guest.post("/reset", json={"observation": "screenshot"}).json()["session_id"]
    step = {"session_id": session_id, "app": "screen", "method": "key", "params": {"key": "i"}}
    assert guest.post("/rollout", json={"steps": [step]}).status_code == 422


def test_a_session_gets_a_screen_when_another_is_closed() -> None:
    with served(screens=1) as site, httpx.Client(base_url=site.url, timeout=60) as guest:
        first = guest.post("/reset", json={"observation": "screenshot"}).json()["session_id"]
        full = guest.post("/reset", json={"observation": "screenshot"})
        assert (full.status_code, full.json()["error"]["code"]) == (503, "over_capacity")
        guest.post("/close", json={"session_id": first})
        assert guest.post("/reset", json={"observation": "screenshot"}).status_code == 200


def refused(site: RunningSite) -> str:
    """Both APIs say why there are no pictures, and no session is left behind."""
    reset = httpx.post(f"{site.url}/reset", json={"observation": "screenshot"}, timeout=60)
    session_id = httpx.post(f"{site.url}/reset", json={}).json()["session_id"]
    render = httpx.get(f"{site.url}/render", params={"session_id": session_id, "view": "png"}, timeout=60)
    assert reset.status_code == render.status_code == 409
    assert reset.json() == render.json()
    assert len(site) == 1
    message: str = reset.json()["error"]["message"]
    return message


def test_without_a_browser_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(chromium="/no/such/program") as site:
        assert "apt-get install chromium" in refused(site)
    with served(workers=2) as site:
        assert "--workers 1" in refused(site)
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with served() as site:
        assert 'pip install ".[browser]" in a checkout' in refused(site)


def test_a_crashed_browser_is_restarted() -> None:
    with served() as site, Company(site.url) as company:
        company.reset(seed=7, observation="screenshot")
        company.step(Call("ticketdesk", "list_tickets"))
        before = company.picture()
        for pid in chromiums():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: again(company) == before)
        company.step(Call("screen", "key", {"key": "i"}))
        assert company.step(Call("screen", "key", {"key": "Enter"})).step == 2


def again(company: Company) -> bytes:
    with suppress(ServerError):  # the first request after the crash gets an error
        return company.picture()
    return b""


def chromiums() -> list[int]:
    """Return the browsers that Playwright has started for this process."""
    found, parents = [], {os.getpid()}
    for _ in range(3):
        children = {pid: command for pid, parent, command in processes() if parent in parents}
        found += [pid for pid, command in children.items() if "chromium" in command and "--type=" not in command]
        parents = set(children)
    return found


def processes() -> Iterator[tuple[int, int, str]]:
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
            yield int(place.name), int(parent), (place / "cmdline").read_text().replace("\0", " ")
