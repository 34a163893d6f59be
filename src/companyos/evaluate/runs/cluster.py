"""Plays the episodes of a run on a Ray cluster. If a node is lost, its episodes are played on another one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from companyos.agents.agent import Usage
from companyos.evaluate.runs.episode_file import EpisodeKey, error_of, save_episode, saved_episode, usage_of
from companyos.evaluate.runs.roster import AgentSpec
from companyos.evaluate.runs.run import FinishedEpisode, JudgedEpisode, Workers, judged, play_episode

_EPISODES_PER_CPU = 4  # episodes in flight for each processor of the cluster


def on_ray(address: str) -> Workers:
    """Play on the cluster at this address. Nodes need CompanyOS, but no shared disk: all files are written here."""

    def workers(run: Path, agent: AgentSpec, keys: list[EpisodeKey]) -> Iterator[FinishedEpisode]:
        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
        # The loss of a node is retried without limit; an exception is a bug in CompanyOS and is not retried.
        remote_play = ray.remote(max_retries=-1, retry_exceptions=False)(_play)
        waiting, unplayed = set[Any](), iter(keys)
        while True:
            room = max(1, int(_EPISODES_PER_CPU * ray.cluster_resources().get("CPU", 1)) - len(waiting))
            for _, key in zip(range(room), unplayed, strict=False):
                waiting.add(remote_play.remote(agent, key, saved_episode(run, key), usage_of(run, key), error_of(run, key)))
            if not waiting:
                return
            ready, rest = ray.wait(list(waiting), num_returns=1)
            waiting = set(rest)
            for episode in ray.get(ready):
                kept = saved_episode(run, episode.key) is not None
                if not kept:
                    save_episode(run, episode.key, episode.text, episode.usage, error=episode.error)
                yield episode.finished(kept)

    return workers


def _play(agent: AgentSpec, key: EpisodeKey, text: str | None, usage: tuple[Usage, ...], error: str) -> JudgedEpisode:
    """Judge the saved transcript `text`; play the episode if there is none."""
    return play_episode(agent, key) if text is None else judged(key, text, usage, error=error)
