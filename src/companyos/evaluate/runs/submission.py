"""Checks a submitted run: replays every episode and computes every number again."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import file_digest, sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.assurance.replay import ReplayedEpisode
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, BadTask, ReplayDiffers
from companyos.core.parallel import as_they_come
from companyos.env.rewards import current_profile_name
from companyos.evaluate.judge.outcome import REWARD
from companyos.evaluate.runs.episode_file import EpisodeKey, error_of, person_of, places, usage_of
from companyos.evaluate.runs.run import (
    MANIFEST_FILE,
    OUTCOMES_FILE,
    RESULTS_FILE,
    SUITE_FILE,
    BadRun,
    FinishedEpisode,
    RunPlan,
    judged,
    manifest_of,
    outcomes_of,
    plan_of,
    results_of,
)
from companyos.evaluate.suites.suite import Suite, read_suite, suite

WHAT_SUBMIT_CHECK_PROVES = (
    "This proves that the numbers follow from the calls. It does not prove who made the calls, nor that they are the first"
    " that were made; tokens and costs are as reported."
)


class SubmissionFinding(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong with a submission: in which file, what kind of problem, and what shows it."""

    where: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.what}"


class SubmissionCheck(msgspec.Struct, frozen=True):
    """The result of checking a submission. If there are no findings, `results` are numbers that we computed ourselves."""

    plan: RunPlan
    findings: tuple[SubmissionFinding, ...]
    episodes: int
    repeated: int  # trials that are identical to another trial of the task, as those of a deterministic agent are
    results: dict[str, Any] | None


class _CheckedEpisode(msgspec.Struct, frozen=True):
    """An episode that was checked: the judged episode, or what is wrong with its file."""

    key: EpisodeKey
    finished: FinishedEpisode | None = None
    finding: SubmissionFinding | None = None


def check(
    run: Path,
    workers: int = 1,
    watch: Callable[[Iterator[_CheckedEpisode], int], Iterable[_CheckedEpisode]] = lambda checked, total: checked,
) -> SubmissionCheck:
    """Check a run's folder. Raises `BadRun` if it holds no run, or a run of a suite that cannot be read."""
    plan = plan_of(run)
    tasks = _suite_of(run, plan)
    keys = sorted(plan.episodes(tasks.tasks))
    findings = [*_wrong_plan(plan, tasks), *_stray_files(run, keys)]
    checked = sorted(watch(as_they_come(partial(_check, run), keys, workers, 4), len(keys)), key=lambda episode: episode.key)
    findings += [episode.finding for episode in checked if episode.finding]
    finished = [episode.finished for episode in checked if episode.finished]
    results = None
    if len(finished) == len(keys):
        results = results_of(plan, tasks, finished)
        findings += _wrong_numbers(run, results, finished)
    distinct = {(episode.key.task_id, episode.hash) for episode in finished}
    return SubmissionCheck(
        plan=plan,
        findings=tuple(sorted(findings)),
        episodes=len(checked),
        repeated=len(finished) - len(distinct),
        results=results if not findings else None,
    )


def _suite_of(run: Path, plan: RunPlan) -> Suite:
    """The suite of this name that we know; if there is none, the one in the folder."""
    try:
        return suite(plan.suite)
    except BadChoice:
        try:
            return read_suite(plan.suite, (run / SUITE_FILE).read_text())
        except (OSError, BadTask, ValueError) as error:
            raise BadRun(f"{run / SUITE_FILE}: {error}") from None


def _wrong_plan(plan: RunPlan, tasks: Suite) -> Iterator[SubmissionFinding]:
    """Compare the suite and version of the run with ours."""
    if plan.hash != tasks.hash:
        what = f"its {plan.suite} has the hash {plan.hash}; ours has {tasks.hash}"
        yield SubmissionFinding("run.json", "another suite", what)
    if plan.version != tasks.version:
        what = f"it is of benchmark version {plan.version}; this is {tasks.version}"
        yield SubmissionFinding("run.json", "another version", what)


def _stray_files(run: Path, keys: Iterable[EpisodeKey]) -> Iterator[SubmissionFinding]:
    """Files that belong to no episode of the run."""
    known = {place for key in keys for place in (key.place, key.usage_place, key.person_place, key.error_place)}
    for place in places(run):
        if place not in known:
            yield SubmissionFinding(place, "stray file", "no episode of this run belongs there")


def _check(run: Path, key: EpisodeKey) -> _CheckedEpisode:
    """Read, replay and judge one episode."""
    try:
        text = (run / key.place).read_text()
        transcript = Transcript.from_jsonl(text)
        usage, person, agent_error = usage_of(run, key), person_of(run, key), error_of(run, key)
    except FileNotFoundError:
        return _CheckedEpisode(key, finding=SubmissionFinding(key.place, "missing episode", "the file does not exist"))
    except (ValueError, OSError) as error:
        return _CheckedEpisode(key, finding=SubmissionFinding(key.place, "unreadable episode", str(error)))
    return _check_replay(key, text, transcript, usage, person.seconds if person else None, agent_error)


