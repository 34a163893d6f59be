"""A client for OpenAI-compatible endpoints, with timeouts and retries."""

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Thread
from typing import Any

import httpx
import msgspec

from companyos.core.errors import BadChoice

TRIES = 5
MAX_BYTES = 2**20  # of the body of an answer
_RETRIED_CODES = frozenset({408, 409, 425, 429})  # status codes after which a retry can help, besides 5xx
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 60.0  # seconds
_TOO_LONG_PHRASES = ("context", "too long", "too many tokens", "too large")  # in errors about too long requests
_sleep = asyncio.sleep  # tests replace it
_MAX_ERROR = 300  # characters of a server's error that are shown


class NoAnswer(Exception):
    """All tries have failed. `status` is the last status code, or 0 if the server did not answer."""

    def __init__(self, why: str, failures: int, status: int = 0) -> None:
        super().__init__(why)
        self.failures = failures
        self.status = status

    @property
    def too_long(self) -> bool:
        """Whether a shorter request would have been answered."""
        return self.status in (400, 413, 422) and any(map(self.speaks_of, _TOO_LONG_PHRASES))

    def speaks_of(self, words: str) -> bool:
        """Whether the server's error contains these words."""
        return self.status != 0 and words in str(self).lower()


class Answer(msgspec.Struct, frozen=True):
    """The body of an answer, and the number of failed requests before it."""

    body: bytes
    failures: int = 0


class _Failed(Exception):
    """One failed request: why, and the pause before a retry if the server asked for one."""

    def __init__(self, why: str, status: int = 0, pause: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.pause = pause


class Endpoint:
    """A client of one server that many threads can use. Requests run on an event loop in a separate thread, because only
    there a timeout covers a whole request, even if the server sends one byte a minute."""

    def __init__(self, base_url: str, key: str = "", timeout: float = 120.0) -> None:
        if not (key.isascii() and key.isprintable()):
            raise BadChoice("key", "…", ["one of letters, digits and signs"])
        self.url = f"{_checked(base_url)}/chat/completions"
        self._key = key
        self._timeout = timeout
        self._down = False  # whether the last request failed after all its tries
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",  # the size of a compressed answer is unknown
        }
        if key:
            headers["authorization"] = f"Bearer {key}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(headers=headers, timeout=None, limits=limits)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def ask(self, request: Mapping[str, Any], tries: int = TRIES) -> Answer:
        """Send a request and return the answer. Raise `NoAnswer` after the last try."""
        body = msgspec.json.encode(request)
        # After a failure, one try per request: else every step of every episode would wait for all retries.
        return asyncio.run_coroutine_threadsafe(self._ask(body, 1 if self._down else tries), self._loop).result()

    def close(self) -> None:
        """Close all connections and stop the thread. A process that ends anyway need not call this."""
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _hang_up(self) -> None:
        """Close the client and end all tasks and generators on the loop, as `asyncio.run` does. An answer that was cut off
        leaves generators of httpx behind."""
        await self._client.aclose()
        other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in other_tasks:
            task.cancel()
        await asyncio.gather(*other_tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    async def _ask(self, body: bytes, tries: int) -> Answer:
        for failures in range(tries):
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._try_once(body)
            except TimeoutError:
                failed = _Failed(f"no answer within {self._timeout:g} s")
            except httpx.HTTPError as error:
                failed = _Failed(str(error) or type(error).__name__)
            except _Failed as error:
                failed = error
            else:
                self._down = False
                return Answer(answer, failures)
            can_retry = failed.status == 0 or failed.status in _RETRIED_CODES or failed.status >= 500
            if not can_retry or failures == tries - 1:
                self._down = can_retry
                raise NoAnswer(self._without_key(str(failed)), failures + 1, failed.status)
            await _sleep(pause_after(failures, failed.pause))
        raise AssertionError("there is at least one try")

    async def _try_once(self, body: bytes) -> bytes:
        """Send a request and return the body of the answer. Raise `_Failed` if the status is not 200."""
        async with self._client.stream("POST", self.url, content=body) as answer:
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > MAX_BYTES:
                    break  # leaving the `async with` closes the connection
            if answer.status_code == httpx.codes.OK:
                return bytes(content)
            error = " ".join(content[:4096].decode(errors="replace").split())[:_MAX_ERROR]
            why = f"it answered {answer.status_code} {answer.reason_phrase}: {error}".rstrip(": ")
            raise _Failed(why, answer.status_code, asked_to_wait(answer.headers))

    def _without_key(self, text: str) -> str:
        """Return a text with the key masked: a server may quote it in an error."""
        return text.replace(self._key, "…") if self._key else text


def _checked(base_url: str) -> str:
    """Return a base URL without a slash at the end. Raise `BadChoice` if it is invalid."""
    try:
        url = httpx.URL(base_url)
        valid = url.scheme in ("http", "https") and bool(url.host) and (url.port or 1) < 2**16
    except (httpx.InvalidURL, UnicodeError):
        valid = False
    # The URL is written to the files of a run, so it must not contain a secret.
    if not valid or url.userinfo or url.query or url.fragment:
        raise BadChoice("base URL", base_url, ["http://HOST:PORT/v1", "https://HOST/v1"])
    return base_url.rstrip("/")


def pause_after(failures: int, asked: float | None) -> float:
    """Return the seconds before the next try: what the server asked for, else exponential backoff. Both have jitter."""
    if asked is None:
        backoff: float = _FIRST_PAUSE * 2**failures
        return min(backoff, _MAX_PAUSE) * random.uniform(0.5, 1.0)
    return min(asked, _MAX_PAUSE) * random.uniform(1.0, 1.1)


def asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the pause in the header `retry-after`, a number of seconds or a date. None if it is missing or invalid."""
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        due = parsedate_to_datetime(text)
        return max(0.0, (due.replace(tzinfo=due.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
