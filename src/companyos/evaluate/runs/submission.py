"""Submissions: a run that somebody hands in, checked. Every call is made again and every number computed anew."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import msgspec

from companyos.assurance.replay import replay
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, BadTask, ReplayDiffers
from companyos.core.parallel import as_they_come
from companyos.env.rewards import current_name
from companyos.evaluate.runs.episode_file import Episode, places, usage_of
from companyos.evaluate.runs.run import (
    MANIFEST,
    OUTCOMES,
    RESULTS,
    REWARD,
    SUITE,
    BadRun,
    Done,
    Plan,
    done,
    judged,
    manifest_of,
    outcomes_of,
    plan_of,
    results_of,
)
from companyos.evaluate.suites.suite import Suite, read_suite, suite

WHAT_IT_PROVES = (
    "This proves that the numbers follow from the calls. It does not prove who made the calls, nor that they are the first"
    " that were made; tokens and costs are as reported."
)


class Finding(msgspec.Struct, frozen=True, order=True):
    """Something in a submission that is not what it claims: what kind of thing, in which file, and how one can tell."""

    where: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.what}"


class Checked(msgspec.Struct, frozen=True):
    """What a check came to. Without findings, `results` are numbers that we have computed ourselves."""

    plan: Plan
    findings: tuple[Finding, ...]
    episodes: int
    repeated: int  # trials whose calls are those of another trial of the task: as a program's that draws no lots
    results: dict[str, Any] | None


class _Seen(msgspec.Struct, frozen=True):
    """An episode's file, looked at: judged, or with what is wrong with it."""

    episode: Episode
    done: Done | None = None
    finding: Finding | None = None


def check(
    run: Path,
    workers: int = 1,
    watch: Callable[[Iterator[_Seen], int], Iterable[_Seen]] = lambda seen, total: seen,
) -> Checked:
    """Checks a run's folder. `BadRun` where it holds none, or one of a suite that is not known here."""
    plan = plan_of(run)
    tasks = _suite_of(run, plan)
    episodes = sorted(plan.episodes(tasks.tasks))
    findings = list(_wrong_plan(plan, tasks)) + list(_stray(run, episodes))
    seen = sorted(watch(as_they_come(partial(_look, run), episodes, workers, 4), len(episodes)), key=lambda one: one.episode)
    findings += [one.finding for one in seen if one.finding]
    finished = [one.done for one in seen if one.done]
    results = None
    if len(finished) == len(episodes):
        results = results_of(plan, tasks, finished)
        findings += _wrong_numbers(run, results, finished)
    alike = Counter((one.episode.task_id, one.hash) for one in finished)
    return Checked(
        plan, tuple(sorted(findings)), len(seen), sum(alike.values()) - len(alike), results if not findings else None
    )


def _suite_of(run: Path, plan: Plan) -> Suite:
    """The suite as we know it; somebody's own, as it lies in the folder."""
    try:
        return suite(plan.suite)
    except BadChoice:
        try:
            return read_suite(plan.suite, (run / SUITE).read_text())
        except (OSError, BadTask, ValueError) as error:
            raise BadRun(f"{run / SUITE}: {error}") from None


def _wrong_plan(plan: Plan, tasks: Suite) -> Iterator[Finding]:
    if plan.hash != tasks.hash:
        yield Finding("run.json", "another suite", f"its {plan.suite} has the hash {plan.hash}; ours has {tasks.hash}")
    if plan.version != tasks.version:
        yield Finding("run.json", "another version", f"it is of benchmark version {plan.version}; this is {tasks.version}")


def _stray(run: Path, episodes: Iterable[Episode]) -> Iterator[Finding]:
    """Files that belong to no episode of the run."""
    known = {place for episode in episodes for place in (episode.place, episode.usage_place)}
    for place in places(run):
        if place not in known:
            yield Finding(place, "stray file", "no episode of this run belongs there")


def _look(run: Path, episode: Episode) -> _Seen:
    """Plays one episode again and judges it."""

    def wrong(kind: str, what: str) -> _Seen:
        return _Seen(episode, finding=Finding(episode.place, kind, what))

    try:
        text = (run / episode.place).read_text()
        transcript = Transcript.from_jsonl(text)
        usage = usage_of(run, episode)
    except FileNotFoundError:
        return wrong("missing episode", "there is no such file")
    except (ValueError, OSError) as error:
        return wrong("unreadable episode", str(error))
    if transcript.header.task_id != episode.task_id:
        return wrong("another episode", f"it holds one of {transcript.header.task_id}")
    if current_name(transcript.header.reward) != REWARD:
        return wrong("edited episode", f"its return is counted by {transcript.header.reward!r}, not by {REWARD!r}")
    if transcript.header.actors:
        return wrong("more than one", f"it was played from {', '.join(transcript.header.actors)}'s chair as well")
    if not transcript.footer.done:
        return wrong("unfinished episode", "it was not worked to its end")
    try:
        replay(transcript)
    except ReplayDiffers as difference:
        return wrong("edited episode", str(difference))
    if transcript.to_jsonl() != text:
        return wrong("edited episode", "its lines are not as we write them")
    return _Seen(episode, done=done(judged(episode, text, usage)))


def hash_of(files: Iterable[Path]) -> str:
    """One hash for all that makes an agent what it is: every file under these, with its name."""
    whole = sha256()
    for top in files:
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_dir():
                continue
            with path.open("rb") as file:
                whole.update(
                    f"{path.relative_to(top.parent).as_posix()}\0{file_digest(file, sha256).hexdigest()}\n".encode()
                )
    return whole.hexdigest()


# -- numbers -----------------------------------------------------------------------------------------------------------


def _wrong_numbers(run: Path, results: dict[str, Any], finished: list[Done]) -> list[Finding]:
    found = [
        *_wrong_lines(run, MANIFEST, manifest_of(finished)),
        *_wrong_lines(run, OUTCOMES, outcomes_of(finished).decode()),
    ]
    try:
        claimed = msgspec.json.decode((run / RESULTS).read_bytes())
    except OSError:
        return [*found, Finding(RESULTS, "missing file", "there are no results")]
    except msgspec.MsgspecError as error:
        return [*found, Finding(RESULTS, "unreadable file", str(error))]
    computed = msgspec.json.decode(msgspec.json.encode(results))
    return [*found, *(Finding(RESULTS, "edited number", what) for what in _differences(claimed, computed))]


def _wrong_lines(run: Path, name: str, computed: str) -> Iterator[Finding]:
    """The first line of a file that is not what follows from the episodes."""
    try:
        claimed = (run / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        yield Finding(name, "unreadable file", str(error))
        return
    if sha256(claimed.encode()).digest() != sha256(computed.encode()).digest():
        ours, theirs = computed.splitlines(), claimed.splitlines()
        number = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
        yield Finding(name, "edited line", f"line {number + 1} is not what follows from the episodes")


def _differences(claimed: Any, computed: Any, way: str = "") -> Iterator[str]:
    """Where two results differ, down to the number."""
    if isinstance(claimed, dict) and isinstance(computed, dict):
        for key in sorted(claimed.keys() | computed.keys()):
            yield from _differences(claimed.get(key), computed.get(key), f"{way}.{key}" if way else key)
    elif isinstance(claimed, list) and isinstance(computed, list) and len(claimed) == len(computed):
        for number, (one, other) in enumerate(zip(claimed, computed, strict=True)):
            yield from _differences(one, other, f"{way}[{number}]")
    elif claimed != computed or type(claimed) is not type(computed):
        yield f"{way} says {claimed!r}, and is {computed!r}"
