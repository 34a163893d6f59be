"""Cluster: a run's episodes on a Ray cluster. Nodes may leave; what they had in hand is worked elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from companyos.agents.agent import Usage
from companyos.evaluate.runs.episode_file import Episode, keep, kept, usage_of
from companyos.evaluate.runs.roster import Options
from companyos.evaluate.runs.run import Done, Plan, Work, Workers, done, judged, work_on

_AHEAD = 4  # episodes in flight for each processor of the cluster


def on_ray(address: str) -> Workers:
    """Works on the cluster at this address. Nodes need CompanyOS installed, and no disk in common: files are kept here."""

    def crew(run: Path, plan: Plan, options: Options, episodes: list[Episode]) -> Iterator[Done]:
        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
        # A node that was lost is no fault of the episode's, however often; a bug of ours is not tried twice.
        remote = ray.remote(max_retries=-1, retry_exceptions=False)(_work)
        waiting, todo = set[Any](), iter(episodes)
        while True:
            room = max(1, int(_AHEAD * ray.cluster_resources().get("CPU", 1)) - len(waiting))
            for _, episode in zip(range(room), todo, strict=False):
                waiting.add(remote.remote(plan.agent, options, episode, kept(run, episode), usage_of(run, episode)))
            if not waiting:
                return
            ready, rest = ray.wait(list(waiting), num_returns=1)
            waiting = set(rest)
            for work in ray.get(ready):
                if kept(run, work.episode) is None:
                    keep(run, work.episode, work.text, work.usage)
                yield done(work)

    return crew


def _work(agent: str, options: Options, episode: Episode, text: str | None, usage: tuple[Usage, ...]) -> Work:
    return work_on(agent, options, episode) if text is None else judged(episode, text, usage)
