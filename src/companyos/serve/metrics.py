"""Metrics: what a server counts, for Prometheus."""

import os
from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where workers of one server share their counts, if there are several
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts of one server."""

    def __init__(self, live_sessions: Callable[[], int]) -> None:
        self._registry = here = CollectorRegistry()
        labels = ["place", "status"]
        requests = Histogram("companyos_request_seconds", "Requests.", labels, buckets=_SECONDS, registry=here)
        self._steps = Counter("companyos_steps", "Steps that were carried out.", registry=here)
        self._live = Gauge("companyos_live_sessions", "In memory.", multiprocess_mode="livesum", registry=here)
        self._count_live = live_sessions
        # Looking a label up costs more than counting it. There are few places and statuses, and no caller can make more.
        self._requests = cache(lambda place, status: requests.labels(place, str(status)))

    def request(self, place: str, status: int, seconds: float) -> None:
        self._requests(place, status).observe(seconds)
        self._live.set(self._count_live())

    def steps(self, count: int) -> None:
        self._steps.inc(count)

    def page(self) -> bytes:
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
