"""A ledger wrapper that times every operation and logs the cause of failures."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown, ServeError
from companyos.serve.ledger.ledger import ExamAttempt, Handle, Ledger, SessionHeader, StoredSession, TurnRow

_LOG = logging.getLogger("companyos.ledger")
LOG_INTERVAL = 60.0  # seconds between two log lines about a failing ledger, however many requests fail


class MeasuredLedger(Ledger):
    """Passes every operation on to another ledger and reports its duration: `observe(operation, seconds)`."""

    def __init__(self, ledger: Ledger, observe: Callable[[str, float], None]) -> None:
        self.quick, self.gathers, self.durable = ledger.quick, ledger.gathers, ledger.durable
        self._ledger = ledger
        self._observe = observe
        self._logged_at = -LOG_INTERVAL

    def begin(
        self, headers: Sequence[SessionHeader], calls: Sequence[Call] = (), attempt: ExamAttempt | None = None
    ) -> None:
        with self._timed("begin"):
            self._ledger.begin(headers, calls, attempt)

    def read(self, session_id: str) -> StoredSession | None:
        with self._timed("read"):
            return self._ledger.read(session_id)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._timed("calls"):
            return self._ledger.calls(session_id, after)

    def headers(self) -> list[SessionHeader]:
        with self._timed("headers"):
            return self._ledger.headers()

    def newest(self, name: str) -> str | None:
        with self._timed("newest"):
            return self._ledger.newest(name)

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        with self._timed("append"):
            return self._ledger.append_all(rows)

    def remove(self, session_id: str) -> None:
        with self._timed("remove"):
            self._ledger.remove(session_id)

    def handle(self, handle_id: str) -> Handle | None:
        with self._timed("handle"):
            return self._ledger.handle(handle_id)

    def put_handle(self, handle: Handle) -> None:
        with self._timed("put_handle"):
            self._ledger.put_handle(handle)

    def remove_handle(self, handle_id: str) -> None:
        with self._timed("remove_handle"):
            self._ledger.remove_handle(handle_id)

    def attempts(self) -> list[ExamAttempt]:
        with self._timed("attempts"):
            return self._ledger.attempts()

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
        started = time.perf_counter()
        try:
            yield
        except LedgerDown as down:
            self._log_failure(down.__cause__)
            raise
        finally:
            self._observe(operation, time.perf_counter() - started)

    def _log_failure(self, cause: BaseException | None) -> None:
        now = time.monotonic()
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            first_line = next((line for line in str(cause).splitlines() if line), "")
            _LOG.error("the ledger does not answer: %s: %s", type(cause).__name__, first_line)
