"""OpenEnv's WebSocket protocol, on sessions that survive the socket."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companyos.env import make, run_expert, task_named
from companyos.families import FAMILIES, SHORT_FAMILIES
from companyos.serve.openenv.protocol import Code
from companyos.serve.sessions.sessions import Sessions
from tests.serve.servers import AS_ADMIN, AppClient, code_of, good, result_of, solo
from tests.serve.sockets import Socket, action, as_rest, expert_at, play, play_by_tools, socket

TASKS = [str(task_named(name, seed, chaos)) for name in FAMILIES for seed, chaos in ((1, 0.0), (2, 0.5))]
LIST = {"app": "ticketdesk", "method": "list_tickets"}
SECOND = len(SHORT_FAMILIES) + 1  # of a split, the index of a task with the second seed


def begun(one: Socket, **given: Any) -> str:
    return str(one.say("reset", given)["data"]["metadata"]["session_id"])


def wrong(reply: dict[str, Any]) -> tuple[str, str]:
    """The code of an error, OpenEnv's and ours."""
    assert reply["type"] == "error"
    assert reply["data"]["message"]
    return reply["data"]["code"], reply["data"].get("reason", "")


# -- episodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["dense", "score"])
def test_episodes_over_a_socket_are_as_in_process(reward: str) -> None:
    with AppClient() as api:
        one = socket(api)
        for task_id in TASKS:
            expert = play(one, task_id, reward)
            assert result_of(expert, api.digest(expert.session_id)) == solo(task_id, reward)
            assert expert.success


def test_episodes_by_tools_of_one_name_are_as_in_process() -> None:
    with AppClient() as api:
        one = socket(api, "/tools/ws")
        for task_id in TASKS[::2]:
            expert = play_by_tools(one, task_id)
            assert result_of(expert, api.digest(expert.session_id)) == solo(task_id)


def test_episodes_by_mcp_messages_are_as_in_process() -> None:
    env = make(TASKS[1])
    run_expert(env)
    with AppClient() as api:
        one = socket(api)
        name = begun(one, task=TASKS[1])
        for turn in env.turns:
            params = {"name": f"{turn.call.app}_{turn.call.method}", "arguments": turn.call.params}
            rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            result = one.say("mcp", rpc)["data"]["result"]
            assert result["structuredContent"]["last_result"] == turn.reply.data
            assert result["isError"] == (not turn.reply.ok)
            assert "reward" not in json.dumps(result)
        assert result["done"]
        assert api.digest(name) == env.digest()
        assert one.say("mcp", rpc)["data"]["result"]["structuredContent"]["code"] == "episode_over"


def test_sockets_interleaved_at_random_do_not_mix() -> None:
    draw = random.Random(5)
    with AppClient(capacity=4 * len(TASKS)) as api:
        crew = []
        for task_id in TASKS * 2:
            one = socket(api)
            crew.append((one, expert_at(one.say("reset", {"task": task_id})["data"], task_id)))
        while at_work := [pair for pair in crew if pair[1].call is not None]:
            one, expert = draw.choice(at_work)
            assert expert.call is not None
            expert.hear(as_rest(one.say("step", action(expert.call))["data"]))
        found = [result_of(expert, api.digest(expert.session_id)) for _, expert in crew]
        assert found == [solo(task_id) for task_id in TASKS] * 2


def test_after_the_end_nothing_happens_and_nothing_is_paid() -> None:
    with AppClient() as api:
        one = socket(api)
        expert = play(one, TASKS[0])
        before = api.digest(expert.session_id)
        data = one.say("step", LIST)["data"]
        assert (data["observation"]["code"], data["reward"], data["done"]) == ("episode_over", 0.0, True)
        assert data["metadata"] == {"success": True}
        assert one.say("state")["data"]["step_count"] == len(expert.rewards)
        assert api.digest(expert.session_id) == before


def test_a_task_is_named_by_split_and_index_at_either_endpoint() -> None:
    with AppClient() as api:
        one = socket(api)
        brief = one.say("reset", {"split": "test", "index": SECOND, "chaos": 1})["data"]["observation"]["task"]
        rest = good(api.post("/reset", {"split": "test", "index": SECOND, "chaos": 1}))
        assert rest["task_id"].endswith("-test-1-100")
        assert rest["observation"]["task"] == brief
        for bad in ({"index": 7, "seed": 1}, {"index": 7, "task": "bug_escalation"}, {"index": 500, "split": "validation"}):
            assert code_of(api.post("/reset", bad))[0] == 422
            assert wrong(one.say("reset", bad))[0] == Code.EXECUTION_ERROR


# -- sessions and sockets ------------------------------------------------------------------------------------------------


