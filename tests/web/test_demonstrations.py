"""Demonstrations: the server plays an agent while visitors watch, and nothing leaks to people who work on the task."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from companyos.agents.tiny import TinyWeights, save
from companyos.core.errors import BadChoice
from companyos.core.task import TaskId
from companyos.env import make, run_expert, task_named
from companyos.evaluate.runs.episode_file import EpisodeKey
from companyos.evaluate.runs.roster import agent_named
from companyos.evaluate.runs.run import play_episode
from companyos.web.demonstrations import CARELESS, CHAOS, EXPERT, FIRST_TASKS, as_call
from tests.serve.servers import AS_ADMIN, good
from tests.web.browser import Visit, browsing
from tests.web.page_checks import check_clean, check_looks
from tests.web.site import RunningSite, served
from tests.web.test_truth import Site, tells, wrong_end

TASKS = [str(task_named(family, seed, CHAOS)) for family, seed in FIRST_TASKS]


def start(url: str, agent: str = EXPERT, **form: str) -> str:
    """Start a demonstration and return its address."""
    reply = httpx.post(f"{url}/watch/new", data={"agent": agent} | form)
    assert reply.status_code == 303, reply.text
    return url + reply.headers["location"].removesuffix("?play")


def step(address: str, turn: int = 1, steps: str = "one", **more: str) -> httpx.Response:
    return httpx.post(f"{address}/next", data={"turn": str(turn), "steps": steps} | more, timeout=60)


def calls_shown(page: str) -> list[str]:
    """Return the calls on a watch page, the first one first."""
    return re.findall(r'<span class="what"><code>(.*?)</code>', page)[::-1]


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("button", "heading"), [("Watch the expert", "Success"), ("Watch a careless agent fail", "Failure")]
)
def test_one_click_on_the_front_page_shows_an_agent_at_work(site: RunningSite, button: str, heading: str) -> None:
    with browsing() as seen:
        seen.page.goto(site.url)
        seen.page.get_by_role("button", name=button).click()
        seen.page.locator("#calls > li").first.wait_for()
        assert "/watch/" in seen.page.url
        for _ in range(3):
            seen.page.get_by_role("button", name="Faster").click()
        assert "as fast as it can" in seen.page.locator("#pace").inner_text()
        seen.page.get_by_text("The episode is over").wait_for()
        assert seen.page.locator("#controls").is_hidden()
        seen.page.locator("#over a").click()
        seen.page.get_by_role("heading", name=heading, level=1).wait_for()
        check_clean(seen, site)


def test_a_demonstration_can_be_paused_and_stepped_with_the_keyboard(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(start(site.url))
        seen.page.wait_for_load_state()
        seen.page.keyboard.press("n")
        seen.page.locator('#calls > li[value="1"]').wait_for()
        seen.page.keyboard.press("+")
        seen.page.keyboard.press("p")
        assert seen.page.locator("#pause").inner_text() == "Pause"
        seen.page.locator('#calls > li[value="3"]').wait_for()
        seen.page.keyboard.press("p")
        assert seen.page.locator("#pause").inner_text() == "Play"
        stopped = _steps_when_idle(seen)
        seen.page.keyboard.press("n")
        seen.page.locator(f'#calls > li[value="{stopped + 1}"]').wait_for()
        assert seen.page.locator("#calls > li").count() == stopped + 1
        check_clean(seen, site)


def test_the_page_says_that_a_slow_agent_is_thinking_and_that_a_step_failed(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(start(site.url))
        held: list[Any] = []
        seen.page.route("**/next", lambda route: held.append(route))
        seen.page.get_by_role("button", name="One step").click()
        seen.page.get_by_text("The agent is thinking").wait_for()
        held[0].continue_()
        seen.page.locator('#calls > li[value="1"]').wait_for()
        assert seen.page.locator("#thinking").inner_text() == ""
        seen.page.unroute("**/next")
        seen.page.route("**/next", lambda route: route.abort())
        seen.page.get_by_role("button", name="Play").click()
        seen.page.get_by_text("The server did not make the next step").wait_for()
        assert seen.page.locator("#pause").inner_text() == "Play"


def _steps_when_idle(seen: Visit) -> int:
    """Return the number of steps once no request of the page is under way."""
    seen.page.wait_for_function(
        "document.querySelector('[name=turn]').value == document.querySelectorAll('#calls > li').length + 1"
    )
    return int(seen.page.locator("#calls > li").count())


def test_a_demonstration_works_without_javascript(site: RunningSite) -> None:
    with browsing(scripts=False) as seen:
        seen.page.goto(site.url)
        seen.page.get_by_role("button", name="Watch the expert").click()
        seen.page.get_by_role("button", name="One step").click()
        assert seen.page.locator("#calls > li").count() == 1
        seen.page.get_by_role("button", name="To the end").click()
        assert "success" in seen.page.locator("#state").inner_text()
        assert seen.page.get_by_role("button", name="One step").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_demonstration_fits_every_screen_and_is_accessible(site: RunningSite, width: int, scheme: str) -> None:
    address = start(site.url)
    for turn in range(1, 9):
        step(address, turn)
    with browsing(width, 844, scheme) as seen:
        seen.page.goto(address)
        check_looks(seen, width)
        seen.page.goto(f"{site.url}/watch")
        seen.page.locator("#seed").evaluate("field => { field.type = 'text'; field.value = 'many'; }")
        seen.page.locator("form.start button").click()
        seen.page.locator("#mistake-seed").wait_for()
        check_looks(seen, width)


# -- the agent is real -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", TASKS)
def test_the_expert_solves_the_first_tasks_and_the_careless_agent_fails_them(task_id: str) -> None:
    wins = [play_episode(agent_named(name), EpisodeKey(task_id, 0)).outcome.success for name in (EXPERT, CARELESS)]
    assert wins == [True, False]


@pytest.mark.parametrize("agent", ["expert", "jittered", "random", "careless:stale"])
def test_an_agent_makes_the_calls_that_it_makes_in_an_evaluation(site: RunningSite, agent: str) -> None:
    address = start(site.url, agent, family="vendor_onboarding", seed="12", chaos="0.5")
    step(address, steps="all")
    task_id = str(task_named("vendor_onboarding", 12, 0.5))
    played = play_episode(agent_named(agent), EpisodeKey(task_id, 0))
    session = site.session_of_code(address.rpartition("/")[2])
    assert session.env.transcript().to_jsonl().splitlines()[1:-1] == played.text.splitlines()[1:-1]


def test_a_step_that_is_asked_for_twice_is_made_once(site: RunningSite) -> None:
    address = start(site.url)
    made = [good(step(address, turn, script="1"))["step"] for turn in (1, 1, 2, 1)]
    assert made == [1, 1, 2, 2]


def test_another_worker_continues_a_demonstration(tmp_path: Path) -> None:
    """The agent is made again there, and shown the episode so far."""
    ledger = str(tmp_path / "ledger")
    with served(ledger=ledger, watch_key="a") as one, served(ledger=ledger, watch_key="a") as other:
        address = start(one.url, "jittered")
        for turn in range(1, 13):
            good(step(address.replace(one.url, (one, other)[turn % 3 == 0].url), turn, script="1"))
        session = one.session_of_code(address.rpartition("/")[2])
        played = play_episode(agent_named("jittered"), EpisodeKey(session.header.task_id, 0))
        assert session.env.transcript().to_jsonl().splitlines()[1:13] == played.text.splitlines()[1:13]


# -- which agents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["", "saved:/etc", "tiny:/etc/passwd", "os:system", "openai:gpt", "variant:constant/0"])
def test_visitors_cannot_name_agents_that_the_operator_did_not_offer(site: RunningSite, agent: str) -> None:
    refused = httpx.post(f"{site.url}/watch/new", data={"agent": agent, "family": "data_deletion", "seed": "77"})
    assert refused.status_code == 422
    assert "This server offers no agent" in refused.text
    assert 'value="77"' in refused.text
    assert '<option value="data_deletion" selected>' in refused.text


def test_the_trained_model_is_offered_where_it_is_installed(site: RunningSite, tmp_path: Path) -> None:
    save(tmp_path / "model.npz", TinyWeights.none())
    assert "Watch the trained model" not in httpx.get(site.url).text
    with served(agents=(f"tiny:{tmp_path / 'model.npz'}",)) as trained, browsing() as seen:
        seen.page.goto(trained.url)
        seen.page.get_by_role("button", name="Watch the trained model").click()
        seen.page.locator('#calls > li[value="2"]').wait_for()
        assert "tiny:" in seen.page.locator(".eyebrow").inner_text()


def test_a_users_agent_can_be_watched_and_one_that_raises_ends_the_demonstration(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""
def waits(obs):
    return {"app": "ticketdesk", "method": "wait", "params": {"hours": 1}}

def raises(obs):
    raise ValueError("sesame")
""")
    with Site(agents=(f"{tmp_path}/mine.py:waits", f"{tmp_path}/mine.py:raises")) as site:
        assert _step_here(site, _start_here(site, agent=f"{tmp_path}/mine.py:waits"))["step"] == 1
        location = _start_here(site, agent=f"{tmp_path}/mine.py:raises")
        reply = site.send(f"{location}/next", {"turn": "1", "script": "1"})
        assert reply.status_code == 500
        assert "raised an exception, so the episode ends here" in reply.text
        assert "sesame" not in reply.text


