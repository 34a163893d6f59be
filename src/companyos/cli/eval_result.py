"""How `companyos eval` ends: success with its interval, the most frequent failures, and what to do next."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.runs.episode_file import EpisodeKey, spent_on
from companyos.evaluate.stats.failures import frequent_failures
from companyos.evaluate.stats.intervals import Estimate


class Failure(msgspec.Struct, frozen=True):
    """A kind of failure, and the transcript of one episode that failed so."""

    kind: str
    episodes: int
    said: str  # the ending that the agent chose
    right: str  # the right ending
    transcript: str


class EvalResult(msgspec.Struct, frozen=True):
    """What `companyos eval --json` prints."""

    agent: str
    suite: str
    version: int
    folder: str
    episodes: int
    successes: int
    success: Estimate
    failures: list[Failure]
    raised: int  # episodes that the agent lost by an exception
    traceback: str  # the file of the first of them; empty if there is none
    usage: Usage
    next: list[str]  # commands that show more about the run


def eval_result(run: Path, results: dict[str, Any], outcomes: Sequence[Outcome]) -> EvalResult:
    """Summarise a run that has ended."""
    failures = [
        Failure(
            kind=frequent.kind,
            episodes=frequent.episodes,
            said=frequent.example.said,
            right=frequent.example.right,
            transcript=_transcript(run, frequent.example),
        )
        for frequent in frequent_failures(outcomes)
    ]
    raised = [EpisodeKey(outcome.task_id, outcome.trial) for outcome in outcomes if outcome.raised]
    return EvalResult(
        agent=results["agent"],
        suite=results["suite"],
        version=results["version"],
        folder=str(run),
        episodes=len(outcomes),
        successes=sum(outcome.success for outcome in outcomes),
        success=msgspec.convert(results["overall"]["numbers"]["success"], Estimate),
        failures=failures,
        raised=len(raised),
        traceback=str(run / min(raised).error_place) if raised else "",
        usage=spent_on(run),
        next=[
            *(shlex.join(["companyos", "blame", failure.transcript]) for failure in failures[:1]),
            shlex.join(["companyos", "report", str(run)]),
        ],
    )


def lines(result: EvalResult) -> Iterator[str]:
    """Yield the result as a person reads it."""
    successes = f"{result.successes} of {result.episodes} episodes succeeded"
    yield f"{result.agent} on {result.suite}, version {result.version}: {successes}, {_with_interval(result.success)}"
    if result.failures:
        yield "Most frequent failures, each with a transcript to look at:"
    for failure in result.failures:
        yield f"{failure.episodes:>5} {failure.kind}"
        yield f"      {failure.transcript}"
    if result.raised:
        yield f"The agent raised in {result.raised} episodes, which are failures. A traceback: {result.traceback}"
    usage = result.usage
    if usage.tokens or usage.failures:
        tokens = f"{usage.tokens_in:,} tokens read, {usage.tokens_out:,} written, cost {usage.cost:.4f}"
        yield f"{tokens}; {usage.failures:,} requests failed"
    yield f"Written to {result.folder}; `companyos submit-check {result.folder}` recomputes it."
    yield f"Next: {result.next[0]}"


def _with_interval(success: Estimate) -> str:
    if success.low is None or success.high is None:
        return f"{100 * success.value:.1f} % (too few seeds for an interval)"
    return f"{100 * success.value:.1f} % (95 % interval: {100 * success.low:.1f}–{100 * success.high:.1f})"


def _transcript(run: Path, outcome: Outcome) -> str:
    return str(run / EpisodeKey(outcome.task_id, outcome.trial).place)
