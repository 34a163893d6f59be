"""Helpers for tests: played episodes, and outcomes that were never played."""

from typing import Any

import msgspec

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.core.episode import Transcript
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env import make
from companyos.evaluate.judge.outcome import Outcome, judge
from companyos.evaluate.stats.metrics import summarise


class Pair(msgspec.Struct, frozen=True):
    task: str
    twin: str
    relevance: str
    cause: str


class Suite(msgspec.Struct, frozen=True):
    name: str = "own"
    version: int = BENCHMARK_VERSION
    hash: str = "0"
    tasks: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()


def transcript(task_id: str, agent: str, trial: int = 0) -> Transcript:
    return play(make(task_id), make_agent(agent, trial)).transcript()


def played(task_id: str, agent: str, trial: int = 0) -> Outcome:
    return judge(transcript(task_id, agent, trial), trial)


def outcome(seed: int = 0, success: bool = True, **changes: Any) -> Outcome:
    """An outcome that was never played. Seed, doses, weather and overridden causes make its task id."""
    parts = {name: changes.pop(name) for name in ("doses", "do", "weather") if name in changes}
    task = TaskId("vendor_onboarding", "test", seed, parts.get("doses", "50"), parts.get("do", ()))
    task = msgspec.structs.replace(task, weather=parts.get("weather", 0))
    plain = Outcome(
        task_id=str(task),
        trial=0,
        family=task.family,
        split=task.split,
        doses=task.doses,
        struck=(),
        right="completed/all_checks_passed",
        right_decider="head",
        said="completed/all_checks_passed" if success else "",
        decider="desk",
        success=success,
        score=1.0 if success else 0.0,
        total=15.0 if success else -5.0,
        steps=20,
        par=20,
        damage=(),
        invalid=0,
        refused=0,
        routed=10,
        waits=0,
        faults=0,
        recovered=0,
    )
    return msgspec.structs.replace(plain, **changes)


def numbers(outcomes: list[Outcome], suite: Suite | None = None) -> dict[str, float]:
    """The overall numbers by name, without their intervals."""
    found = summarise(suite or Suite(), outcomes)["overall"]["numbers"]
    return {name: number["value"] for name, number in found.items()}
