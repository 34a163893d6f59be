"""How `companyos eval` ends: success with its interval, the most frequent mistakes, and what to do next."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.cli.options import read_transcript
from companyos.cli.terminal import with_bar
from companyos.evaluate.judge.blame import Blame, blame
from companyos.evaluate.judge.blame_text import headline
from companyos.evaluate.judge.habits import habit_of
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.reports.report import FAILURES, spread_over_families
from companyos.evaluate.runs.episode_file import EpisodeKey, spent_on
from companyos.evaluate.stats.intervals import Estimate

MAX_KINDS = 2  # kinds of failure that are shown


class Failure(msgspec.Struct, frozen=True):
    """A decisive mistake, how many of the examined episodes it lost, and the shortest of these episodes."""

    habit: str
    episodes: int
    headline: str
    transcript: str


class EvalResult(msgspec.Struct, frozen=True):
    """What `companyos eval --json` prints."""

    agent: str
    suite: str
    version: int
    folder: str
    episodes: int
    kept: int  # episodes that an earlier start of the run played
    successes: int
    success: Estimate
    examined: int  # failed episodes of which the decisive mistake was found: at most `FAILURES`
    failures: list[Failure]
    raised: int  # episodes that the agent lost by an exception
    traceback: str  # the file of the first of them; empty if there is none
    usage: Usage
    next: list[str]  # commands that show more about the run


def eval_result(run: Path, results: dict[str, Any], outcomes: Sequence[Outcome], kept: int = 0) -> EvalResult:
    """Summarise a run that has ended. `kept` of its episodes were already in its folder."""
    failed = spread_over_families([outcome for outcome in outcomes if not outcome.success], FAILURES)
    failures = _frequent_failures(run, failed)
    raised = [EpisodeKey(outcome.task_id, outcome.trial) for outcome in outcomes if outcome.raised]
    return EvalResult(
        agent=results["agent"],
        suite=results["suite"],
        version=results["version"],
        folder=str(run),
        episodes=len(outcomes),
        kept=kept,
        successes=sum(outcome.success for outcome in outcomes),
        success=msgspec.convert(results["overall"]["numbers"]["success"], Estimate),
        examined=len(failed),
        failures=failures,
        raised=len(raised),
        traceback=str(run / min(raised).error_place) if raised else "",
        usage=spent_on(run),
        next=[
            *(shlex.join(["companyos", "blame", failure.transcript]) for failure in failures[:1]),
            shlex.join(["companyos", "report", str(run)]),
        ],
    )


def _frequent_failures(run: Path, failed: Sequence[Outcome]) -> list[Failure]:
    """Return the decisive mistakes that lost most of these episodes."""
    blames: dict[str, list[tuple[Outcome, Blame]]] = {}
    for outcome in with_bar(failed, len(failed), "explaining"):
        blamed = blame(read_transcript(_path(run, outcome)), outcome.raised)
        blames.setdefault(habit_of(blamed), []).append((outcome, blamed))
    failures = []
    for habit, episodes in sorted(blames.items(), key=lambda item: (-len(item[1]), item[0]))[:MAX_KINDS]:
        outcome, blamed = min(episodes, key=lambda episode: (episode[0].steps, episode[0].task_id, episode[0].trial))
        failures.append(Failure(habit, len(episodes), headline(blamed), str(_path(run, outcome))))
    return failures


def lines(result: EvalResult) -> Iterator[str]:
    """Yield the result as a person reads it."""
    successes = f"{result.successes} of {result.episodes} episodes succeeded"
    yield f"{result.agent} on {result.suite}, version {result.version}: {successes}, {_with_interval(result.success)}"
    if result.kept:
        played = f"{result.episodes - result.kept} were played now"
        yield f"{result.kept} of {result.episodes} episodes were already in {result.folder} and were kept; {played}."
    if result.failures:
        failed = result.episodes - result.successes
        examined = f" among {result.examined} of them" if result.examined < failed else ""
        yield f"{failed} failed. The most frequent mistakes{examined}, each with the shortest episode:"
    for failure in result.failures:
        yield f"{failure.episodes:>5} {failure.habit}"
        yield f"      {failure.headline}"
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


def _path(run: Path, outcome: Outcome) -> Path:
    return run / EpisodeKey(outcome.task_id, outcome.trial).place
