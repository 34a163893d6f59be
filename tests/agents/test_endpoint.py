"""The client of an endpoint retries where that can help, and always ends."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.agents.llm import endpoint as module
from companyos.agents.llm.endpoint import MAX_BYTES, TRIES, Answer, Endpoint, NoAnswer, asked_to_wait, pause_after
from companyos.core.errors import BadChoice
from tests.agents.fakes import Request, Response, completion, endpoint
from tests.helpers import STEADY

SHORT = 0.3  # timeout in seconds, for tests of slow requests


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between tries instead of waiting."""
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(module, "_sleep", note)
    return pauses


@contextmanager
def asking(*responses: Response, timeout: float = 30.0, key: str = "") -> Iterator[tuple[Callable[[], Answer], Any]]:
    """Ask a server that gives these answers in order, and repeats the last one."""
    remaining = list(responses)

    def answer(request: Request) -> Response:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    with endpoint(answer) as server, closing(Endpoint(server.url, key, timeout)) as client:
        yield lambda: client.ask({"model": "m", "messages": []}), server


def test_a_request_arrives_and_its_answer_comes_back() -> None:
    with asking(completion("Hello"), key="sesame") as (ask, server):
        answer = ask()
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "Hello"
    assert (answer.failures, server.requests) == (0, [{"model": "m", "messages": []}])
    assert server.headers[0]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_temporary_errors_are_retried(status: int, pauses: list[float]) -> None:
    with asking(Response(b"busy", status), Response(b"busy", status), completion("Hello")) as (ask, _):
        assert ask().failures == 2
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_permanent_errors_are_not_retried(status: int, pauses: list[float]) -> None:
    with asking(Response(b"no such\n model", status)) as (ask, server), pytest.raises(NoAnswer) as refused:
        ask()
    assert (len(server.requests), refused.value.status, pauses) == (1, status, [])
    assert f"{status}" in str(refused.value)
    assert str(refused.value).endswith("no such model")


def test_the_pause_that_a_server_asks_for_is_kept(pauses: list[float]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    waits = [Response(b"", 429, {"retry-after": value}) for value in ("7", soon, "86400", "soon")]
    with asking(*waits, completion("Hello")) as (ask, _):
        assert ask().failures == 4
    assert 7 <= pauses[0] <= 7.7
    assert 15 <= pauses[1] <= 22
    assert 60 <= pauses[2] <= 66  # a day is cut to a minute
    assert 2 <= pauses[3] <= 4  # an invalid header is ignored


BROKEN = {
    "nothing": Response(b"", raw=True),
    "no HTTP": Response(b"\x00\xff garbage\r\n\r\n", raw=True),
    "half a head": Response(b"HTTP/1.1 200 OK\r\ncontent-le", raw=True),
    "half a body": Response(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"choices"', raw=True),
    "half a chunk": Response(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{", raw=True),
    "bad chunks": Response(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n{}\r\n", raw=True),
    "an endless head": Response(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000, raw=True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_connection_is_retried_up_to_a_limit(name: str, pauses: list[float]) -> None:
    with asking(BROKEN[name], completion("Hello")) as (ask, _):
        assert ask().failures == 1
    with asking(BROKEN[name]) as (ask, server), pytest.raises(NoAnswer) as silence:
        ask()
    assert (silence.value.failures, silence.value.status, len(server.requests)) == (TRIES, 0, TRIES)
    assert str(silence.value)


SLOW = {
    "before the head": Response(b"{}", seconds=5),
    "in the head": Response(b"HTTP/1.1 200 OK\r\nx-slow: yes\r\n", raw=True, a_byte_each=0.05),
    "in the body": Response(b"{" + b" " * 1000, a_byte_each=0.05),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_timeout_covers_the_whole_request(name: str, pauses: list[float]) -> None:
    with asking(SLOW[name], timeout=SHORT) as (ask, _), pytest.raises(NoAnswer, match=r"no answer within 0\.3 s") as silence:
        ask()
    assert silence.value.failures == TRIES


def test_after_a_failure_there_is_one_try_per_request_until_an_answer_comes(pauses: list[float]) -> None:
    down = [Response(b"", 503)] * (TRIES + 2)
    with asking(*down, completion("Hello"), Response(b"", 503), completion("Hello")) as (ask, server):
        for _ in range(3):
            with pytest.raises(NoAnswer):
                ask()
        assert len(server.requests) == TRIES + 2
        assert ask().failures == 0
        assert ask().failures == 1


def test_an_answer_is_read_up_to_a_maximum_size() -> None:
    flood = Response(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (3 * MAX_BYTES), raw=True)
    bomb = Response(gzip.compress(b" " * (50 * MAX_BYTES)), headers={"content-encoding": "gzip"})
    for response in (flood, bomb):
        with asking(response) as (ask, _):
            assert len(ask().body) < 2 * MAX_BYTES


def test_a_key_in_a_servers_error_is_masked() -> None:
    with asking(Response(b"wrong key sesame", 401), key="sesame") as (ask, _), pytest.raises(NoAnswer) as refused:
        ask()
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("status", [400, 422])
def test_a_too_long_request_is_told_apart_from_other_errors(status: int) -> None:
    context_error = b'{"error": {"message": "the request exceeds the available context size"}}'
    for body, too_long in ((context_error, True), (b"no such model", False)):
        with asking(Response(body, status)) as (ask, _), pytest.raises(NoAnswer) as refused:
            ask()
        assert refused.value.too_long == too_long


@pytest.mark.parametrize(
    "url", ["", "endpoint", "ftp://host/v1", "http://", "http://user:pass@host/v1", "http://host/v1?key=1", "http://h:99999"]
)
def test_a_url_that_is_invalid_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(BadChoice, match="valid: http://HOST:PORT/v1"):
        Endpoint(url)


def test_a_key_that_is_invalid_in_a_header_is_refused_without_showing_it() -> None:
    with pytest.raises(BadChoice) as refused:
        Endpoint("http://127.0.0.1/v1", "open\nsesame")
    assert "sesame" not in str(refused.value)


@STEADY
@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [+-]\d{4}", fullmatch=True))
def test_any_retry_after_header_gives_a_bounded_pause(text: str) -> None:
    asked = asked_to_wait({"retry-after": text})
    assert 0 <= pause_after(3, asked) <= 66


def test_headers_are_case_insensitive(pauses: list[float]) -> None:
    assert asked_to_wait(httpx.Headers({"Retry-After": "3"})) == 3