def test_a_server_with_an_unknown_agent_does_not_start() -> None:
    with pytest.raises(BadChoice, match="juggler"), Site(agents=("juggler",)):
        pass


@pytest.mark.parametrize("action", ["get_ticket T-1", "", None, {"app": "ticketdesk"}, object(), ["a"]])
def test_an_action_that_is_not_a_call_is_refused_and_costs_a_step(action: object) -> None:
    """A language model may answer with anything."""
    env = make(TASKS[0])
    seen = env.step(as_call(action))
    assert (seen.reply.ok, seen.reply.code, env.step_count) == (False, "unknown_tool", 1)


# -- hidden data -------------------------------------------------------------------------------------------------------


def _start_here(site: Site, **form: str) -> str:
    reply = site.send("/watch/new", {"agent": EXPERT} | form)
    assert reply.status_code == 303, reply.text
    return str(reply.headers["location"]).removesuffix("?play")


def _step_here(site: Site, location: str, turn: int = 1) -> dict[str, object]:
    return good(site.send(f"{location}/next", {"turn": str(turn), "script": "1"}))


def _fields_of(task_id: str) -> dict[str, str]:
    task = TaskId.parse(task_id)
    return {"family": task.family, "seed": str(task.seed), "chaos": str(CHAOS)}


def test_everything_is_shown_in_demonstrations_and_only_there(site: RunningSite) -> None:
    address = start(site.url)
    step(address)
    page = httpx.get(address).text
    assert "The right ending is" in page
    assert "Records of the case" in page
    assert httpx.get(f"{address}/world").status_code == 200
    assert "The right ending is" not in httpx.get(f"{address}?view=agent").text
    agent = site.agent(TASKS[0])
    assert "The right ending is" not in httpx.get(agent.place).text
    assert httpx.get(f"{agent.place}/world", headers={"accept": "text/html"}).status_code == 401
    agent.close()


