"""Exams: agents only, one attempt for each task, and no result in any reply."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from companyos.core.calls import Call
from companyos.env import make, run_expert, task_named
from companyos.families import FAMILIES
from companyos.families.kit.family import write_value
from companyos.integrations.client import Company
from companyos.serve.access.roles import MCP_PATH, digest_of
from companyos.serve.ops.settings import BadSetting, Settings
from companyos.serve.sessions.exam import ExamResult, attempts
from tests.helpers import FAMILY
from tests.serve.servers import ADMIN, AppClient, body_of, code_of, good, serving
from tests.serve.sockets import action, socket

ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}
TASK = str(task_named(FAMILY, 7, 0.5))
LIST = Call("ticketdesk", "list_tickets")
TRUTH = ("task_id", "reward", "success", "agent_token", "progress")


@pytest.fixture
def exam(tmp_path: Path) -> Iterator[AppClient]:
    with opened(tmp_path) as api:
        yield api


def opened(folder: Path) -> AppClient:
    return AppClient(exam=True, agent_tokens=("alice", "bob"), ledger=str(folder / "ledger"))


def reset(api: AppClient, headers: dict[str, str] = ALICE, **body: Any) -> httpx.Response:
    return api.post("/reset", body, headers=headers)


def test_an_exam_is_for_agents_who_bring_one_of_its_tokens(exam: AppClient) -> None:
    for headers in ({}, {"authorization": "Bearer eve"}):
        assert code_of(reset(exam, headers)) == (401, "wrong_token")
    assert good(reset(exam))["observation"]["step"] == 0
    assert exam.get("/health").status_code == 200


def test_no_reply_has_a_task_id_a_reward_or_a_verdict(exam: AppClient) -> None:
    env = make(TASK)
    run_expert(env)
    begun = reset(exam, task=TASK)
    replies = [begun.text]
    name = good(begun)["session_id"]
    for turn in env.turns:
        replies.append(exam.post("/step", body_of(name, turn.call), headers=ALICE).text)
    replies.append(exam.post("/step", body_of(name, LIST), headers=ALICE).text)
    replies += [exam.get(f"/{look}", params={"session_id": name}, headers=ALICE).text for look in ("render", "state")]
    assert '"done":true' in replies[-3]
    for text in replies:
        assert not [word for word in TRUTH if f'"{word}":' in text]
        assert TASK not in text


@pytest.mark.parametrize("token", ["alice", ADMIN])
def test_forks_rollouts_inspections_and_lists_of_tasks_are_closed_to_everybody(exam: AppClient, token: str) -> None:
    name = good(reset(exam))["session_id"]
    headers = {"authorization": f"Bearer {token}"}
    for place in ("/fork", "/rollout", "/companyos/task", "/companyos/tasks", "/companyos/task_range"):
        assert code_of(exam.post(place, {"session_id": name}, headers=headers)) == (403, "not_for_agents")
    assert code_of(exam.get("/inspect", params={"session_id": name}, headers=headers)) == (403, "not_for_agents")


def test_only_who_runs_the_server_reads_its_counts(exam: AppClient) -> None:
    assert exam.get("/metrics", headers={"authorization": f"Bearer {ADMIN}"}).status_code == 200
    assert code_of(exam.get("/metrics", headers=ALICE)) == (403, "not_for_agents")


def test_places_that_an_exam_has_are_few(exam: AppClient) -> None:
    open_places = set()
    for route in exam.app.routes:
        if isinstance(route, Route):
            ask = exam.get if "GET" in (route.methods or ()) else exam.post
            if ask(route.path, headers=ALICE).status_code != 403:
                open_places.add(route.path)
    assert open_places == {
        "/reset", "/step", "/render", "/manifest", "/close", "/health", "/ready", "/docs", "/openapi.json",
        "/list_environments", "/mcp", "/state", "/schema", "/metadata",
        "/tools/mcp", "/tools/state", "/tools/schema", "/tools/metadata",
        "/tools/health", "/companyos/splits", "/companyos/num_tasks", MCP_PATH,
    }  # fmt: skip


def test_a_task_is_begun_once_by_a_token_at_whatever_dose_and_at_whatever_endpoint(exam: AppClient) -> None:
    good(reset(exam, task=TASK))
    for again in ({"task": TASK}, {"task": FAMILY, "seed": 7, "chaos": 0.0}, {"task": f"{TASK}-w3"}):
        refused = reset(exam, **again)
        assert code_of(refused) == (409, "attempt_used")
        assert "one attempt" in refused.json()["error"]["message"]
    line = socket(exam, **ALICE)
    assert line.say("reset", {"task": TASK})["data"]["reason"] == "attempt_used"
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {"task": TASK}}
    assert good(exam.post("/mcp", rpc, headers=ALICE))["error"]["data"]["code"] == "attempt_used"
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "episode_look", "arguments": {}}}
    host = ALICE | {"accept": "application/json", "mcp-session-id": "m" * 32}
    reply = good(exam.post(MCP_PATH, listing, headers=host, params={"task": FAMILY, "seed": "7"}))
    assert reply["result"]["_meta"]["companyos"] == {"error": "attempt_used"}
    good(reset(exam, BOB, task=TASK))
    good(reset(exam, task=FAMILY, seed=8))
    good(reset(exam, task=FAMILY, seed=7, split="test"))


def test_an_attempt_is_used_up_for_other_workers_and_after_a_restart_and_by_closing(tmp_path: Path) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        name = good(reset(one, task=TASK))["session_id"]
        assert code_of(reset(other, task=TASK)) == (409, "attempt_used")
        good(one.post("/close", {"session_id": name}, headers=ALICE))
        assert code_of(reset(one, task=TASK)) == (409, "attempt_used")
    with opened(tmp_path) as again:
        assert code_of(reset(again, task=TASK)) == (409, "attempt_used")


def test_a_reset_that_fails_uses_no_attempt(tmp_path: Path) -> None:
    settings = {"exam": True, "agent_tokens": ("alice",), "ledger": str(tmp_path / "ledger")}
    with AppClient(**settings) as api:
        for wrong in ({"reward": "none"}, {"chaos": 7}, {"task": "nothing"}, {"observation": "screenshot"}):
            body: dict[str, Any] = {"task": FAMILY, "seed": 7} | wrong
            assert reset(api, ALICE, **body).status_code in (409, 422)
        good(reset(api, task=TASK))


def test_what_was_closed_is_kept_for_whoever_judges_it(tmp_path: Path) -> None:
    with opened(tmp_path) as api:
        name = good(reset(api, task=TASK))["session_id"]
        good(api.post("/step", body_of(name, LIST), headers=ALICE))
        good(api.post("/close", {"session_id": name}, headers=ALICE))
    assert attempts(str(tmp_path / "ledger")) == [ExamResult(digest_of("alice"), TASK, 1, False, False)]


def test_whoever_has_the_ledger_reads_how_each_attempt_went(tmp_path: Path) -> None:
    env = make(TASK)
    run_expert(env)
    with opened(tmp_path) as api:
        for headers, calls in ((ALICE, env.turns), (BOB, env.turns[:1])):
            name = good(reset(api, headers, task=TASK))["session_id"]
            for turn in calls:
                good(api.post("/step", body_of(name, turn.call), headers=headers))
    found = {one.owner: (one.steps, one.done, one.success) for one in attempts(str(tmp_path / "ledger"))}
    assert found == {digest_of("alice"): (len(env.turns), True, True), digest_of("bob"): (1, False, False)}


def test_overrides_are_refused_in_the_same_words_whatever_they_say(exam: AppClient) -> None:
    said = set()
    for cause in FAMILIES[FAMILY].specs():
        for value in (*map(write_value, cause.alternatives), "nonsense"):
            said.add(reset(exam, task=f"{TASK}-{cause.name}.{value}").text)
    said |= {reset(exam, task=f"{TASK}-luck.1").text, reset(exam, task="nothing.at.all").text}
    [text] = said
    assert "bad_task" in text


def test_no_reset_of_an_exam_shows_progress(exam: AppClient) -> None:
    assert code_of(reset(exam, progress=True)) == (422, "malformed")
    line = socket(exam, **ALICE)
    assert line.say("reset", {"progress": True})["data"]["reason"] == "malformed"


def test_at_a_socket_of_an_exam_one_resets_and_steps_without_rewards(exam: AppClient) -> None:
    line = socket(exam, **ALICE)
    begun = line.say("reset", {"task": TASK})["data"]
    heard = line.say("step", action(LIST))["data"]
    assert (begun["reward"], heard["reward"], heard["observation"]["step"]) == (None, None, 1)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"AGENT_TOKENS": "a"}, "COMPANYOS_EXAM"),
        ({"EXAM": "1", "TOKENS": "a"}, "AGENT_TOKENS"),
        ({"EXAM": "1", "PROGRESS": "1"}, "PROGRESS"),
        ({"EXAM": "1", "LEDGER": "none"}, "ledger"),
    ],
)
def test_settings_that_contradict_an_exam_are_refused_in_one_line(variables: dict[str, str], why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        Settings.read({f"COMPANYOS_{name}": value for name, value in variables.items()})


def test_the_client_sits_an_exam(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger", EXAM="1", AGENT_TOKENS="alice") as server, Company(server.url, "alice") as company:
        obs = company.reset(TASK)
        assert company.step(LIST).reward == 0.0
        assert (company.task_id, company.agent_token, company.success) == ("", "", None)
        assert obs.task == make(TASK).reset().task
