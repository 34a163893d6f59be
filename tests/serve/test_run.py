"""`companyos serve`: from its flags to a running server."""

from pathlib import Path

import httpx
import pytest

from companyos.env import task_named
from tests.serve.servers import AS_ADMIN, Expert, Server, good, result_of, serving, solo
from tests.shell import run


def digest(url: str, session_id: str) -> str:
    return str(good(httpx.get(f"{url}/inspect", params={"session_id": session_id}, headers=AS_ADMIN))["digest"])


def test_workers_share_sessions_and_counts(tmp_path: Path) -> None:
    task_id = str(task_named("vendor_onboarding", 7, 0.5))
    with serving(tmp_path / "ledger", WORKERS="2", LOG_LEVEL="debug", LOG_FORMAT="json") as server:
        expert = Expert(good(httpx.post(f"{server.url}/reset", json={"task": task_id})))
        while expert.call is not None:  # each over a connection of its own, so that whichever worker takes it
            expert.hear(good(httpx.post(f"{server.url}/step", json=expert.body)))
        assert result_of(expert, digest(server.url, expert.session_id)) == solo(task_id)
        assert f"companyos_steps_total {float(len(expert.rewards))}" in httpx.get(f"{server.url}/metrics").text


def test_it_ends_cleanly_and_goes_on_where_it_was(tmp_path: Path) -> None:
    server = Server(tmp_path / "ledger")
    server.start()
    expert = Expert(good(httpx.post(f"{server.url}/reset", json={"seed": 3})))
    expert.hear(good(httpx.post(f"{server.url}/step", json=expert.body)))
    before = digest(server.url, expert.session_id)
    code, said = server.stop()
    assert code == 0
    assert "ERROR" not in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("ledger-wal"))
    server.start()
    assert digest(server.url, expert.session_id) == before
    server.kill()


def test_bad_flags_and_bad_places_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": ""})  # flags become variables: none are to stay behind
    for flags, said in (
        (("--port", "http"), "COMPANYOS_PORT: "),
        (("--workers", "0"), "COMPANYOS_WORKERS: "),
        (("--workers", "2", "--ledger", "none"), "several workers"),
        (("--workers", "1", "--ledger", tmp_path), "cannot keep a ledger"),
    ):
        code, out, err = run("serve", *flags)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err


@pytest.mark.parametrize(
    ("settings", "warns"),
    [({"HOST": "0.0.0.0"}, True), ({"HOST": "0.0.0.0", "TOKENS": "alice"}, False), ({"HOST": "127.0.0.1"}, False)],
)
def test_a_server_that_is_open_to_everybody_says_so_loudly(settings: dict[str, str], warns: bool, tmp_path: Path) -> None:
    with serving(tmp_path / "ledger", **settings) as server:
        assert ("ANYBODY WHO CAN REACH" in server.said()) == warns