def test_without_an_admin_token_the_records_of_other_sessions_do_not_exist() -> None:
    with served(admin_token="") as site:
        assert httpx.get(f"{start(site.url)}/world").status_code == 200
        assert httpx.get(f"{site.agent(TASKS[0]).place}/world", headers={"accept": "text/html"}).status_code == 404


def test_nobody_sees_a_demonstration_of_a_task_that_somebody_works_on() -> None:
    """The attack: start a session, and watch the expert solve the same task."""
    with Site() as site:
        before = _start_here(site, **_fields_of(TASKS[0]))
        for turn in (1, 2, 3):
            _step_here(site, before, turn)
        session_id = site.begin(TASKS[0])
        refused = site.send("/watch/new", {"agent": EXPERT} | _fields_of(TASKS[0]))
        pages = [refused, site.send(f"{before}/next", {"turn": "4"})]
        pages += [site.get(f"{before}{page}") for page in ("", "/events", "/world", "?view=agent")]
        for page in pages:
            assert (page.status_code, "still_open" in page.text) == (409, True)
            assert not tells(page.text, TASKS[0])
        assert tells(site.get(before, headers=AS_ADMIN).text, TASKS[0])
        good(site.post("/close", {"session_id": session_id}))
        assert _step_here(site, before, 4)["step"] == 4


def test_the_front_page_demonstrates_a_task_that_nobody_works_on() -> None:
    with Site() as site:
        for task_id in TASKS[1:]:
            site.begin(task_id)
        for _ in range(4):
            assert TASKS[0] in site.get(_start_here(site)).text
        site.begin(TASKS[0])
        assert site.send("/watch/new", {"agent": EXPERT}).status_code == 409


def test_an_abandoned_demonstration_does_not_withhold_a_verdict() -> None:
    with Site() as site:
        _step_here(site, _start_here(site, **_fields_of(TASKS[0])))
        session_id = site.begin(TASKS[0])
        site.make(session_id, [wrong_end(TASKS[0])])
        assert tells(site.get(f"/office/{session_id}/verdict").text, TASKS[0])


def test_visitors_cannot_make_calls_in_a_demonstration_nor_let_the_server_play_in_other_sessions(site: RunningSite) -> None:
    address = start(site.url)
    code = address.rpartition("/")[2]
    session_id = site.session_of_code(code).header.session_id
    pages = [httpx.get(f"{site.url}/watch").text, httpx.get(address).text, httpx.get(f"{address}/world").text]
    assert session_id not in "".join(pages)
    assert httpx.get(f"{site.url}/office/{code}").status_code == 404
    agent = site.agent(TASKS[0])
    assert step(agent.place).status_code == 422
    assert step(agent.place.replace(agent.code, "nothing")).status_code == 404
    assert step(address, turn=-1).status_code == 422
    assert site.session_of_code(agent.code).env.step_count == 0


def test_the_expert_of_a_demonstration_wins(site: RunningSite) -> None:
    address = start(site.url, **_fields_of(TASKS[2]))
    step(address, steps="all")
    env = make(TASKS[2])
    run_expert(env)
    assert len(calls_shown(httpx.get(address).text)) == env.step_count
