"""Metrics for Prometheus."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_FOLDER_VARIABLE = (
    "PROMETHEUS_MULTIPROC_DIR"  # names the folder in which several workers of one server share their metrics
)
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_LEDGER_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class Metrics:
    """The metrics of one worker."""

    def __init__(
        self, live_sessions: Callable[[], int], evictions: Callable[[], int] = lambda: 0, capacity: int = 0
    ) -> None:
        self._registry = registry = CollectorRegistry()
        labels = ["place", "status"]  # "place" is the route; label names are stable
        requests = Histogram(
            "companyos_request_seconds", "Duration of requests.", labels, buckets=_REQUEST_SECONDS, registry=registry
        )
        ledger = Histogram(
            "companyos_ledger_seconds",
            "Duration of ledger operations.",
            ["operation"],
            buckets=_LEDGER_SECONDS,
            registry=registry,
        )
        refusals = Counter("companyos_refusals", "Refused requests, frames and steps.", ["code"], registry=registry)
        self._steps = Counter("companyos_steps", "Steps.", registry=registry)
        self._evicted = Counter(
            "companyos_evictions", "Unfinished sessions that were evicted from memory.", registry=registry
        )
        self._live = self._gauge("companyos_live_sessions", "Sessions in memory.")
        self._gauge("companyos_capacity", "Sessions that fit in memory.").set(capacity)
        self._gauge("companyos_workers", "Running workers.").set(1)
        self._count_live, self._count_evictions, self._counted_evictions = live_sessions, evictions, 0
        self._live.set(0)
        # Looking up a label costs more than counting. The set of routes and statuses is fixed: clients cannot add to it.
        self._requests = cache(lambda route, status: requests.labels(route, str(status)))
        self._ledger = cache(ledger.labels)
        self._refusals = cache(refusals.labels)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests(route, status).observe(seconds)
        self._update_sessions()

    def steps(self, count: int) -> None:
        self._steps.inc(count)

    def refusal(self, code: str) -> None:
        self._refusals(code).inc()

    def ledger(self, operation: str, seconds: float) -> None:
        self._ledger(operation).observe(seconds)

    def page(self) -> bytes:
        """Return all metrics as text. With several workers, add up the metrics of all."""
        self._update_sessions()
        if SHARED_FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        _drop_dead_workers(Path(os.environ[SHARED_FOLDER_VARIABLE]))
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def _update_sessions(self) -> None:
        """Set the gauge of sessions in memory and the counter of evictions."""
        self._live.set(self._count_live())
        evictions = self._count_evictions()
        if evictions != self._counted_evictions:
            self._evicted.inc(evictions - self._counted_evictions)
            self._counted_evictions = evictions

    def _gauge(self, name: str, documentation: str) -> Gauge:
        """Return a gauge that is summed over the running workers."""
        return Gauge(name, documentation, multiprocess_mode="livesum", registry=self._registry)


def _drop_dead_workers(shared: Path) -> None:
    """Remove killed workers from the sums: they could not do that themselves."""
    # for example "gauge_livesum_4711.db"
    for pid in {file.stem.rpartition("_")[2] for file in shared.glob("gauge_live*_*.db")}:
        if not _is_running(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _is_running(pid: str) -> bool:
    try:
        # for example "4711 (python) S 1 ...": the state after the name is "Z" for a process that has ended
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return not Path("/proc/self").exists()  # without /proc, as on macOS, assume that it is running
