"""Runs: an agent works a suite, every episode a file. Whatever ends a run, starting it again goes on where it stood."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents.agent import Usage
from companyos.core.episode import CANARY, Transcript
from companyos.core.parallel import as_they_come
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.evaluate.judge.outcome import Outcome, judge
from companyos.evaluate.runs.episode_file import Episode, keep, kept, sweep, usage_of
from companyos.evaluate.runs.roster import Ensemble, Options, contestant, usage_by
from companyos.evaluate.stats.metrics import summarise
from companyos.evaluate.suites.suite import Suite, suite
from companyos.families.kit.goals import add_up

REWARD = "dense"  # by which every episode's return is counted
RESULTS, MANIFEST, OUTCOMES, RUN, SUITE = "results.json", "manifest.txt", "outcomes.jsonl", "run.json", "suite.txt"
_CHUNK = 4  # episodes that a worker takes at a time


class Plan(msgspec.Struct, frozen=True):
    """What a run is: who works which suite, and how often. A folder holds one."""

    agent: str
    suite: str
    hash: str
    trials: int
    version: int = BENCHMARK_VERSION

    def episodes(self, tasks: Sequence[str]) -> list[Episode]:
        """Families mixed, so that what one sees while it runs is of all of them; the trials of a task together."""
        mixed = sorted(tasks, key=lambda task_id: blake2b(task_id.encode()).digest())
        return [Episode(task_id, trial) for task_id in mixed for trial in range(self.trials)]


class Work(msgspec.Struct, frozen=True):
    """An episode that was worked: its transcript as it is written, what it cost, and what it came to."""

    episode: Episode
    text: str
    usage: tuple[Usage, ...]
    outcome: Outcome


class Done(msgspec.Struct, frozen=True):
    """An episode that lies in the run's folder: what it came to, and the hash of its file."""

    episode: Episode
    outcome: Outcome
    hash: str


# -- an episode --------------------------------------------------------------------------------------------------------


def work_on(agent: str, options: Options, episode: Episode) -> Work:
    """Lets an agent work one episode. What it sees holds no reward."""
    env = CompanyEnv(TaskId.parse(episode.task_id), REWARD)
    worker = contestant(agent, options).agent(episode.task_id, episode.trial)
    obs = env.reset()
    while not obs.done:
        obs = env.step(worker.act(unrewarded(obs)))
    return judged(episode, env.transcript().to_jsonl(), usage_by(worker))


def unrewarded(obs: Observation) -> Observation:
    """The same observation for somebody who is being measured."""
    return Observation(obs.scene, obs.now, obs.step, obs.reply, 0.0, obs.done)


def judged(episode: Episode, text: str, usage: tuple[Usage, ...]) -> Work:
    tokens, cost = (sum(u.tokens for u in usage), add_up(u.cost for u in usage)) if usage else (None, None)
    return Work(episode, text, usage, judge(Transcript.from_jsonl(text), episode.trial, tokens, cost))


def have_done(run: Path, agent: str, options: Options, episode: Episode) -> Done:
    """The episode as it lies in the folder; worked and put there where it does not yet."""
    text = kept(run, episode)
    if text is not None:
        return done(judged(episode, text, usage_of(run, episode)))
    work = work_on(agent, options, episode)
    keep(run, episode, work.text, work.usage)
    return done(work)


def done(work: Work) -> Done:
    return Done(work.episode, work.outcome, sha256(work.text.encode()).hexdigest())


# -- a run -------------------------------------------------------------------------------------------------------------

Workers = Callable[[Path, Plan, Options, list[Episode]], Iterator[Done]]


def on_processes(workers: int) -> Workers:
    """Works on this many processes; on threads, where the agent only waits for somebody else; here, where it works many
    episodes at once."""

    def crew(run: Path, plan: Plan, options: Options, episodes: list[Episode]) -> Iterator[Done]:
        who = contestant(plan.agent, options)
        if isinstance(who, Ensemble):
            return _together(run, who, episodes)
        function = partial(have_done, run, plan.agent, options)
        threads = who.waits
        return as_they_come(function, episodes, workers, 1 if threads else _CHUNK, threads)

    return crew


