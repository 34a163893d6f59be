"""The REST API: episodes over plain HTTP."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import companyos
from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.families import FAMILIES
from companyos.serve.ops.settings import Settings
from tests.helpers import FAMILY, STEADY, task_id
from tests.serve.servers import AS_ADMIN, AppClient, body_of, code_of, good

LIST = Call("ticketdesk", "list_tickets")
WAIT = {"app": "ticketdesk", "method": "list_tickets"}


@pytest.fixture
def api() -> Iterator[AppClient]:
    with AppClient() as made:
        yield made


def ended(api: AppClient) -> tuple[str, dict[str, Any]]:
    """A session that is over, and the reply to its last step."""
    name = api.reset()["session_id"]
    env = make(task_id(7, "50"))
    run_expert(env)
    for turn in env.turns:
        reply = good(api.step(name, turn.call))
    return name, reply


# -- episodes ----------------------------------------------------------------------------------------------------------


def test_reset_shows_what_an_agent_sees_first_and_names_the_task_beside_it(api: AppClient) -> None:
    begun, obs = api.reset(), make(task_id(7, "50")).reset()
    assert begun["task_id"] == task_id(7, "50")
    assert begun["observation"]["text"] == obs.text
    assert (begun["turn"], begun["reward"], begun["done"]) == (0, 0.0, False)


def test_reset_without_a_body_begins_the_first_task(api: AppClient) -> None:
    assert good(api.post("/reset"))["task_id"] == task_id(0, "0")


def test_a_task_is_chosen_by_its_id_or_by_family_seed_chaos_and_split(api: AppClient) -> None:
    assert api.reset(task=task_id(3, "25", "test"))["task_id"] == task_id(3, "25", "test")
    chosen = api.reset(task="expense_report", seed=4, chaos={"stale": 0.5}, split="validation", reward="score")
    assert chosen["task_id"].startswith("expense_report-v")
    assert chosen["task_id"].endswith("-validation-4-s50")


def test_a_session_is_named_in_a_header_in_the_body_or_in_the_query(api: AppClient) -> None:
    name = api.reset()["session_id"]
    assert good(api.post("/step", WAIT, headers={"X-Session-Id": name}))["turn"] == 1
    assert good(api.post("/step", WAIT | {"session_id": name}))["turn"] == 2
    assert good(api.post("/step", WAIT, params={"session_id": name}))["turn"] == 3
    assert good(api.post("/step", WAIT | {"session_id": name}, headers={"X-Session-Id": name}))["turn"] == 4


def test_a_step_has_a_reward_and_success_only_at_the_end(api: AppClient) -> None:
    name = api.reset()["session_id"]
    assert set(good(api.step(name, LIST))) == {"session_id", "turn", "observation", "reward", "done"}
    _, last = ended(api)
    assert (last["done"], last["success"]) == (True, True)


def test_progress_is_shown_to_those_who_asked_for_it_where_the_server_allows_it(api: AppClient) -> None:
    assert "progress" not in api.reset()["observation"]
    refused = api.post("/reset", {"progress": True})
    assert code_of(refused) == (422, "malformed")
    assert "COMPANYOS_PROGRESS" in refused.json()["error"]["message"]
    with AppClient(progress=True) as other:
        assert "progress" not in other.reset()["observation"]
        assert other.reset(progress=True)["observation"]["progress"] == []


def test_what_the_company_refuses_is_a_reply_and_no_error(api: AppClient) -> None:
    name = api.reset(chaos=0)["session_id"]
    for call, code in (
        (Call("ticketdesk", "get_ticket", {"ticket_id": "T-0"}), "not_found"),
        (Call("ticketdesk", "get_ticket", {"ticket": 1}), "bad_arguments"),
        (Call("ticketdesk", "fly"), "unknown_tool"),
    ):
        assert good(api.step(name, call))["observation"]["code"] == code


def test_a_turn_sent_twice_happens_once(api: AppClient) -> None:
    name = api.reset()["session_id"]
    first = good(api.step(name, LIST, turn=1))
    assert good(api.step(name, LIST, turn=1)) == first
    assert code_of(api.step(name, Call("ticketdesk", "my_changes"), turn=1)) == (409, "turn_taken")
    assert code_of(api.step(name, LIST, turn=3)) == (409, "turn_ahead")
    assert good(api.step(name, LIST, turn=2))["turn"] == 2


def test_forks_are_sessions_of_their_own(api: AppClient) -> None:
    name = api.reset()["session_id"]
    good(api.step(name, LIST))
    forks = good(api.post("/fork", {"session_id": name, "count": 3}))
    assert forks["turn"] == 1
    assert len({name, *forks["session_ids"]}) == 4
    good(api.step(forks["session_ids"][0], LIST))
    assert api.digest(forks["session_ids"][1]) == api.digest(name) != api.digest(forks["session_ids"][0])


def test_a_rollout_answers_each_step_by_itself(api: AppClient) -> None:
    one, two = api.reset()["session_id"], api.reset(seed=8)["session_id"]
    over, last = ended(api)
    steps = [body_of(one, LIST), body_of("nobody", LIST), body_of(over, LIST), body_of(two, LIST) | {"turn": 1}]
    answers = good(api.post("/rollout", {"steps": steps}))["answers"]
    assert [answer["status"] for answer in answers] == [200, 404, 409, 200]
    assert answers[0]["result"]["session_id"] == one
    assert answers[1]["error"]["code"] == "unknown_session"
    assert (answers[2]["error"]["code"], answers[2]["result"]) == ("session_over", last)
    assert good(api.post("/rollout", {"steps": []})) == {"answers": []}


# -- what can be seen --------------------------------------------------------------------------------------------------


def test_render_shows_what_the_agent_sees_in_three_forms(api: AppClient) -> None:
    begun = api.reset()
    where = {"session_id": begun["session_id"]}
    assert api.get("/render", params=where).text == begun["observation"]["text"]
    reply = good(api.step(begun["session_id"], Call("ticketdesk", "<b>&")))
    text = api.get("/render", params=where)
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text == f"{begun['observation']['task']}\n\n{reply['observation']['text']}"
    assert good(api.get("/render", params=where | {"view": "json"})) == reply["observation"]
    page = api.get("/render", params=where | {"view": "html"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "&lt;b&gt;&amp;" in page.text
    assert "<b>" not in page.text


def test_render_shows_neither_task_id_nor_reward_nor_success(api: AppClient) -> None:
    name, _ = ended(api)
    for view in ("text", "html", "json"):
        page = api.get("/render", params={"session_id": name, "view": view}).text
        assert FAMILY + "-v" not in page
        assert not [word for word in ("reward", "success", 'done":') if word in page]


def test_the_manifest_lists_families_and_tools(api: AppClient) -> None:
    found = good(api.get("/manifest"))
    assert found["families"] == list(FAMILIES)
    assert found["tools"] == companyos.tools()
    assert found["benchmark_version"] == companyos.BENCHMARK_VERSION
    assert found["capacity"] == Settings().capacity


def test_health_metrics_and_docs_answer(api: AppClient) -> None:
    good(api.step(api.reset()["session_id"], LIST))
    assert good(api.get("/health")) == {"status": "healthy"}
    counts = api.get("/metrics").text
    assert "companyos_steps_total 1.0" in counts
    assert "companyos_live_sessions 1.0" in counts
    assert 'companyos_request_seconds_count{place="/step",status="200"} 1.0' in counts
    assert api.get("/docs").status_code == 200
    described = good(api.get("/openapi.json"))
    for place in (
        "/reset",
        "/step",
        "/rollout",
        "/fork",
        "/close",
        "/render",
        "/inspect",
        "/manifest",
        "/health",
        "/metrics",
    ):
        assert place in described["paths"]
    body = described["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/StepBody"}
    assert described["components"]["schemas"]["StepBody"]["required"] == ["app", "method"]


def test_inspecting_needs_the_admins_token_and_is_not_there_without_one(api: AppClient) -> None:
    name = api.reset()["session_id"]
    where = {"session_id": name}
    assert code_of(api.get("/inspect", params=where)) == (401, "wrong_token")
    assert code_of(api.get("/inspect", params=where, headers={"authorization": "Bearer no"})) == (401, "wrong_token")
    whole = good(api.get("/inspect", params=where, headers=AS_ADMIN))
    env = make(task_id(7, "50"))
    assert whole["digest"] == env.digest()
    assert whole["causes"] == msgspec.to_builtins(env.setting.causes)
    assert env.setting.case.ticket_id in [ticket["id"] for ticket in whole["records"]["Ticket"]]
    assert whole["other_records"]["Ticket"] > 4000
    with AppClient(admin_token="") as closed:
        where = {"session_id": closed.reset()["session_id"]}
        assert code_of(closed.get("/inspect", params=where, headers={"authorization": "Bearer "})) == (404, "no_such_place")


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_unknown_session_is_404(api: AppClient) -> None:
    for name in ("nobody", "ü" * 10, "\x00", "x" * 64):
        assert code_of(api.post("/step", WAIT | {"session_id": name})) == (404, "unknown_session")
    for place in ("/fork", "/close"):
        assert code_of(api.post(place, {"session_id": "nobody"})) == (404, "unknown_session")
    assert code_of(api.get("/render", params={"session_id": "nobody"})) == (404, "unknown_session")


def test_a_closed_session_is_404(api: AppClient) -> None:
    name = api.reset()["session_id"]
    assert good(api.post("/close", {"session_id": name}))["closed"]
    assert code_of(api.step(name, LIST)) == (404, "unknown_session")


def test_an_ended_session_is_409_with_its_final_result(api: AppClient) -> None:
    name, last = ended(api)
    again = api.step(name, LIST)
    assert code_of(again) == (409, "session_over")
    assert again.json()["result"] == last


def test_a_session_of_another_version_is_410(api: AppClient) -> None:
    ledger = api.app.state.sessions.ledger
    header = ledger.read(api.reset()["session_id"]).header
    ledger.begin([msgspec.structs.replace(header, session_id="old", version=1)])
    assert code_of(api.step("old", LIST)) == (410, "other_version")
    assert code_of(api.get("/render", params={"session_id": "old"})) == (410, "other_version")


def test_over_capacity_is_503_and_says_when_to_come_again() -> None:
    with AppClient(capacity=1, idle_seconds=50.0) as api:
        name = api.reset()["session_id"]
        full = api.post("/reset", {})
        assert code_of(full) == (503, "over_capacity")
        assert 1 <= int(full.headers["retry-after"]) <= 50
        good(api.post("/close", {"session_id": name}))
        api.reset()


@pytest.mark.parametrize(
    ("place", "body", "named"),
    [
        ("/step", {"method": "list_tickets"}, "`app`"),
        ("/step", WAIT | {"app": 1}, "$.app"),
        ("/step", WAIT | {"params": []}, "$.params"),
        ("/step", WAIT | {"turn": 0}, "$.turn"),
        ("/step", WAIT | {"turn": "1"}, "$.turn"),
        ("/step", WAIT | {"turn": 10**40}, "$.turn"),
        ("/step", WAIT | {"luck": 1}, "`luck`"),
        ("/step", WAIT | {"session_id": 7}, "$.session_id"),
        ("/step", WAIT, "session_id"),
        ("/step", [], "object"),
        ("/rollout", {"steps": [WAIT]}, "`session_id` - at `$.steps[0]`"),
        ("/rollout", {"steps": {}}, "$.steps"),
        ("/rollout", {}, "`steps`"),
        ("/fork", {"session_id": "x", "count": 0}, "$.count"),
        ("/fork", {"session_id": "x", "count": 10**6}, "$.count"),
        ("/reset", {"seed": -1}, "$.seed"),
        ("/reset", {"seed": 1.5}, "$.seed"),
        ("/reset", {"seed": True}, "$.seed"),
        ("/reset", {"chaos": 2}, "$.chaos"),
        ("/reset", {"chaos": "much"}, "$.chaos"),
        ("/reset", {"chaos": {"weather": 1}}, "$.chaos"),
        ("/reset", {"reward": "generous"}, "$.reward"),
        ("/reset", {"task": "x" * 1000}, "$.task"),
        ("/reset", {"task": task_id(), "seed": 1}, "$.seed"),
    ],
)
def test_a_malformed_body_is_422_and_names_the_field(api: AppClient, place: str, body: Any, named: str) -> None:
    reply = api.post(place, body)
    assert code_of(reply) == (422, "malformed")
    assert named in reply.json()["error"]["message"]


def test_two_sessions_named_at_once_are_malformed(api: AppClient) -> None:
    reply = api.post("/step", WAIT | {"session_id": "a"}, headers={"X-Session-Id": "b"})
    assert code_of(reply) == (422, "malformed")


def test_a_bad_view_is_malformed(api: AppClient) -> None:
    reply = api.get("/render", params={"view": "4d", "session_id": "x"})
    assert code_of(reply) == (422, "malformed")
    assert "query.view" in reply.json()["error"]["message"]


@pytest.mark.parametrize("task", ["space_travel", f"{FAMILY}-7", f"{FAMILY}-v1-train-7-50", task_id() + "-luck.true"])
def test_a_task_that_there_is_not_is_422(api: AppClient, task: str) -> None:
    assert code_of(api.post("/reset", {"task": task})) == (422, "bad_task")


def test_overrides_in_a_task_id_that_do_not_hold_tell_nothing_of_the_causes(api: AppClient) -> None:
    causes = FAMILIES[FAMILY].specs()
    for name in ("luck", *(cause.name for cause in causes)):
        for value in ("nonsense", "0", "1"):
            reply = api.post("/reset", {"task": f"{task_id()}-{name}.{value}"})
            if reply.status_code != 200:
                assert reply.json()["error"]["message"] == f"'{task_id()}-{name}.{value}' is not a task"


@pytest.mark.parametrize(
    "raw",
    [b"{", b"null", b"\xff", b'{"app": "\\ud800", "method": ""}', b"[" * 100_000, b'{"app":' * 50_000, b"NaN", b"1" * 9999],
)
def test_bytes_that_are_no_json_are_422(api: AppClient, raw: bytes) -> None:
    for place in ("/reset", "/step", "/rollout", "/fork", "/close"):
        assert code_of(api.post(place, content=raw)) == (422, "malformed")


def test_arguments_nested_too_deep_are_422_and_cost_no_turn(api: AppClient) -> None:
    name = api.reset()["session_id"]
    deep = b'{"session_id":"%s","app":"ticketdesk","method":"wait","params":{"a":%s1%s}}'
    for depth in (90, 500, 100_000):
        raw = deep % (name.encode(), b"[" * depth, b"]" * depth)
        assert code_of(api.post("/step", content=raw)) == (422, "malformed")
    assert good(api.step(name, LIST))["turn"] == 1


def test_a_place_that_is_not_there_is_404_and_another_method_405(api: AppClient) -> None:
    assert code_of(api.get("/nowhere")) == (404, "no_such_place")
    wrong = api.get("/step")
    assert code_of(wrong) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"


# -- fuzz --------------------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_TOOLS = [(schema["function"]["name"].split("_", 1)) for schema in companyos.tools()]
_CALLS = st.builds(
    lambda tool, params, more: {"app": tool[0], "method": tool[1], "params": params} | more,
    st.sampled_from(_TOOLS),
    st.dictionaries(
        st.sampled_from(["ticket_id", "page", "text", "minutes", "note", "evidence"]) | st.text(), _JSON, max_size=4
    ),
    st.dictionaries(st.sampled_from(["turn", "session_id", "app", "params", "luck"]), _JSON, max_size=1),
)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[AppClient]:
    with AppClient() as made:
        yield made


def at_work(api: AppClient) -> dict[str, str]:
    """A header with a session that is not over."""
    live = api.app.state.sessions.cache
    name = next((session.header.session_id for session in live if not session.env.done), None)
    return {"X-Session-Id": name or api.reset()["session_id"]}


@settings(STEADY, max_examples=400)
@given(body=_CALLS | _JSON)
def test_whatever_is_sent_to_step_is_answered_and_never_by_a_failure_of_ours(fuzzed: AppClient, body: Any) -> None:
    reply = fuzzed.post("/step", body, headers=at_work(fuzzed))
    assert reply.status_code in (200, 404, 409, 422), reply.text
    if reply.status_code != 200:
        code_of(reply)


@settings(STEADY, max_examples=300)
@given(raw=st.binary(max_size=200), place=st.sampled_from(["/step", "/reset", "/rollout", "/fork", "/close"]))
def test_whatever_bytes_are_sent_are_answered(fuzzed: AppClient, raw: bytes, place: str) -> None:
    reply = fuzzed.post(place, content=raw, headers=at_work(fuzzed))
    assert reply.status_code in (200, 422), reply.text
