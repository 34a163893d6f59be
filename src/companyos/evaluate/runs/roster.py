"""Roster: the agents that can be measured, by name.

A name is that of a built-in agent, or `KIND:WHICH`, such as `saved:DIR`, or that of a user's agent, `module:attribute` or
`path/file.py:attribute`. `AGENT_KINDS` lists the kinds; packages above this one add theirs with `add_agent_kind`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from companyos.agents import AGENTS, Agent
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.agents.agent import Usage
from companyos.agents.custom import CUSTOM_FORMS, is_custom, load_agent, source_hash
from companyos.agents.routine import WAIT
from companyos.assurance.replay import action_of
from companyos.core.episode import Transcript, Turn
from companyos.core.errors import BadChoice, Misuse, install_hint
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.evaluate.runs.episode_file import transcripts


class AgentFactory(Protocol):
    """Makes an agent for each episode. If the agent has an attribute `usage`, its costs are read from there.

    The task id only tells episodes apart. It must never reach the agent's decisions: it says how the work should end.
    """

    waits: bool  # most of the time is spent waiting for a server: threads do as well as processes

    def agent(self, task_id: str, trial: int) -> Agent: ...
    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        """Say in one line why these tasks cannot be played; empty if they can."""
        ...


@runtime_checkable
class BatchPlayer(Protocol):
    """A factory whose agents play many episodes at once, faster than one by one."""

    def play(self, task_ids: Sequence[str], reward: str) -> Iterator[tuple[int, CompanyEnv, tuple[Usage, ...]]]:
        """Play each task to its end in this reward profile; yield its number, episode and costs as it ends."""
        ...


Options = tuple[tuple[str, str], ...]  # settings from the command line, such as the address of an endpoint
Opener = Callable[[str, Mapping[str, str]], AgentFactory]  # takes what follows the colon of a name, and the options


class AgentKind(NamedTuple):
    """A kind of agents that are named `KIND:WHICH`."""

    metavar: str  # what WHICH stands for, such as DIR
    open: Opener


class AgentSpec(NamedTuple):
    """Which agent a run measures, in a form that worker processes can unpickle.

    The opener is a module-level function and pickled by its import path. So a worker finds it, though nothing was registered
    in that process.
    """

    name: str
    which: str
    options: Options
    opener: Opener

    def open(self) -> AgentFactory:
        return self.opener(self.which, dict(self.options))

    def source_hash(self) -> str:
        """Return the hash of the file that defines a user's agent, which must have been opened. Empty for other agents."""
        return source_hash(self.which) if self.opener is _custom else ""


def agent_named(name: str, options: Options = ()) -> AgentSpec:
    """Find an agent by name. `BadChoice` lists the names that exist."""
    if name in AGENTS:
        return AgentSpec(name, name, (), _built_in)
    kind, colon, which = name.partition(":")
    if colon and which and kind in AGENT_KINDS:
        return AgentSpec(name, which, options, AGENT_KINDS[kind].open)
    if is_custom(name):
        return AgentSpec(name, name, (), _custom)
    raise BadChoice("agent", name, names())


def names() -> list[str]:
    """Every name of a built-in agent, and the form of all other names."""
    return [*AGENTS, *(f"{name}:{kind.metavar}" for name, kind in AGENT_KINDS.items()), *CUSTOM_FORMS]


def seed_of(task_id: str, trial: int) -> int:
    """The random seed of an agent in one episode."""
    return int.from_bytes(blake2b(f"{task_id}/{trial}".encode(), digest_size=6).digest())


def usage_by(agent: Agent) -> tuple[Usage, ...]:
    return tuple(getattr(agent, "usage", ()))


# -- built-in agents ---------------------------------------------------------------------------------------------------


class BuiltIn:
    """Makes agents of this package. With `fixed`, the number of the trial chooses the variant of the agent."""

    waits = False

    def __init__(self, make: Callable[[int], Agent], fixed: bool = False) -> None:
        self._make = make
        self._fixed = fixed

    def agent(self, task_id: str, trial: int) -> Agent:
        return self._make(trial if self._fixed else seed_of(task_id, trial))

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        return ""


