"""Quotas: how much of the server one token may use, and how many wrong tokens one address may send."""

import pytest

from companyos.core.calls import Call
from companyos.serve.access.quotas import MAX_WRONG_TOKENS, MINUTE, Quotas, SessionQuota, SignInLimiter
from companyos.serve.errors import OverQuota, TooManySignIns
from companyos.serve.ledger import MemoryLedger, SessionHeader
from tests.serve.servers import AppClient, body_of, code_of, good
from tests.serve.sockets import socket
from tests.serve.test_sessions import Clock

LIST = Call("ticketdesk", "list_tickets")
ALICE, BOB, EVE = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob", "eve"))


def test_guessing_is_stopped_for_a_minute_and_who_was_right_before_goes_on() -> None:
    clock = Clock()
    limiter = SignInLimiter(clock)
    limiter.record_valid("here", b"alice")
    for _ in range(MAX_WRONG_TOKENS):
        limiter.check("here", b"guess")
        limiter.record_wrong("here")
    with pytest.raises(TooManySignIns) as slow:
        limiter.check("here", b"bob")  # refused without a check, whether right or wrong
    assert slow.value.retry_after == MINUTE
    limiter.check("here", b"alice")
    limiter.check("elsewhere", b"bob")
    clock.now += MINUTE
    limiter.check("here", b"bob")
    limiter.record_wrong("here")
    limiter.check("here", b"bob")


def test_wrong_tokens_are_limited_without_being_looked_at() -> None:
    with AppClient(tokens=("alice", "bob")) as api:
        good(api.get("/manifest", headers=ALICE))
        for _ in range(MAX_WRONG_TOKENS):
            assert code_of(api.get("/manifest", headers=EVE)) == (401, "wrong_token")
        for headers in (EVE, BOB):
            slow = api.post("/reset", {}, headers=headers)
            assert code_of(slow) == (429, "too_many_sign_ins")
            assert 0 < int(slow.headers["retry-after"]) <= MINUTE
            refused = socket(api, authorization=headers["authorization"]).first
            assert refused["status"] == 429
        good(api.get("/manifest", headers=ALICE))
        assert code_of(api.get("/manifest")) == (401, "wrong_token")  # a request without a token is still told so


def test_a_token_sends_so_many_bytes_a_minute() -> None:
    clock = Clock()
    quotas = Quotas(1000, 1, clock)
    quotas.record_bytes("alice", 1000)
    quotas.check_bytes("alice")
    quotas.record_bytes("alice", 1)
    clock.now += 20
    with pytest.raises(OverQuota) as over:
        quotas.check_bytes("alice")
    assert over.value.retry_after == 40
    quotas.check_bytes("bob")
    clock.now += 40
    quotas.check_bytes("alice")
    quotas.record_bytes("", 5000)
    quotas.check_bytes("")


def test_one_token_that_sends_too_much_does_not_stop_another() -> None:
    with AppClient(tokens=("alice", "bob"), token_bytes=2000) as api:
        name = good(api.post("/reset", {}, headers=ALICE))["session_id"]
        long = body_of(name, Call("ticketdesk", "list_tickets", {"status": "x" * 1900}))
        good(api.post("/step", long, headers=ALICE))
        assert code_of(api.post("/step", long, headers=ALICE)) == (429, "over_quota")
        good(api.post("/reset", {}, headers=BOB))


def test_one_token_holds_so_many_sockets_open() -> None:
    alice = {"authorization": "Bearer alice"}
    with AppClient(tokens=("alice", "bob"), token_sockets=2) as api:
        first, _ = socket(api, **alice), socket(api, **alice)
        assert socket(api, **alice).first["status"] == 429
        assert socket(api, authorization="Bearer bob").first["type"] == "websocket.accept"
        first.drop()
        assert socket(api, **alice).first["type"] == "websocket.accept"


def test_one_token_has_so_many_sessions_wherever_they_were_begun() -> None:
    clock, ledger = Clock(), MemoryLedger()
    here, there = SessionQuota(3, clock), SessionQuota(3, clock)

    def begin(quota: SessionQuota, name: str) -> None:
        quota.take(ledger, "alice", 1)
        ledger.begin([SessionHeader(name, "task", "seed", False, 2, 0.0, "alice")])

    for name in "ab":
        begin(here, name)
    begin(there, "c")
    clock.now += 11
    for quota in (here, there):
        with pytest.raises(OverQuota):
            quota.take(ledger, "alice", 1)
    ledger.remove("a")
    clock.now += 2
    begin(here, "d")
    here.take(ledger, "bob", 3)
    here.take(ledger, "", 100)


def test_sessions_and_forks_over_the_quota_are_refused_and_closing_one_makes_room() -> None:
    with AppClient(tokens=("alice", "bob"), token_sessions=3) as api:
        names = [good(api.post("/reset", {}, headers=ALICE))["session_id"] for _ in range(2)]
        assert code_of(api.post("/fork", {"session_id": names[0], "count": 2}, headers=ALICE)) == (429, "over_quota")
        good(api.post("/fork", {"session_id": names[0]}, headers=ALICE))
        assert code_of(api.post("/reset", {}, headers=ALICE)) == (429, "over_quota")
        good(api.post("/reset", {}, headers=BOB))


def test_a_session_takes_only_so_many_bytes() -> None:
    with AppClient(session_bytes=1200) as api:
        name = api.reset()["session_id"]
        long = Call("ticketdesk", "list_tickets", {"status": "x" * 900})
        good(api.step(name, long))
        assert code_of(api.step(name, long)) == (413, "session_full")
        good(api.step(name, LIST))