def test_a_dropped_socket_leaves_its_session_to_the_next_one() -> None:
    with AppClient() as api:
        one = socket(api)
        expert = expert_at(one.say("reset", {"task": TASKS[1]})["data"], TASKS[1])
        while expert.call is not None:
            expert.hear(as_rest(one.say("step", action(expert.call))["data"]))
            one.drop()
            one = socket(api, query=f"session_id={expert.session_id}&episode_id=mine")
            assert one.say("state")["data"]["step_count"] == len(expert.rewards)
            assert one.say("state")["data"]["episode_id"] == "mine"
        assert result_of(expert, api.digest(expert.session_id)) == solo(TASKS[1])


def test_a_step_that_is_sent_again_with_its_turn_happens_once() -> None:
    with AppClient() as api:
        one = socket(api)
        name = begun(one)
        first = one.say("step", LIST | {"metadata": {"turn": 1}})
        one.drop()  # the reply was lost, say
        one = socket(api, query=f"session_id={name}")
        assert one.say("step", LIST | {"metadata": {"turn": 1}}) == first
        assert one.say("state")["data"]["step_count"] == 1
        other = {"app": "ticketdesk", "method": "my_changes", "metadata": {"turn": 1}}
        assert wrong(one.say("step", other)) == (Code.EXECUTION_ERROR, "turn_taken")
        assert wrong(one.say("step", LIST | {"metadata": {"turn": 5}})) == (Code.EXECUTION_ERROR, "turn_ahead")


def test_reset_and_close_forget_the_session_that_was_held() -> None:
    with AppClient(capacity=1) as api:
        one = socket(api)
        first, second = begun(one), begun(one)  # in the one place there is
        assert code_of(api.get("/render", params={"session_id": first})) == (404, "unknown_session")
        assert one.send(text='{"type": "close"}') == {"type": "websocket.close", "code": 1000}
        assert code_of(api.get("/render", params={"session_id": second})) == (404, "unknown_session")


def test_with_a_ledger_there_may_be_more_sockets_than_places_in_memory(tmp_path: Path) -> None:
    with AppClient(ledger=str(tmp_path / "it"), capacity=1) as api:
        crew = [socket(api) for _ in range(3)]
        for one in crew:
            begun(one)
        for _ in range(2):
            for one in crew:
                assert one.say("step", LIST)["type"] == "observation"
        assert [one.say("state")["data"]["step_count"] for one in crew] == [2, 2, 2]


def test_a_reset_that_is_refused_leaves_the_session_be() -> None:
    with AppClient() as api:
        one = socket(api)
        begun(one)
        one.say("step", LIST)
        for bad in (
            {"task": "nothing"},
            {"reward": "gold"},
            {"chaos": 7},
            {"seed": -1},
            {"colour": "red"},
            {"episode_id": 7},
        ):
            assert wrong(one.say("reset", bad))[0] == Code.EXECUTION_ERROR
        assert one.say("state")["data"]["step_count"] == 1


def test_an_unknown_session_is_said_and_the_socket_closed() -> None:
    with AppClient() as api:
        one = socket(api, query="session_id=nobody")
        assert wrong(one.said(one.hear())) == (Code.SESSION_ERROR, "unknown_session")
        assert one.hear()["type"] == "websocket.close"


def test_when_all_places_are_taken_it_is_said_and_one_that_is_freed_can_be_had() -> None:
    with AppClient(capacity=2) as api:
        one, other = socket(api), socket(api)
        begun(one)
        name = api.reset()["session_id"]
        assert wrong(other.say("reset")) == (Code.CAPACITY_REACHED, "over_capacity")
        good(api.post("/close", {"session_id": name}))
        assert begun(other)
        third = socket(api)  # more sockets than places for sessions
        assert wrong(third.said(third.hear())) == (Code.CAPACITY_REACHED, "over_capacity")


def test_with_tokens_a_socket_needs_one_and_reaches_its_own_sessions_only() -> None:
    with AppClient(tokens=("alice", "bob")) as api:
        for headers in ({}, {"authorization": "Bearer eve"}):
            assert socket(api, **headers).first["status"] == 401
        name = begun(socket(api, authorization="Bearer alice"))
        other = socket(api, query=f"session_id={name}", authorization="Bearer bob")
        assert wrong(other.said(other.hear())) == (Code.SESSION_ERROR, "unknown_session")
        again = socket(api, query=f"session_id={name}", authorization="Bearer alice")
        assert again.say("state")["data"]["step_count"] == 0


def test_state_holds_nothing_but_what_the_agent_has_seen() -> None:
    with AppClient() as api:
        one = socket(api)
        empty = {"episode_id": None, "step_count": 0, "now": "", "max_steps": 0, "done": False}
        assert one.say("state")["data"] == good(api.get("/state")) == empty
        seen = one.say("reset", {"task": TASKS[1], "episode_id": "mine"})["data"]
        name = seen["metadata"]["session_id"]
        state = one.say("state")["data"]
        assert state == good(api.get("/state", params={"session_id": name})) | {"episode_id": "mine"}
        assert set(state) == set(empty)
        assert (state["now"], state["max_steps"]) == (seen["observation"]["now"], seen["observation"]["max_steps"])
        assert TASKS[1] not in json.dumps([seen, state])


