"""Endpoints: a server that speaks as OpenAI's does, asked until it has answered or there is no point in asking on."""

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
MOST_BYTES = 2**20  # of an answer; no call is that long
_AGAIN = frozenset({408, 409, 425, 429})  # and whatever begins with a 5: it may go better in a while
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds
_TOO_LONG = ("context", "too long", "too many tokens", "too large")
_sleep = asyncio.sleep
_SHOWN = 300  # characters of what a server said


class NoAnswer(Exception):
    """There was no answer to be had. `status` is what the server last answered instead, 0 where it said nothing."""

    def __init__(self, why: str, failures: int, status: int = 0) -> None:
        super().__init__(why)
        self.failures = failures
        self.status = status

    @property
    def too_long(self) -> bool:
        """Whether a shorter request would have been answered."""
        return self.status in (400, 413, 422) and any(map(self.speaks_of, _TOO_LONG))

    def speaks_of(self, words: str) -> bool:
        """Whether the server, where it said anything, spoke of this."""
        return self.status != 0 and words in str(self).lower()


class Answer(msgspec.Struct, frozen=True):
    """What came back, whatever it is, and how many requests came to nothing before it."""

    body: bytes
    failures: int = 0


class _Failed(Exception):
    """One request that came to nothing: why, and after how many seconds it should be tried again, where the server said."""

    def __init__(self, why: str, status: int = 0, pause: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.pause = pause


class Endpoint:
    """Asks one server, from as many threads as there are. What it waits for runs on one loop in a thread of its own:
    only so does a time-out hold for a whole request, be it that the server sends a byte a minute."""

    def __init__(self, base_url: str, key: str = "", timeout: float = 120.0) -> None:
        if not (key.isascii() and key.isprintable()):
            raise BadChoice("key", "…", ["one of letters, digits and signs"])
        self.url = f"{_checked(base_url)}/chat/completions"
        self._key = key
        self._timeout = timeout
        self._down = False
        headers = {"content-type": "application/json", "accept-encoding": "identity"}  # a zipped answer has no known length
        if key:
            headers["authorization"] = f"Bearer {key}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(headers=headers, timeout=None, limits=limits)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def ask(self, request: Mapping[str, Any], tries: int = TRIES) -> Answer:
        """One request and what came back. `NoAnswer` once it has been tried often enough."""
        body = msgspec.json.encode(request)
        # Whoever did not answer a moment ago is not given another round of tries for every step of every episode.
        return asyncio.run_coroutine_threadsafe(self._ask(body, 1 if self._down else tries), self._loop).result()

    def close(self) -> None:
        """Close all connections and stop the thread. A process that ends anyway need not call this."""
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _hang_up(self) -> None:
        """Close the client and, as `asyncio.run` does, end what is left on the loop: an answer that was cut short leaves
        generators of httpx behind, which the garbage collector hands to tasks of their own."""
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
            again = failed.status == 0 or failed.status in _AGAIN or failed.status >= 500
            if not again or failures == tries - 1:
                self._down = again
                raise NoAnswer(self._without_key(str(failed)), failures + 1, failed.status)
            await _sleep(pause_after(failures, failed.pause))
        raise AssertionError("it is tried once at least")

    async def _once(self, body: bytes) -> bytes:
        async with self._client.stream("POST", self.url, content=body) as answer:
            read = bytearray()
            async for piece in answer.aiter_raw():
                read += piece
                if len(read) > MOST_BYTES:
                    break  # hangs up on who does not stop talking
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
    # Where a model is stands in the run's files, and no secret may stand there.
    if not good or place.userinfo or place.query or place.fragment:
        raise BadChoice("base URL", base_url, ["http://HOST:PORT/v1", "https://HOST/v1"])
    return base_url.rstrip("/")


def pause_after(failures: int, asked: float | None) -> float:
    """Seconds before the next try: as the server asks, else twice as long each time; never the same for two who wait."""
    pause = _FIRST_PAUSE * 2**failures if asked is None else asked
    return min(pause, _LONGEST_PAUSE) * random.uniform(*((0.5, 1.0) if asked is None else (1.0, 1.1)))


def asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks for, as a number or as a date; None where it asks for nothing that makes sense."""
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        due = parsedate_to_datetime(text)
        return max(0.0, (due.replace(tzinfo=due.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
