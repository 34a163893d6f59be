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
from companyos.train.decoding.attempts import LOOPED, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, as_they_end
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.model.models import Learner, load
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.decisions import accuracy, decisions

OUTCOMES, SUMMARY = "outcomes.jsonl", "summary.json"
Sitting = tuple[str, float, int]  # task id, temperature, trial


class ExamEpisode(msgspec.Struct, frozen=True):
    """One episode of an exam."""

    task_id: str
    temperature: float
    trial: int
    repeats: int  # the limit on repeated calls (`repeats.Decoding`); 0 means none
    success: bool
    ended: str
    steps: int
    most_alike: int  # highest count of one call with one reply
    invalid: int
    tokens: int

    @property
    def sitting(self) -> Sitting:
        return self.task_id, self.temperature, self.trial


def sittings(tasks: Sequence[str], samples: int) -> list[Sitting]:
    """Return the episodes of an exam: every task once greedily, and `samples` times sampled."""
    greedy = [(task_id, 0.0, 0) for task_id in tasks]
    return greedy + [(task_id, 1.0, trial) for trial in range(samples) for task_id in tasks]


def examine(
    learner: Learner, speaker: Speaker, plan: Sequence[Sitting], out: Path, repeats: int = 0, until: float = math.inf
) -> Iterator[ExamEpisode]:
    """Play the missing episodes of an exam. Yield all its episodes, those from earlier sessions first."""
    out.mkdir(parents=True, exist_ok=True)
    there = list(_read(out / OUTCOMES))
    yield from there
    known = {one.sitting for one in there}
    left = [one for one in plan if one not in known]
    tokenizer, how = learner.script_tokenizer(), (learner.limit, learner.reserve, "score", 0)

    def episodes() -> Iterator[BoundedEpisode]:
        for task_id, temperature, _ in left:
            one = BoundedEpisode(task_id, temperature == 0, tokenizer, *how, Decoding(temperature, repeats))
            one.until = until
            yield one

    with (out / OUTCOMES).open("ab") as file:
        for number, one in as_they_end(speaker, episodes(), TimeSpent()):
            sat = _exam_episode(left[number], repeats, one)
            file.write(msgspec.json.encode(sat) + b"\n")
            file.flush()
            yield sat


def _exam_episode(sitting: Sitting, repeats: int, one: BoundedEpisode) -> ExamEpisode:
    invalid = sum(turn.reply.code in INVALID for turn in one.env.turns)
    said = sum(usage.tokens_out for usage in one.usage)
    return ExamEpisode(*sitting, repeats, bool(one.env.success), one.ended, len(one.lines), one.most_alike, invalid, said)


def _read(path: Path) -> Iterator[ExamEpisode]:
    """Yield the episodes in a file. Remove the last line if it is incomplete."""
    if not path.exists():
        return
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    path.write_bytes(whole + b"\n" if whole else b"")
    for line in whole.splitlines():
        yield msgspec.json.decode(line, type=ExamEpisode)


# -- results -----------------------------------------------------------------------------------------------------------


def summary(suite: Suite, found: Sequence[ExamEpisode]) -> dict[str, Any]:
    """Return, for each temperature: success in total, by family and by pair, and how episodes ended."""
    by_temperature: dict[float, list[ExamEpisode]] = defaultdict(list)
    for one in found:
        by_temperature[one.temperature].append(one)
    return {f"temperature {heat:g}": _numbers(suite, ones) for heat, ones in sorted(by_temperature.items())}


def _numbers(suite: Suite, found: Sequence[ExamEpisode]) -> dict[str, Any]:
    families: dict[str, list[ExamEpisode]] = defaultdict(list)
    for one in found:
        families[TaskId.parse(one.task_id).family].append(one)
    won = {(one.task_id, one.trial): one.success for one in found}
    pairs = [
        (pair.task, won[pair.task, trial] and won[pair.twin, trial])
        for pair in suite.pairs
        for trial in {one.trial for one in found}
        if (pair.task, trial) in won and (pair.twin, trial) in won
    ]
    return {
        "episodes": len(found),
        "success": _share([(one.task_id, one.success) for one in found]),
        "families": {name: _share([(one.task_id, one.success) for one in ones]) for name, ones in sorted(families.items())},
        "pairs": _share(pairs) if pairs else None,
        "ended": dict(sorted(Counter(one.ended for one in found).items())),
        "loops": sum(one.most_alike >= LOOPED for one in found),
        "invalid_calls": sum(one.invalid for one in found) / max(1, sum(one.steps for one in found)),
        "repeats": sorted({one.repeats for one in found}),
    }


def _share(rows: Sequence[tuple[str, bool]]) -> dict[str, Any]:
    """Return a share with its 95 % interval. Tasks with the same seed form one cluster."""
    found = share([(_seed(task_id), float(won), 1.0) for task_id, won in rows])
    assert found is not None
    return {"value": round(found.value, 4), "low": found.low, "high": found.high, "n": found.n}


def _seed(task_id: str) -> str:
    task = TaskId.parse(task_id)
    return f"{task.family}-{task.seed}"


def checked_up(args: Namespace, suite: Suite, families: Sequence[str], device: str) -> Iterator[str]:
    """Carry out `companyos train checkup`: yield the result line by line, and write it into a folder."""
    ends = time.monotonic() + 60 * args.minutes
    learner = load(args.model, device)
    plan = sittings([one for one in suite.tasks if TaskId.parse(one).family in families], args.samples)
    speaker = speaker_for(learner, min(args.rows, max(len(plan), 1)), args.silent)
    found: dict[str, Any] = {"model": args.model, "working": learner.working and not args.silent}
    if args.decisions:
        pairs = checkup_of(families, args.chaos, 0, args.decisions).pairs
        found |= accuracy(learner, speaker, decisions(learner, pairs))
        yield f"decision accuracy {found['decision_accuracy']:.1%}: {found['decisions']}"
    sat = list(examine(learner, speaker, plan, args.out, args.repeats, ends)) if plan else []
    for name, numbers in summary(suite, sat).items():
        found[name] = numbers
        success, pairs_won = numbers["success"], numbers["pairs"]
        yield f"{name}: success {success['value']:.1%} ({success['low']:.1%} to {success['high']:.1%}) of {success['n']}"
        yield f"  both twins {pairs_won['value'] if pairs_won else None}, ended {numbers['ended']}, loops {numbers['loops']}"
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    yield f"Written to {args.out}."
