"""Metrics: what a server counts, for Prometheus."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where workers of one server share their counts, if there are several
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_LEDGER_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class Metrics:
    """Counts of one server."""

    def __init__(
        self, live_sessions: Callable[[], int], evictions: Callable[[], int] = lambda: 0, capacity: int = 0
    ) -> None:
        self._registry = here = CollectorRegistry()
        labels = ["place", "status"]
        requests = Histogram("companyos_request_seconds", "Requests.", labels, buckets=_SECONDS, registry=here)
        ledger = Histogram(
            "companyos_ledger_seconds", "Requests to the ledger.", ["operation"], buckets=_LEDGER_SECONDS, registry=here
        )
        refusals = Counter("companyos_refusals", "Requests, frames and steps that were refused.", ["code"], registry=here)
        self._steps = Counter("companyos_steps", "Steps that were carried out.", registry=here)
        self._evicted = Counter("companyos_evictions", "Sessions at work that left memory for others.", registry=here)
        self._live = self._gauge("companyos_live_sessions", "In memory.")
        self._gauge("companyos_capacity", "Sessions that memory has room for.").set(capacity)
        self._gauge("companyos_workers", "Workers that are alive.").set(1)
        self._count_live, self._count_evictions, self._evictions = live_sessions, evictions, 0
        self._live.set(0)
        # Looking a label up costs more than counting it. There are few places and statuses, and no caller can make more.
        self._requests = cache(lambda place, status: requests.labels(place, str(status)))
        self._ledger = cache(ledger.labels)
        self._refusals = cache(refusals.labels)

    def request(self, place: str, status: int, seconds: float) -> None:
        self._requests(place, status).observe(seconds)
        self._look()

    def steps(self, count: int) -> None:
        self._steps.inc(count)

    def refusal(self, code: str) -> None:
        self._refusals(code).inc()

    def ledger(self, operation: str, seconds: float) -> None:
        self._ledger(operation).observe(seconds)

    def page(self) -> bytes:
        self._look()
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        _bury(Path(os.environ[SHARED]))
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def _look(self) -> None:
        self._live.set(self._count_live())
        evictions = self._count_evictions()
        if evictions != self._evictions:
            self._evicted.inc(evictions - self._evictions)
            self._evictions = evictions

    def _gauge(self, name: str, about: str) -> Gauge:
        """A number that is added up over the workers that are alive."""
        return Gauge(name, about, multiprocess_mode="livesum", registry=self._registry)


def _bury(shared: Path) -> None:
    """Take workers that were killed out of the sums: they could not do that themselves."""
    for pid in {file.stem.rpartition("_")[2] for file in shared.glob("gauge_live*_*.db")}:
        if not _lives(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return not Path("/proc/self").exists()  # not on Linux: nothing is known