def _check_replay(
    key: EpisodeKey,
    text: str,
    transcript: Transcript,
    usage: tuple[Usage, ...],
    seconds: float | None,
    agent_error: str,
) -> _CheckedEpisode:
    """Replay and judge one episode whose file could be read. `agent_error` is the traceback of an agent that raised."""

    def wrong(kind: str, what: str) -> _CheckedEpisode:
        return _CheckedEpisode(key, finding=SubmissionFinding(key.place, kind, what))

    header = transcript.header
    if header.task_id != key.task_id:
        return wrong("another episode", f"it holds an episode of {header.task_id}")
    if current_profile_name(header.reward) != REWARD:
        return wrong("edited episode", f"its reward profile is {header.reward!r}, not {REWARD!r}")
    if header.actors:
        return wrong("more than one", f"it was played from {', '.join(header.actors)}'s chair as well")
    if not transcript.footer.done and not agent_error:
        return wrong("unfinished episode", "it was not played to its end")
    if transcript.footer.done and agent_error:
        return wrong("edited episode", f"it was played to its end, but {key.error_place} says that the agent raised")
    try:
        replayed = ReplayedEpisode(transcript)
        replayed.verify()
    except ReplayDiffers as difference:
        return wrong("edited episode", str(difference))
    if transcript.to_jsonl() != text:
        return wrong("edited episode", "its lines are not formatted as we write them")
    return _CheckedEpisode(key, judged(key, text, usage, replayed, seconds, agent_error).finished())


def hash_of(files: Iterable[Path]) -> str:
    """Return one hash over every file of an agent (weights, code, prompts) with its name; folders are read whole."""
    total_hash = sha256()
    for top in files:
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_dir():
                continue
            with path.open("rb") as file:
                total_hash.update(
                    f"{path.relative_to(top.parent).as_posix()}\0{file_digest(file, sha256).hexdigest()}\n".encode()
                )
    return total_hash.hexdigest()


# -- numbers -----------------------------------------------------------------------------------------------------------


def _wrong_numbers(run: Path, results: dict[str, Any], finished: list[FinishedEpisode]) -> list[SubmissionFinding]:
    """Compare the manifest, the outcomes and the results in the folder with those that we computed."""
    wrong_lines = [
        *_wrong_lines(run, MANIFEST_FILE, manifest_of(finished)),
        *_wrong_lines(run, OUTCOMES_FILE, outcomes_of(finished).decode()),
    ]
    try:
        claimed = msgspec.json.decode((run / RESULTS_FILE).read_bytes())
    except OSError:
        return [*wrong_lines, SubmissionFinding(RESULTS_FILE, "missing file", "there are no results")]
    except msgspec.MsgspecError as error:
        return [*wrong_lines, SubmissionFinding(RESULTS_FILE, "unreadable file", str(error))]
    computed = msgspec.json.decode(msgspec.json.encode(results))
    differences = _differences(claimed, computed)
    return [*wrong_lines, *(SubmissionFinding(RESULTS_FILE, "edited number", difference) for difference in differences)]


def _wrong_lines(run: Path, name: str, computed: str) -> Iterator[SubmissionFinding]:
    """The first line of a file that does not follow from the episodes."""
    try:
        claimed = (run / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        yield SubmissionFinding(name, "unreadable file", str(error))
        return
    if sha256(claimed.encode()).digest() != sha256(computed.encode()).digest():
        computed_lines, claimed_lines = computed.splitlines(), claimed.splitlines()
        same = takewhile(lambda pair: pair[0] == pair[1], zip(computed_lines, claimed_lines, strict=False))
        number = 1 + sum(1 for _ in same)
        yield SubmissionFinding(name, "edited line", f"line {number} does not follow from the episodes")


def _differences(claimed: Any, computed: Any, path: str = "") -> Iterator[str]:
    """Yield every number in which two results differ, with its path."""
    if isinstance(claimed, dict) and isinstance(computed, dict):
        for key in sorted(claimed.keys() | computed.keys()):
            yield from _differences(claimed.get(key), computed.get(key), f"{path}.{key}" if path else key)
    elif isinstance(claimed, list) and isinstance(computed, list) and len(claimed) == len(computed):
        for index, (claimed_item, computed_item) in enumerate(zip(claimed, computed, strict=True)):
            yield from _differences(claimed_item, computed_item, f"{path}[{index}]")
    elif claimed != computed or type(claimed) is not type(computed):
        yield f"{path} says {claimed!r}, and is {computed!r}"
