"""Adversaries: policies that try to be paid without doing the work. What they reach is the floor."""

from functools import lru_cache
from typing import Any

from companyos.agents.baselines import heard
from companyos.agents.candidates import Candidates
from companyos.apps import TOOLBOX, ApprovalType, Person
from companyos.calls import Call
from companyos.env import CompanyEnv, task_named, work
from companyos.families import family_of
from companyos.observe import Observation
from companyos.told import Told
from companyos.world import Streams

SOURCES = 20  # how many seeds a blind script may be copied from; its best counts


class BlindScript:
    """Replays what won another seed, with the ids that both briefs name put in their places. It reads no reply."""

    def __init__(self, seed: int) -> None:
        self._source = seed % SOURCES
        self._calls: list[Call] | None = None

    def act(self, obs: Observation) -> Call:
        if self._calls is None:
            brief, calls = _winning_script(family_of(obs.task).name, self._source)
            swaps = _same_place(Told(brief), Told(obs.task))
            self._calls = [Call(call.app, call.method, _swap(call.params, swaps)) for call in calls]
        return self._calls[obs.step % len(self._calls)]


@lru_cache(maxsize=256)
def _winning_script(family: str, seed: int) -> tuple[str, list[Call]]:
    env = CompanyEnv(task_named(family, seed, chaos=0.5, split="validation"), "sparse")
    work(env)
    return env.setting.case.brief, [turn.call for turn in env.turns]


def _same_place(source: Told, target: Told) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for kind, ids in source.ids.items():
        pairs.update(zip(ids, target.known(kind), strict=False))
    return pairs


def _swap(value: Any, swaps: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _swap(item, swaps) for key, item in value.items()}
    if isinstance(value, list):
        return [_swap(item, swaps) for item in value]
    return swaps.get(value, value) if isinstance(value, str) else value


class PollFarmer:
    """Submits whatever form it can fill in, then asks for ever whether it was decided."""

    def __init__(self, seed: int) -> None:
        self._streams = Streams(f"poll_farmer/{seed}")
        self._told: Told | None = None
        self._request: str | None = None

    def act(self, obs: Observation) -> Call:
        if self._told is None:
            self._told = Told(obs.task)
        self._told.hear(heard(obs))
        if self._request is None and isinstance(obs.last_result, dict) and "decided_by" in obs.last_result:
            self._request = obs.last_result["id"]
        if self._request is not None:
            return Call("approvalflow", "check_status", {"approval_id": self._request})
        return self._prepare(obs.step)

    def _prepare(self, step: int) -> Call:
        told = self._told or Told("")
        table = Candidates(told)
        opening = [
            table.fill(TOOLBOX.tools["ticketdesk", "get_ticket"], self._streams.at("ticket")),
            Call("approvalflow", "list_approval_types"),
            Call("datahub", "get_approver", {"role": "CFO"}),
            Call("datahub", "list_metrics", {"prefix": "compliance"}),
        ]
        call = opening[step] if step < len(opening) else None
        if call is None and (ready := list(told.known(ApprovalType))) and (people := list(told.known(Person))):
            draw = self._streams.at("form", step)
            params = {"approval_type": draw.pick(ready), "approver": draw.pick(people), "data": draw.pick(table.forms())}
            call = Call("approvalflow", "submit_approval", params)
        return call or Call("approvalflow", "list_approvals")


class Search:
    """Privileged: tries calls on forks and keeps what pays best. For tests of the reward, never a baseline."""

    def __init__(self, env: CompanyEnv, seed: int, width: int = 1, tries: int = 12) -> None:
        self._streams = Streams(f"search/{seed}")
        self._width = width
        self._tries = tries
        told = Told(env.setting.case.brief)
        for turn in env.turns:
            told.hear(turn.reply)
        self._beam: list[tuple[float, CompanyEnv, Told]] = [(0.0, env.fork(), told)]

    def run(self) -> list[tuple[float, CompanyEnv]]:
        """Greedy with one track, a beam with more. All episodes that came to an end, with their returns."""
        ended: list[tuple[float, CompanyEnv]] = []
        depth = 0
        while self._beam:
            grown = [step for track, entry in enumerate(self._beam) for step in self._grow(*entry, depth, track)]
            ended += [(paid, env) for paid, env, _ in grown if env.done]
            alive = sorted((step for step in grown if not step[1].done), key=lambda step: -step[0])
            self._beam = alive[: self._width]
            depth += 1
        return ended

    def _grow(
        self, paid: float, env: CompanyEnv, told: Told, depth: int, track: int
    ) -> list[tuple[float, CompanyEnv, Told]]:
        grown = []
        table = Candidates(told)
        for attempt in range(self._tries):
            fork = env.fork()
            obs = fork.step(table.sample(self._streams.at(depth, track, attempt)))
            grown.append((paid + obs.reward, fork, told))
        best = max(grown, key=lambda step: step[0])
        told.hear(best[1].turns[-1].reply)
        return grown
