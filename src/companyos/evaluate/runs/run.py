"""Runs: an agent plays a suite, and each episode becomes a file. An interrupted run continues when it is started again."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.agents.custom import AgentRaised, summary_of
from companyos.assurance.replay import ReplayedEpisode
from companyos.core.episode import CANARY, Transcript
from companyos.core.files import write_atomic
from companyos.core.parallel import as_they_come
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.evaluate.judge.outcome import REWARD, Outcome, judge
from companyos.evaluate.runs.episode_file import (
    EpisodeKey,
    error_of,
    places,
    remove_unfinished,
    save_episode,
    saved_episode,
    usage_of,
)
from companyos.evaluate.runs.roster import AgentSpec, BatchPlayer, Options, agent_named, usage_by
from companyos.evaluate.stats.metrics import summarise
from companyos.evaluate.suites.suite import Suite, suite
from companyos.families.kit.goals import add_up

# Files in the folder of a run.
RUN_FILE, SUITE_FILE = "run.json", "suite.txt"
RESULTS_FILE, MANIFEST_FILE, OUTCOMES_FILE = "results.json", "manifest.txt", "outcomes.jsonl"
_CHUNK = 4  # episodes that a worker process takes at a time


class RunPlan(msgspec.Struct, frozen=True):
    """What identifies a run: which agent plays which suite, and how often. A folder holds one run."""

    agent: str
    suite: str
    hash: str
    trials: int
    version: int = BENCHMARK_VERSION

    def episodes(self, tasks: Sequence[str]) -> list[EpisodeKey]:
        """All episodes, in an order that mixes the families, so that early progress is representative.

        The trials of a task stay together.
        """
        mixed = sorted(tasks, key=lambda task_id: blake2b(task_id.encode()).digest())
        return [EpisodeKey(task_id, trial) for task_id in mixed for trial in range(self.trials)]


class FinishedEpisode(msgspec.Struct, frozen=True):
    """An episode that is in the run's folder: its outcome, and the hash of its transcript file."""

    key: EpisodeKey
    outcome: Outcome
    hash: str
    kept: bool = False  # an earlier start of the run played it


class JudgedEpisode(msgspec.Struct, frozen=True):
    """An episode that was played: its transcript as text, its token counts and costs, and its outcome.

    `error` is the traceback of an agent that raised.
    """

    key: EpisodeKey
    text: str
    usage: tuple[Usage, ...]
    outcome: Outcome
    error: str = ""

    def finished(self, kept: bool = False) -> FinishedEpisode:
        return FinishedEpisode(self.key, self.outcome, sha256(self.text.encode()).hexdigest(), kept)


# -- one episode -------------------------------------------------------------------------------------------------------


def play_episode(agent: AgentSpec, key: EpisodeKey) -> JudgedEpisode:
    """Let an agent play one episode. Its observations contain no reward. A user's agent that raises loses it."""
    env = CompanyEnv(TaskId.parse(key.task_id), REWARD)
    player = agent.open().agent(key.task_id, key.trial)
    obs, error = env.reset(), ""
    try:
        while not obs.done:
            obs = env.step(player.act(unrewarded(obs)))
    except AgentRaised as raised:
        error = str(raised)
    return judged(key, env.transcript().to_jsonl(), usage_by(player), error=error)


def unrewarded(obs: Observation) -> Observation:
    """Return the observation without reward and progress, for an agent that is evaluated."""
    return Observation(obs.scene, obs.now, obs.step, obs.reply, 0.0, obs.done)


def judged(
    key: EpisodeKey,
    text: str,
    usage: tuple[Usage, ...],
    replayed: ReplayedEpisode | None = None,
    seconds: float | None = None,
    error: str = "",
) -> JudgedEpisode:
    """Judge an episode by its transcript.

    `replayed` is its replay, if the caller has made one. `error` is the traceback of an agent that raised.
    """
    tokens, cost = (sum(u.tokens for u in usage), add_up(u.cost for u in usage)) if usage else (None, None)
    episode = replayed or Transcript.from_jsonl(text)
    return JudgedEpisode(key, text, usage, judge(episode, key.trial, tokens, cost, seconds, summary_of(error)), error)


def finish_episode(run: Path, agent: AgentSpec, key: EpisodeKey) -> FinishedEpisode:
    """Judge an episode that is in the folder; play it and write it there if it is not."""
    if (finished := _judged_file(run, key)) is not None:
        return finished
    episode = play_episode(agent, key)
    save_episode(run, key, episode.text, episode.usage, error=episode.error)
    return episode.finished()


def _judged_file(run: Path, key: EpisodeKey) -> FinishedEpisode | None:
    """Judge the episode in the folder; None if it is still to be played."""
    text = saved_episode(run, key)
    return None if text is None else judged(key, text, usage_of(run, key), error=error_of(run, key)).finished(kept=True)


# -- a run -------------------------------------------------------------------------------------------------------------

# Plays episodes into the run's folder and yields them as they finish.
Workers = Callable[[Path, AgentSpec, list[EpisodeKey]], Iterator[FinishedEpisode]]


def on_processes(count: int) -> Workers:
    """Play on this many processes.

    An agent that only waits for a server plays on as many threads; one that plays in batches, in this process.
    """

    def workers(run: Path, agent: AgentSpec, keys: list[EpisodeKey]) -> Iterator[FinishedEpisode]:
        factory = agent.open()
        if isinstance(factory, BatchPlayer):
            return _in_batches(run, factory, keys)
        threads = factory.waits
        return as_they_come(partial(finish_episode, run, agent), keys, count, 1 if threads else _CHUNK, threads)

    return workers


