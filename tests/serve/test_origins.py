"""The checks of the headers `Host` and `Origin`."""

import pytest

from companyos.serve.access.origins import Origins
from companyos.serve.errors import ServeError
from companyos.serve.ops.settings import Settings
from tests.serve.servers import AppClient, code_of, good
from tests.serve.sockets import socket

HERE = {"host": "127.0.0.1:8000"}


def verdict(settings: Settings, host: str, origin: str = "", method: str = "POST") -> str:
    """The code of the refusal, or nothing."""
    given = {b"host": host.encode(), **({b"origin": origin.encode()} if origin else {})}
    try:
        Origins(settings).check({"type": "http", "method": method}, given)
    except ServeError as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", ""])
def test_a_server_of_this_machine_answers_under_its_names_only(host: str) -> None:
    assert verdict(Settings(), host) == ""
    for other in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "a b"):
        assert verdict(Settings(), other) == "wrong_host"


def test_a_server_that_others_can_reach_answers_under_any_name_unless_some_are_given() -> None:
    assert verdict(Settings(host="0.0.0.0"), "companyos.example") == ""
    named = Settings(host="0.0.0.0", allowed_hosts=("companyos.example",))
    assert [verdict(named, host) for host in ("companyos.example:443", "localhost:8000")] == ["", ""]
    assert verdict(named, "other.example") == "wrong_host"
    assert verdict(Settings(allowed_hosts=("*",)), "other.example") == ""


def test_pages_of_other_sites_may_not_write() -> None:
    settings = Settings(cors_origins=("https://here.example",))
    for origin in ("https://evil.example", "null", "http://127.0.0.1:8001", "http://[", "http://127.0.0.1.evil:8000"):
        assert verdict(settings, HERE["host"], origin) == "other_origin"
        assert verdict(settings, HERE["host"], origin, "GET") == ""  # which changes nothing, and whose reply it cannot read
    assert verdict(settings, HERE["host"], "http://127.0.0.1:8000") == ""
    assert verdict(settings, HERE["host"], "https://here.example") == ""
    assert (
        verdict(Settings(allowed_hosts=("a.example",)), HERE["host"], "https://a.example") == ""
    )  # a proxy changed the host


def test_rest_and_sockets_are_held_to_it_and_balancers_are_not() -> None:
    evil = {"origin": "https://evil.example"}
    with AppClient() as api:
        for place in ("/reset", "/step", "/rollout", "/fork", "/close", "/mcp", "/mcp-server"):
            assert code_of(api.post(place, {}, headers=evil)) == (403, "other_origin")
            assert code_of(api.post(place, {}, headers={"host": "evil.example"})) == (421, "wrong_host")
        assert code_of(api.get("/manifest", headers={"host": "evil.example"})) == (421, "wrong_host")
        for place in ("/health", "/ready"):
            good(api.get(place, headers={"host": "10.0.0.7:8000"}))
        for path in ("/ws", "/tools/ws"):
            assert socket(api, path, **HERE, **evil).first["status"] == 403
            assert socket(api, path, host="evil.example").first["status"] == 421
            assert socket(api, path, **HERE, origin="http://127.0.0.1:8000").first["type"] == "websocket.accept"
        assert api.get("/metrics").text.count('companyos_refusals_total{code="other_origin"} 9.0') == 1
