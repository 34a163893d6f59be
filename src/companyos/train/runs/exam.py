"""Exams: a model plays the tasks of a suite, greedily and sampled. Every episode is logged as soon as it ends.

`outcomes.jsonl` has a line for each episode, `summary.json` the results. If an exam is interrupted, the same command
continues with the missing episodes. An episode that is cut off at the time limit counts as a failure.
"""

import math
import time
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import INVALID
from companyos.evaluate.stats.intervals import share
from companyos.evaluate.suites.suite import Suite
from companyos.train.data.repeats import Decoding
from companyos.train.decoding.attempts import LOOP_CALLS, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, as_they_end
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.model.models import Learner, load
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.decisions import accuracy, decisions

OUTCOMES, SUMMARY = "outcomes.jsonl", "summary.json"
EpisodeKey = tuple[str, float, int]  # task id, temperature, trial


class ExamEpisode(msgspec.Struct, frozen=True):
    """One episode of an exam."""

    task_id: str
    temperature: float
    trial: int
    repeats: int  # the limit on repeated calls (`repeats.Decoding`); 0 means none
    success: bool
    ended: str  # how it ended (`attempts.py`)
    steps: int
    most_alike: int  # how often the most repeated call had the same reply
    invalid: int  # invalid calls
    tokens: int  # that the model wrote

    @property
    def key(self) -> EpisodeKey:
        return self.task_id, self.temperature, self.trial


def planned_episodes(tasks: Sequence[str], samples: int) -> list[EpisodeKey]:
    """Return the episodes of an exam: every task once greedily, and `samples` times sampled."""
    greedy = [(task_id, 0.0, 0) for task_id in tasks]
    return greedy + [(task_id, 1.0, trial) for trial in range(samples) for task_id in tasks]


def examine(
    learner: Learner, speaker: Speaker, plan: Sequence[EpisodeKey], out: Path, repeats: int = 0, until: float = math.inf
) -> Iterator[ExamEpisode]:
    """Play the missing episodes of an exam. Yield all its episodes, those from earlier sessions first."""
    out.mkdir(parents=True, exist_ok=True)
    earlier = list(_read(out / OUTCOMES))
    yield from earlier
    played = {episode.key for episode in earlier}
    missing = [key for key in plan if key not in played]
    tokenizer = learner.script_tokenizer()

    def episodes() -> Iterator[BoundedEpisode]:
        for task_id, temperature, _ in missing:
            episode = BoundedEpisode(
                task_id,
                greedy=temperature == 0,
                tokenizer=tokenizer,
                limit=learner.limit,
                reserve=learner.reserve,
                decoding=Decoding(temperature, repeats),
            )
            episode.until = until
            yield episode

    with (out / OUTCOMES).open("ab") as file:
        for number, episode in as_they_end(speaker, episodes(), TimeSpent()):
            exam_episode = _exam_episode(missing[number], repeats, episode)
            file.write(msgspec.json.encode(exam_episode) + b"\n")
            file.flush()
            yield exam_episode


def _exam_episode(key: EpisodeKey, repeats: int, episode: BoundedEpisode) -> ExamEpisode:
    return ExamEpisode(
        *key,
        repeats=repeats,
        success=bool(episode.env.success),
        ended=episode.ended,
        steps=len(episode.lines),
        most_alike=episode.highest_count,
        invalid=sum(turn.reply.code in INVALID for turn in episode.env.turns),
        tokens=sum(usage.tokens_out for usage in episode.usage),
    )


def _read(path: Path) -> Iterator[ExamEpisode]:
    """Yield the episodes in a file. Remove the last line if it is incomplete."""
    if not path.exists():
        return
    complete, _, _ = path.read_bytes().rpartition(b"\n")
    path.write_bytes(complete + b"\n" if complete else b"")
    for line in complete.splitlines():
        yield msgspec.json.decode(line, type=ExamEpisode)


# -- results -----------------------------------------------------------------------------------------------------------


def summary(suite: Suite, episodes: Sequence[ExamEpisode]) -> dict[str, Any]:
    """Return, for each temperature: success in total, by family and by pair, and how episodes ended."""
    by_temperature: dict[float, list[ExamEpisode]] = defaultdict(list)
    for episode in episodes:
        by_temperature[episode.temperature].append(episode)
    return {f"temperature {value:g}": _numbers(suite, group) for value, group in sorted(by_temperature.items())}


def _numbers(suite: Suite, episodes: Sequence[ExamEpisode]) -> dict[str, Any]:
    """Return the results of the episodes with one temperature."""
    families: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for episode in episodes:
        families[TaskId.parse(episode.task_id).family].append((episode.task_id, episode.success))
    won = {(episode.task_id, episode.trial): episode.success for episode in episodes}
    pairs = [
        (pair.task, won[pair.task, trial] and won[pair.twin, trial])
        for pair in suite.pairs
        for trial in {episode.trial for episode in episodes}
        if (pair.task, trial) in won and (pair.twin, trial) in won
    ]
    return {
        "episodes": len(episodes),
        "success": _share([(episode.task_id, episode.success) for episode in episodes]),
        "families": {name: _share(results) for name, results in sorted(families.items())},
        "pairs": _share(pairs) if pairs else None,
        "ended": dict(sorted(Counter(episode.ended for episode in episodes).items())),
        "loops": sum(episode.most_alike >= LOOP_CALLS for episode in episodes),
        "invalid_calls": sum(episode.invalid for episode in episodes) / max(1, sum(episode.steps for episode in episodes)),
        "repeats": sorted({episode.repeats for episode in episodes}),
    }


def _share(results: Sequence[tuple[str, bool]]) -> dict[str, Any]:
    """Return the share of successes with its 95 % interval. Tasks with the same seed form one cluster."""
    estimate = share([(_cluster(task_id), float(success), 1.0) for task_id, success in results])
    assert estimate is not None
    return {"value": round(estimate.value, 4), "low": estimate.low, "high": estimate.high, "n": estimate.n}


def _cluster(task_id: str) -> str:
    task = TaskId.parse(task_id)
    return f"{task.family}-{task.seed}"


def run_checkup(args: Namespace, suite: Suite, families: Sequence[str], device: str) -> Iterator[str]:
    """Carry out `companyos train checkup`: yield the result line by line, and write it into a folder."""
    ends = time.monotonic() + 60 * args.minutes
    learner = load(args.model, device)
    tasks = [task_id for task_id in suite.tasks if TaskId.parse(task_id).family in families]
    plan = planned_episodes(tasks, args.samples)
    speaker = speaker_for(learner, min(args.rows, max(len(plan), 1)), args.silent)
    results: dict[str, Any] = {"model": args.model, "working": learner.working and not args.silent}
    if args.decisions:
        pairs = checkup_of(families, args.chaos, tasks=0, pairs=args.decisions).pairs
        results |= accuracy(learner, speaker, decisions(learner, pairs))
        yield f"decision accuracy {results['decision_accuracy']:.1%}: {results['decisions']}"
    episodes = list(examine(learner, speaker, plan, args.out, args.repeats, ends)) if plan else []
    for name, numbers in summary(suite, episodes).items():
        results[name] = numbers
        success, pairs_won = numbers["success"], numbers["pairs"]
        yield f"{name}: success {success['value']:.1%} ({success['low']:.1%} to {success['high']:.1%}) of {success['n']}"
        yield f"  both twins {pairs_won['value'] if pairs_won else None}, ended {numbers['ended']}, loops {numbers['loops']}"
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    yield f"Written to {args.out}."
