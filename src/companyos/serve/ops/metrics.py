"""Metrics for Prometheus."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which several workers of one server share their metrics
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_LEDGER_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class Metrics:
    """The metrics of one worker."""

    def __init__(
        self, live_sessions: Callable[[], int], evictions: Callable[[], int] = lambda: 0, capacity: int = 0
    ) -> None:
        self._registry = here = CollectorRegistry()
        labels = ["place", "status"]  # "place" is the route; label names are stable
        requests = Histogram("companyos_request_seconds", "Duration of requests.", labels, buckets=_SECONDS, registry=here)
        ledger = Histogram(
            "companyos_ledger_seconds",
            "Duration of ledger operations.",
            ["operation"],
            buckets=_LEDGER_SECONDS,
            registry=here,
        )
        refusals = Counter("companyos_refusals", "Refused requests, frames and steps.", ["code"], registry=here)
        self._steps = Counter("companyos_steps", "Steps.", registry=here)
        self._evicted = Counter("companyos_evictions", "Unfinished sessions that were evicted from memory.", registry=here)
        self._live = self._gauge("companyos_live_sessions", "Sessions in memory.")
        self._gauge("companyos_capacity", "Sessions that fit in memory.").set(capacity)
        self._gauge("companyos_workers", "Running workers.").set(1)
        self._count_live, self._count_evictions, self._evictions = live_sessions, evictions, 0
        self._live.set(0)
        # Looking up a label costs more than counting. The set of routes and statuses is fixed: clients cannot add to it.
        self._requests = cache(lambda route, status: requests.labels(route, str(status)))
        self._ledger = cache(ledger.labels)
        self._refusals = cache(refusals.labels)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests(route, status).observe(seconds)
        self._update()

    def steps(self, count: int) -> None:
        self._steps.inc(count)

    def refusal(self, code: str) -> None:
        self._refusals(code).inc()

    def ledger(self, operation: str, seconds: float) -> None:
        self._ledger(operation).observe(seconds)

    def page(self) -> bytes:
        self._update()
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        _drop_dead_workers(Path(os.environ[SHARED]))
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def _update(self) -> None:
        self._live.set(self._count_live())
        evictions = self._count_evictions()
        if evictions != self._evictions:
            self._evicted.inc(evictions - self._evictions)
            self._evictions = evictions

    def _gauge(self, name: str, about: str) -> Gauge:
        """Return a gauge that is summed over the running workers."""
        return Gauge(name, about, multiprocess_mode="livesum", registry=self._registry)


def _drop_dead_workers(shared: Path) -> None:
    """Remove killed workers from the sums: they could not do that themselves."""
    for pid in {file.stem.rpartition("_")[2] for file in shared.glob("gauge_live*_*.db")}:
        if not _is_running(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return not Path("/proc/self").exists()  # without /proc, as on macOS, assume that it is running
