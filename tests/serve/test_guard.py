"""The guard: the checks that every request passes."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest

from companyos.core.calls import Call
from companyos.serve.ops.logs import JsonLines, TextLines
from companyos.serve.sessions.sessions import Sessions
from tests.serve.servers import AS_ADMIN, AppClient, body_of, code_of, good

LIST = Call("ticketdesk", "list_tickets")
ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "bearer bob"}


def test_with_tokens_every_place_but_health_needs_one() -> None:
    with AppClient(tokens=("alice", "bob")) as api:
        for headers in ({}, {"authorization": "Bearer eve"}, {"authorization": "Basic alice"}, {"authorization": "Bearer"}):
            for place in ("/manifest", "/metrics", "/docs", "/openapi.json", "/render", "/nowhere"):
                refused = api.get(place, headers=headers)
                assert code_of(refused) == (401, "wrong_token")
                assert refused.headers["www-authenticate"] == "Bearer"
            assert code_of(api.post("/reset", {}, headers=headers)) == (401, "wrong_token")
        assert api.get("/health").status_code == 200
        assert api.get("/manifest", headers=BOB).status_code == 200


def test_one_callers_token_does_not_reach_anothers_session() -> None:
    with AppClient(tokens=("alice", "bob")) as api:
        name = good(api.post("/reset", {}, headers=ALICE))["session_id"]
        body = body_of(name, LIST)
        assert code_of(api.post("/step", body, headers=BOB)) == (404, "unknown_session")
        assert good(api.post("/rollout", {"steps": [body]}, headers=BOB))["answers"][0]["status"] == 404
        for place in ("/fork", "/close"):
            assert code_of(api.post(place, {"session_id": name}, headers=BOB)) == (404, "unknown_session")
        assert code_of(api.get("/render", params={"session_id": name}, headers=BOB)) == (404, "unknown_session")
        assert good(api.post("/step", body, headers=ALICE))["turn"] == 1
        assert good(api.get("/inspect", params={"session_id": name}, headers=AS_ADMIN))["turns"]


@pytest.mark.parametrize("place", ["/reset", "/step", "/rollout", "/fork", "/close"])
def test_a_body_that_is_too_large_is_413_whether_it_says_so_or_not(place: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    with AppClient(body_limit=1000) as api:
        assert code_of(api.post(place, content=b"x" * 1001)) == (413, "too_large")
        assert code_of(api.post(place, content=pieces())) == (413, "too_large")
        assert code_of(api.post(place, content=b"x" * 1000)) == (422, "malformed")


def test_a_body_that_takes_too_long_is_408() -> None:
    async def dribble() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
        yield b"}"

    with AppClient(request_seconds=0.05) as api:
        assert code_of(api.post("/reset", content=dribble())) == (408, "too_slow")


def test_every_reply_has_a_request_id_and_a_good_one_is_kept() -> None:
    with AppClient() as api:
        assert api.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
        for bad in ("", "a b", "x" * 65, "<script>"):
            assert len(api.get("/nowhere", headers={"x-request-id": bad}).headers["x-request-id"]) == 16


def test_browsers_of_chosen_origins_may_call_and_others_may_not() -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-session-id"}  # without a token
    with AppClient(cors_origins=("https://here.example",), tokens=("alice",)) as api:
        post = {"origin": "https://here.example", **ALICE}
        assert api.post("/reset", {}, headers=post).headers["access-control-allow-origin"] == "https://here.example"
        assert "access-control-allow-origin" not in api.post("/reset", {}, headers=post | {"origin": "https://x"}).headers
        assert api.options("/reset", headers=asks | {"origin": "https://here.example"}).status_code == 200


def test_a_bug_is_500_logged_with_its_trace_and_tells_the_caller_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the cause is cfo_away")

    monkeypatch.setattr(Sessions, "observe", broken)
    with AppClient() as api:
        reply = api.get("/render", params={"session_id": "x"}, headers={"x-request-id": "mine-1"})
    assert code_of(reply) == (500, "bug")
    assert reply.headers["x-request-id"] == "mine-1", "the reply asks to report it"
    assert "cfo_away" not in reply.text
    assert [record.levelname for record in caplog.records if record.name == "companyos.requests"] == ["ERROR"]


def test_requests_are_logged_with_their_id_and_without_the_session(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "companyos")
    with AppClient() as api:
        name = api.reset()["session_id"]
        api.post("/step", {"app": "a", "method": "b"}, params={"session_id": name}, headers={"x-request-id": "mine-1"})
    records = [record for record in caplog.records if record.name == "companyos.requests"]
    assert [record.levelname for record in records] == ["INFO", "DEBUG"]
    line = json.loads(JsonLines().format(records[1]))
    assert {"event": "request", "place": "/step", "status": 200, "request_id": "mine-1"}.items() <= line.items()
    assert " place=/step status=200" in TextLines("%(message)s").format(records[1])
    assert name not in json.dumps(line)


def test_a_trace_is_part_of_the_line() -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError as error:
        record = logging.makeLogRecord({"msg": "oh", "exc_info": (type(error), error, error.__traceback__)})
    assert "RuntimeError: broken" in json.loads(JsonLines().format(record))["trace"]


def test_a_log_line_has_the_fields_of_its_event_and_no_private_ones_of_libraries() -> None:
    record = logging.makeLogRecord({"msg": "request", "status": 200, "_ray_timestamp_ns": 1})
    line = json.loads(JsonLines().format(record))
    assert line["status"] == 200
    assert "_ray_timestamp_ns" not in line