def _together(run: Path, who: Ensemble, episodes: list[Episode]) -> Iterator[Done]:
    left = []
    for episode in episodes:
        text = kept(run, episode)
        if text is None:
            left.append(episode)
        else:
            yield done(judged(episode, text, usage_of(run, episode)))
    for number, env, usage in who.play([episode.task_id for episode in left], REWARD) if left else ():
        text = env.transcript().to_jsonl()
        keep(run, left[number], text, usage)
        yield done(judged(left[number], text, usage))


def evaluate(
    agent: str,
    suite_name: str,
    trials: int,
    run: Path,
    workers: Workers,
    options: Options = (),
    watch: Callable[[Iterator[Done], int], Iterable[Done]] = lambda episodes, total: episodes,
) -> dict[str, Any]:
    """Has an agent work a suite and writes what it came to. `BadChoice` for what cannot be begun."""
    tasks = suite(suite_name)
    plan = Plan(agent, tasks.name, tasks.hash, trials)
    lacks = contestant(agent, options).lacks(tasks.tasks, trials)
    if lacks:
        raise BadRun(lacks)
    begin(run, plan, tasks, options)
    episodes = plan.episodes(tasks.tasks)
    finished = sorted(watch(workers(run, plan, options, episodes), len(episodes)), key=lambda one: one.episode)
    sweep(run)
    return conclude(run, plan, tasks, finished)


class BadRun(ValueError):
    """A run that cannot be begun here, in one line."""


def begin(run: Path, plan: Plan, tasks: Suite, options: Options) -> None:
    """Makes the folder a run's, or finds that it is this one's already."""
    run.mkdir(parents=True, exist_ok=True)
    if (run / RUN).exists():
        found = plan_of(run)
        if msgspec.structs.replace(found, trials=plan.trials) != plan:
            raise BadRun(f"{run} holds a run of {found.agent} on {found.suite} (v{found.version}); give another folder")
        if found.trials > plan.trials:
            raise BadRun(f"{run} holds a run of {found.trials} trials; go on with those, or give another folder")
    elif any(run.iterdir()):
        raise BadRun(f"{run} is neither empty nor the folder of a run")
    (run / SUITE).write_text(tasks.to_text())
    _write_json(run / RUN, {**msgspec.structs.asdict(plan), **circumstances(), "options": dict(options)})


def plan_of(run: Path) -> Plan:
    """What a folder's run is. `BadRun` where it holds none."""
    try:
        return msgspec.json.decode((run / RUN).read_bytes(), type=Plan)
    except FileNotFoundError:
        raise BadRun(f"{run} is not the folder of a run") from None
    except msgspec.MsgspecError as error:
        raise BadRun(f"{run / RUN}: {error}") from None


def circumstances() -> dict[str, Any]:
    """All that depends on when and where: it stands in no result."""
    from companyos import __version__

    return {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "companyos": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def conclude(run: Path, plan: Plan, tasks: Suite, finished: Sequence[Done]) -> dict[str, Any]:
    """Writes what a run came to: the manifest of its files, the outcome of each, and the numbers."""
    manifest = manifest_of(finished)
    results = results_of(plan, tasks, finished)
    (run / MANIFEST).write_text(manifest)
    (run / OUTCOMES).write_bytes(outcomes_of(finished))
    _write_json(run / RESULTS, results)
    return results


def manifest_of(finished: Iterable[Done]) -> str:
    """The hash of every transcript, as `sha256sum --check` reads it."""
    return "".join(f"{one.hash}  {one.episode.place}\n" for one in finished)


def outcomes_of(finished: Iterable[Done]) -> bytes:
    return b"".join(msgspec.json.encode(one.outcome) + b"\n" for one in finished)


def results_of(plan: Plan, tasks: Suite, finished: Sequence[Done]) -> dict[str, Any]:
    """What a run came to, in numbers that follow from its files and from nothing else."""
    hashed = sha256(manifest_of(finished).encode()).hexdigest()
    head = {"canary": CANARY, "agent": plan.agent, "manifest": hashed}
    return {**head, **summarise(tasks, [one.outcome for one in finished])}


def as_json(content: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    beside = path.with_name(f"{path.name}.part")
    beside.write_bytes(as_json(content))
    beside.replace(path)
