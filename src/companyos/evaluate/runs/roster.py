"""Roster: who can be measured, by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol, runtime_checkable

from companyos.agents import AGENTS, Agent
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.agents.agent import Usage
from companyos.agents.routine import WAIT
from companyos.core.episode import Transcript, Turn
from companyos.core.errors import BadChoice, Misuse
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.evaluate.runs.episode_file import transcripts


class Contestant(Protocol):
    """Whoever is measured. It gives an agent for each episode, from whose `usage`, where it has one, we read the costs.

    The task id is there to tell episodes apart. It must never reach what decides: it says how the work should end.
    """

    waits: bool  # for somebody else, most of the time: then threads do as well as processes

    def agent(self, task_id: str, trial: int) -> Agent: ...
    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        """Why it cannot work these, in one line; empty where it can."""
        ...


@runtime_checkable
class Ensemble(Protocol):
    """A contestant that works many episodes at once, faster than it would one by one."""

    def play(self, task_ids: Sequence[str], reward: str) -> Iterator[tuple[int, CompanyEnv, tuple[Usage, ...]]]:
        """Plays each to its end, its turns counted by this reward; gives it with its number, as it ends."""
        ...


Options = tuple[tuple[str, str], ...]  # what a contestant's opener is told beside its name, such as an endpoint's address


def contestant(name: str, options: Options = ()) -> Contestant:
    """Whoever has this name. `BadChoice` lists the names that there are."""
    kind, colon, rest = name.partition(":")
    if name in AGENTS:
        return Zoo(AGENTS[name], fixed=ADVERSARIES[name].variants is not None if name in ADVERSARIES else False)
    if not (colon and rest) or kind not in OPENERS:
        raise BadChoice("agent", name, names())
    return OPENERS[kind](rest, dict(options))


def names() -> list[str]:
    """Every name, and what the names look like that need something more."""
    return [*AGENTS, *(f"{kind}:{opener.__doc__}" for kind, opener in OPENERS.items())]


def seed_of(task_id: str, trial: int) -> int:
    """The seed of an agent's own choices: another one in every episode."""
    return int.from_bytes(blake2b(f"{task_id}/{trial}".encode(), digest_size=6).digest())


def usage_by(agent: Agent) -> tuple[Usage, ...]:
    return tuple(getattr(agent, "usage", ()))


# -- the zoo -----------------------------------------------------------------------------------------------------------


class Zoo:
    """An agent of ours. Of one that comes in variants, the trial is the number of the variant."""

    waits = False

    def __init__(self, make: Callable[[int], Agent], fixed: bool = False) -> None:
        self._make = make
        self._fixed = fixed

    def agent(self, task_id: str, trial: int) -> Agent:
        return self._make(trial if self._fixed else seed_of(task_id, trial))

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        return ""


def _variant(rest: str, options: Mapping[str, str]) -> Contestant:
    """POLICY/NUMBER"""
    policy, _, number = rest.partition("/")
    known = [name for name, adversary in ADVERSARIES.items() if adversary.variants is not None]
    if policy not in known or not number.isdecimal():
        raise BadChoice("variant", rest, [f"{name}/NUMBER" for name in known])
    return Zoo(lambda seed: ADVERSARIES[policy].make(int(number)))


def _careless(dial: str, options: Mapping[str, str]) -> Contestant:
    """DIAL"""
    if dial not in HABITS:
        raise BadChoice("dial", dial, HABITS)
    return Zoo(lambda seed: Careless(HABITS[dial]))


# -- what somebody saved -----------------------------------------------------------------------------------------------


class Saved:
    """Whoever played the episodes that lie in a folder: a person, or a run of somebody else's. A file is a trial."""

    waits = False

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise BadChoice("folder", str(folder), ["one that holds transcripts (*.jsonl)"])
        self._folder = folder
        self._turns: dict[str, list[tuple[Turn, ...]]] = {}
        for path in transcripts(folder):
            try:
                transcript = Transcript.from_jsonl(path.read_bytes())
            except ValueError:
                continue  # other files lie about in people's folders
            if not transcript.header.actors:  # whoever is measured works alone
                self._turns.setdefault(transcript.header.task_id, []).append(transcript.turns)

    def agent(self, task_id: str, trial: int) -> Agent:
        return Again(self._turns[task_id][trial])

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        short = [task_id for task_id in tasks if len(self._turns.get(task_id, ())) < trials]
        if not short:
            return ""
        return f"{self._folder} has too few episodes of {len(short)} of the {len(tasks)} tasks, such as {short[0]}"


class Again:
    """Makes the calls that somebody made. Where they gave up, time passes."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns

    def act(self, obs: Observation) -> Any:
        if obs.step >= len(self._turns):
            return WAIT
        turn = self._turns[obs.step]
        return turn.action[0] if turn.action else turn.call


@cache
def _saved_in(folder: str) -> Saved:
    return Saved(Path(folder))


def _saved(folder: str, options: Mapping[str, str]) -> Contestant:
    """DIR"""
    return _saved_in(folder)


def _openai(model: str, options: Mapping[str, str]) -> Contestant:
    """MODEL"""
    from companyos.agents.llm.language_model import open_model  # needs an extra

    return open_model(model, tuple(sorted(options.items())))


def _local(folder: str, options: Mapping[str, str]) -> Contestant:
    """DIR"""
    # Named by its place: it stands above us, where models are trained, and what it plays with comes with an extra.
    opened: Contestant = resolve_name("companyos.train.runs.local:open_local")(folder, options)
    return opened


def _tiny(path: str, options: Mapping[str, str]) -> Contestant:
    """FILE"""
    try:
        from companyos.agents.tiny import Tiny, load
    except ModuleNotFoundError as missing:
        raise Misuse(f'a small learner needs {missing.name}: pip install "companyos[tiny]"') from None
    weights = load(path)
    return Zoo(lambda seed: Tiny(weights, seed))


# The docstring of each is what its names look like after the colon.
OPENERS: dict[str, Callable[[str, Mapping[str, str]], Contestant]] = {
    "variant": _variant,
    "careless": _careless,
    "saved": _saved,
    "openai": _openai,
    "local": _local,
    "tiny": _tiny,
}
