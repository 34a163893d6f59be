"""An evaluation on a Ray cluster: a node that leaves midway does not change the results."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from companyos.evaluate.runs.cluster import on_ray
from companyos.evaluate.runs.episode_file import places
from companyos.evaluate.runs.run import RESULTS_FILE, FinishedEpisode, evaluate
from tests.evaluate.runs import AGENT, TRIALS, own_suite, small_run

SIZE = 12


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head that works nothing itself; tests add the nodes that do."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def test_a_node_that_is_removed_midway_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    whole, run = small_run(tmp_path, size=SIZE), tmp_path / "cluster"
    leaving = cluster.add_node(num_cpus=1)
    left = False

    def watch(episodes: Iterator[FinishedEpisode], total: int) -> Iterator[FinishedEpisode]:
        nonlocal left
        for number, one in enumerate(episodes):
            if number == 5:
                cluster.remove_node(leaving, allow_graceful=False)
                cluster.add_node(num_cpus=1)
                left = True
            yield one

    evaluate(AGENT, own_suite(tmp_path, SIZE), TRIALS, run, on_ray(cluster.address), watch=watch)
    assert left
    assert (run / RESULTS_FILE).read_bytes() == (whole / RESULTS_FILE).read_bytes()
    assert (run / "manifest.txt").read_bytes() == (whole / "manifest.txt").read_bytes()


def test_a_run_begun_here_goes_on_there(cluster: Cluster, tmp_path: Path) -> None:
    whole = small_run(tmp_path, size=SIZE)
    before = (whole / RESULTS_FILE).read_bytes()
    for place in list(places(whole))[::2]:
        (whole / place).unlink()
    cluster.add_node(num_cpus=1)
    kept = []

    def watch(episodes: Iterator[FinishedEpisode], total: int) -> Iterator[FinishedEpisode]:
        for episode in episodes:
            kept.append(episode.kept)
            yield episode

    evaluate(AGENT, own_suite(tmp_path, SIZE), TRIALS, whole, on_ray(cluster.address), watch=watch)
    assert (kept.count(True), kept.count(False)) == (SIZE, SIZE)
    assert (whole / RESULTS_FILE).read_bytes() == before