# -- frames that are none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ('{"type": "reset"', Code.INVALID_JSON),
        ("", Code.INVALID_JSON),
        ("[" * 100_000, Code.INVALID_JSON),
        ('{"type": "step", "data": ' + '{"app":' * 5000, Code.INVALID_JSON),
        ("null", Code.VALIDATION_ERROR),
        ("[1]", Code.VALIDATION_ERROR),
        ('{"type": "dance"}', Code.UNKNOWN_TYPE),
        ("{}", Code.UNKNOWN_TYPE),
        ('{"type": ["step"]}', Code.UNKNOWN_TYPE),
        ('{"type": "reset", "data": null}', Code.VALIDATION_ERROR),
        ('{"type": "reset", "more": 1}', Code.VALIDATION_ERROR),
        ('{"type": "state", "data": {}}', Code.VALIDATION_ERROR),
        ('{"type": "step"}', Code.VALIDATION_ERROR),
        ('{"type": "step", "data": {"app": 1, "method": "x"}}', Code.VALIDATION_ERROR),
        ('{"type": "step", "data": {"app": "a", "method": "b", "c": 1}}', Code.VALIDATION_ERROR),
        ('{"type": "step", "data": {"app": "a", "method": "b", "metadata": {"turn": "1"}}}', Code.VALIDATION_ERROR),
        ('{"type": "mcp"}', Code.VALIDATION_ERROR),
    ],
)
def test_a_frame_that_is_no_message_is_named_and_the_socket_lives_on(frame: str, code: Code) -> None:
    with AppClient() as api:
        one = socket(api)
        begun(one)
        assert wrong(one.said(one.send(text=frame))) == (code, "")
        assert one.say("step", LIST)["data"]["observation"]["step"] == 1


def test_a_frame_that_is_too_large_is_not_read() -> None:
    with AppClient(body_limit=1000) as api:
        one = socket(api)
        begun(one)
        assert wrong(one.say("step", LIST | {"params": {"x": "x" * 1000}})) == (Code.VALIDATION_ERROR, "too_large")
        assert one.say("state")["data"]["step_count"] == 0


def test_a_call_nested_too_deep_is_refused_and_no_step() -> None:
    with AppClient() as api:
        one = socket(api)
        begun(one)
        deep: Any = "x"
        for _ in range(200):
            deep = [deep]
        assert wrong(one.say("step", LIST | {"params": {"x": deep}})) == (Code.EXECUTION_ERROR, "malformed")
        assert wrong(one.said(one.send(bytes=b"\x00\xff")))[0] == Code.INVALID_JSON
        assert one.say("state")["data"]["step_count"] == 0


def test_a_bug_is_logged_and_tells_the_caller_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the cause is cfo_away")

    with AppClient() as api:
        one = socket(api)
        begun(one)
        with monkeypatch.context() as patch:
            patch.setattr(Sessions, "step_all", broken)
            reply = one.say("step", LIST)
        assert wrong(reply) == (Code.EXECUTION_ERROR, "bug")
        assert "cfo_away" not in json.dumps(reply)
        assert "cfo_away" in caplog.text
        assert one.say("step", LIST)["data"]["observation"]["step"] == 1


def test_before_a_reset_there_is_nothing_to_step() -> None:
    with AppClient() as api:
        one = socket(api)
        assert wrong(one.say("step", LIST)) == (Code.EXECUTION_ERROR, "not_begun")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["app", "method", "params", "metadata", "seed", "task", "chaos", "jsonrpc", "id", "name", "turn", "x"]
)
FRAMES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["reset", "step", "state", "mcp", "x"]) | JSON,
        "data": st.dictionaries(FIELDS, JSON) | JSON,
    },
)


def test_whatever_is_sent_is_answered_and_the_socket_lives_on() -> None:
    with AppClient() as api:

        @settings(max_examples=400, deadline=None)
        @given(st.lists(FRAMES.map(json.dumps) | st.text(max_size=40) | JSON.map(json.dumps), min_size=1, max_size=8))
        def fuzz(frames: list[str]) -> None:
            for path in ("/ws", "/tools/ws"):
                one = socket(api, path)
                for frame in frames:
                    reply = one.said(one.send(text=frame))
                    assert reply["type"] in ("observation", "state", "mcp", "error")
                    assert reply["type"] != "error" or wrong(reply)[1] != "bug"
                assert begun(one)
                assert one.send(text='{"type": "close"}')["type"] == "websocket.close"
            assert len(api.app.state.sessions) == 0

        fuzz()


def test_sockets_are_counted_like_requests() -> None:
    with AppClient() as api:
        one = socket(api)
        begun(one)
        one.say("step", LIST)
        one.drop()
        page = api.get("/metrics", headers=AS_ADMIN).text
        assert "companyos_steps_total 1.0" in page
        assert 'companyos_request_seconds_count{place="/ws",status="101"} 1.0' in page
