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
MOST_BYTES = 2**20  # limit for the body of an answer
_RETRIED = frozenset({408, 409, 425, 429})  # status codes after which a retry can help, besides 5xx
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds
_TOO_LONG = ("context", "too long", "too many tokens", "too large")
_sleep = asyncio.sleep
_SHOWN = 300  # characters of a server's error that are shown


class NoAnswer(Exception):
    """All tries have failed. `status` is the last status code, or 0 if the server did not answer."""

    def __init__(self, why: str, failures: int, status: int = 0) -> None:
        super().__init__(why)
        self.failures = failures
        self.status = status

    @property
    def too_long(self) -> bool:
        """Whether a shorter request would have been answered."""
        return self.status in (400, 413, 422) and any(map(self.speaks_of, _TOO_LONG))

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
        self._down = False
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
        }  # the size of a compressed answer is unknown
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
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    async def _ask(self, body: bytes, tries: int) -> Answer:
        for failures in range(tries):
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._once(body)
            except TimeoutError:
                failed = _Failed(f"no answer within {self._timeout:g} s")
            except httpx.HTTPError as error:
                failed = _Failed(str(error) or type(error).__name__)
            except _Failed as error:
                failed = error
            else:
                self._down = False
                return Answer(answer, failures)
            again = failed.status == 0 or failed.status in _RETRIED or failed.status >= 500
            if not again or failures == tries - 1:
                self._down = again
                raise NoAnswer(self._without_key(str(failed)), failures + 1, failed.status)
            await _sleep(pause_after(failures, failed.pause))
        raise AssertionError("there is at least one try")

    async def _once(self, body: bytes) -> bytes:
        async with self._client.stream("POST", self.url, content=body) as answer:
            read = bytearray()
            async for piece in answer.aiter_raw():
                read += piece
                if len(read) > MOST_BYTES:
                    break  # and close the connection
            if answer.status_code == httpx.codes.OK:
                return bytes(read)
            said = " ".join(read[:4096].decode(errors="replace").split())[:_SHOWN]
            why = f"it answered {answer.status_code} {answer.reason_phrase}: {said}".rstrip(": ")
            raise _Failed(why, answer.status_code, asked_to_wait(answer.headers))

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _checked(base_url: str) -> str:
    try:
        place = httpx.URL(base_url)
        good = place.scheme in ("http", "https") and bool(place.host) and (place.port or 1) < 2**16
    except (httpx.InvalidURL, UnicodeError):
        good = False
    # The URL is written to the files of a run, so it must not contain a secret.
    if not good or place.userinfo or place.query or place.fragment:
        raise BadChoice("base URL", base_url, ["http://HOST:PORT/v1", "https://HOST/v1"])
    return base_url.rstrip("/")


def pause_after(failures: int, asked: float | None) -> float:
    """Return the seconds before the next try: what the server asked for, else exponential backoff. Both have jitter."""
    pause = _FIRST_PAUSE * 2**failures if asked is None else asked
    return min(pause, _LONGEST_PAUSE) * random.uniform(*((0.5, 1.0) if asked is None else (1.0, 1.1)))


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