def _built_in(name: str, options: Mapping[str, str]) -> AgentFactory:
    return BuiltIn(AGENTS[name], fixed=name in ADVERSARIES and ADVERSARIES[name].variants is not None)


def _variant(which: str, options: Mapping[str, str]) -> AgentFactory:
    agent, _, number = which.partition("/")
    known = [name for name, adversary in ADVERSARIES.items() if adversary.variants is not None]
    if agent not in known or not number.isdecimal():
        raise BadChoice("variant", which, [f"{name}/NUMBER" for name in known])
    return BuiltIn(lambda seed: ADVERSARIES[agent].make(int(number)))


def _careless(dial: str, options: Mapping[str, str]) -> AgentFactory:
    if dial not in HABITS:
        raise BadChoice("dial", dial, HABITS)
    return BuiltIn(lambda seed: Careless(HABITS[dial]))


# -- agents of users ---------------------------------------------------------------------------------------------------


class CustomAgents:
    """Makes the agents of a user. Each worker process loads the module or the file itself."""

    waits = False

    def __init__(self, name: str) -> None:
        self._make = load_agent(name)

    def agent(self, task_id: str, trial: int) -> Agent:
        return self._make()

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        return ""


def _custom(name: str, options: Mapping[str, str]) -> AgentFactory:
    return CustomAgents(name)


# -- saved episodes ----------------------------------------------------------------------------------------------------


class SavedEpisodes:
    """Makes agents that repeat the episodes saved in a folder, by a person or by another run. Each file is one trial."""

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
                continue  # a person's folder may hold other files
            if not transcript.header.actors:  # an agent is measured alone
                self._turns.setdefault(transcript.header.task_id, []).append(transcript.turns)

    def agent(self, task_id: str, trial: int) -> Agent:
        return Repeater(self._turns[task_id][trial])

    def lacks(self, tasks: Sequence[str], trials: int) -> str:
        short = [task_id for task_id in tasks if len(self._turns.get(task_id, ())) < trials]
        if not short:
            return ""
        return f"{self._folder} has too few episodes of {len(short)} of the {len(tasks)} tasks, such as {short[0]}"


class Repeater:
    """Makes the calls of a saved episode again. After the last one it waits until the budget is used up."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns

    def act(self, obs: Observation) -> Any:
        return action_of(self._turns[obs.step]) if obs.step < len(self._turns) else WAIT


@cache
def _saved_in(folder: str) -> SavedEpisodes:
    return SavedEpisodes(Path(folder))


def _saved(folder: str, options: Mapping[str, str]) -> AgentFactory:
    return _saved_in(folder)


# -- models ------------------------------------------------------------------------------------------------------------


def _openai(model: str, options: Mapping[str, str]) -> AgentFactory:
    from companyos.agents.llm.language_model import open_model  # needs the extra `llm`

    return open_model(model, tuple(sorted(options.items())))


def _tiny(path: str, options: Mapping[str, str]) -> AgentFactory:
    try:
        from companyos.agents.tiny import Tiny, load
    except ModuleNotFoundError as missing:
        raise Misuse(f"a small learner needs {missing.name}: {install_hint('tiny')}") from None
    weights = load(path)
    return BuiltIn(lambda seed: Tiny(weights, seed))


AGENT_KINDS = {
    "variant": AgentKind("AGENT/NUMBER", _variant),
    "careless": AgentKind("DIAL", _careless),
    "saved": AgentKind("DIR", _saved),
    "openai": AgentKind("MODEL", _openai),
    "tiny": AgentKind("FILE", _tiny),
}


def add_agent_kind(name: str, metavar: str, opener: Opener) -> None:
    """Add a kind of agents, or replace one. The opener must be a module-level function, because workers unpickle it."""
    AGENT_KINDS[name] = AgentKind(metavar, opener)
