"""Measured: a ledger whose answers are timed, and whose failures are logged with their cause."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown, ServeError
from companyos.serve.ledger.ledger import Entry, Header, Ledger, Row

_LOG = logging.getLogger("companyos.ledger")
EVERY = 60.0  # seconds; more often the cause of a failure is not logged, however many requests it strikes


class MeasuredLedger(Ledger):
    """Another ledger, and who hears how long it took: `observe(operation, seconds)`."""

    def __init__(self, ledger: Ledger, observe: Callable[[str, float], None]) -> None:
        self.quick, self.gathers, self.durable = ledger.quick, ledger.gathers, ledger.durable
        self._ledger = ledger
        self._observe = observe
        self._complained = -EVERY

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        with self._timed("begin"):
            self._ledger.begin(headers, calls)

    def read(self, session_id: str) -> Entry | None:
        with self._timed("read"):
            return self._ledger.read(session_id)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._timed("calls"):
            return self._ledger.calls(session_id, after)

    def headers(self) -> list[Header]:
        with self._timed("headers"):
            return self._ledger.headers()

    def newest(self, name: str) -> str | None:
        with self._timed("newest"):
            return self._ledger.newest(name)

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        with self._timed("append"):
            return self._ledger.append_all(rows)

    def remove(self, session_id: str) -> None:
        with self._timed("remove"):
            self._ledger.remove(session_id)

    def expire(self, before: float) -> int:
        with self._timed("expire"):
            return self._ledger.expire(before)

    def count(self, owner: str) -> int:
        with self._timed("count"):
            return self._ledger.count(owner)

    def ping(self) -> None:
        with self._timed("ping"):
            self._ledger.ping()

    def close(self) -> None:
        self._ledger.close()

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except LedgerDown as down:
            self._complain(down.__cause__)
            raise
        finally:
            self._observe(operation, time.perf_counter() - began)

    def _complain(self, cause: BaseException | None) -> None:
        now = time.monotonic()
        if now - self._complained >= EVERY:
            self._complained = now
            said = next((line for line in str(cause).splitlines() if line), "")
            _LOG.error("the ledger does not answer: %s: %s", type(cause).__name__, said)