def _in_batches(run: Path, player: BatchPlayer, keys: list[EpisodeKey]) -> Iterator[FinishedEpisode]:
    """Judge the episodes in the folder, then let the player play all others at once."""
    unplayed = []
    for key in keys:
        if (finished := _judged_file(run, key)) is not None:
            yield finished
        else:
            unplayed.append(key)
    for index, env, usage in player.play([key.task_id for key in unplayed], REWARD) if unplayed else ():
        text = env.transcript().to_jsonl()
        save_episode(run, unplayed[index], text, usage)
        yield judged(unplayed[index], text, usage).finished()


def evaluate(
    agent: str,
    suite_name: str,
    trials: int,
    run: Path,
    workers: Workers,
    options: Options = (),
    watch: Callable[[Iterator[FinishedEpisode], int], Iterable[FinishedEpisode]] = lambda episodes, total: episodes,
) -> dict[str, Any]:
    """Let an agent play a suite, write all files of the run and return its results.

    `watch` gets the episodes as they finish and their total number, and passes them on. Raises `BadChoice` for an unknown
    agent or suite, and `BadRun` when the run cannot be started in this folder.
    """
    tasks = suite(suite_name)
    plan = RunPlan(agent, tasks.name, tasks.hash, trials)
    spec = agent_named(agent, options)
    missing = spec.open().lacks(tasks.tasks, trials)
    if missing:
        raise BadRun(missing)
    begin(run, plan, tasks, options, spec.source_hash())
    keys = plan.episodes(tasks.tasks)
    finished = sorted(watch(workers(run, spec, keys), len(keys)), key=lambda episode: episode.key)
    remove_unfinished(run)
    return conclude(run, plan, tasks, finished)


class BadRun(ValueError):
    """A run that cannot be started, continued or read. The message is one line."""


def begin(run: Path, plan: RunPlan, tasks: Suite, options: Options, source_hash: str = "") -> None:
    """Prepare an empty folder for this run, or check that the folder holds this run already.

    `source_hash` identifies the code of a user's agent. `BadRun` if the folder has episodes of other code.
    """
    run.mkdir(parents=True, exist_ok=True)
    if (run / RUN_FILE).exists():
        existing = plan_of(run)
        if msgspec.structs.replace(existing, trials=plan.trials) != plan:
            raise BadRun(
                f"{run} holds a run of {existing.agent} on {existing.suite} (v{existing.version}); give another folder"
            )
        if existing.trials > plan.trials:
            raise BadRun(f"{run} holds a run of {existing.trials} trials; ask for that many, or give another folder")
        source_hash = _checked_source(run, plan.agent, source_hash)
    elif any(run.iterdir()):
        raise BadRun(f"{run} is neither empty nor the folder of a run")
    (run / SUITE_FILE).write_text(tasks.to_text())
    source = {"agent_source": source_hash} if source_hash else {}
    settings = {**msgspec.structs.asdict(plan), **circumstances(), "options": dict(options), **source}
    write_atomic(run / RUN_FILE, as_json(settings))


class _AgentSource(msgspec.Struct, frozen=True):
    """The part of `run.json` that identifies the code of a user's agent. Folders of older versions do not have it."""

    agent_source: str = ""


def _checked_source(run: Path, agent: str, source_hash: str) -> str:
    """Return the hash to store in a folder that holds a run of this agent. `BadRun` if its episodes are of other code."""
    if not any(places(run)):
        return source_hash
    recorded = msgspec.json.decode((run / RUN_FILE).read_bytes(), type=_AgentSource).agent_source
    if source_hash and recorded and recorded != source_hash:
        source = agent.rpartition(":")[0]
        raise BadRun(f"{source} has changed since it played the episodes in {run}; give another folder, or delete this one")
    return recorded  # without a hash, nobody knows which code played the episodes


def plan_of(run: Path) -> RunPlan:
    """Read the plan of a folder's run. `BadRun` if the folder holds none."""
    try:
        return msgspec.json.decode((run / RUN_FILE).read_bytes(), type=RunPlan)
    except FileNotFoundError:
        raise BadRun(f"{run} is not the folder of a run") from None
    except msgspec.MsgspecError as error:
        raise BadRun(f"{run / RUN_FILE}: {error}") from None


def circumstances() -> dict[str, Any]:
    """When and where the run was made. `results.json` does not contain this, so that it is reproducible."""
    from companyos import __version__

    return {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "companyos": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def conclude(run: Path, plan: RunPlan, tasks: Suite, finished: Sequence[FinishedEpisode]) -> dict[str, Any]:
    """Write the manifest of the run's files, the outcome of each episode, and the results."""
    results = results_of(plan, tasks, finished)
    (run / MANIFEST_FILE).write_text(manifest_of(finished))
    (run / OUTCOMES_FILE).write_bytes(outcomes_of(finished))
    write_atomic(run / RESULTS_FILE, as_json(results))
    return results


def manifest_of(finished: Iterable[FinishedEpisode]) -> str:
    """The hash of every transcript, as `sha256sum --check` reads it."""
    return "".join(f"{episode.hash}  {episode.key.place}\n" for episode in finished)


def outcomes_of(finished: Iterable[FinishedEpisode]) -> bytes:
    return b"".join(msgspec.json.encode(episode.outcome) + b"\n" for episode in finished)


def results_of(plan: RunPlan, tasks: Suite, finished: Sequence[FinishedEpisode]) -> dict[str, Any]:
    """The results of a run: numbers that follow from its files alone."""
    manifest_hash = sha256(manifest_of(finished).encode()).hexdigest()
    header = {"canary": CANARY, "agent": plan.agent, "manifest": manifest_hash}
    return {**header, **summarise(tasks, [episode.outcome for episode in finished])}


def as_json(content: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"
