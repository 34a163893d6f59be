"""Rollouts: episodes that a speaker works, many at once, with all that a loss needs to know of what was said."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter

import msgspec

from companyos.agents.agent import Usage
from companyos.env import CompanyEnv, make
from companyos.lines import parse_line
from companyos.train.models import Learner
from companyos.train.script import LIMIT, RESERVE, Script, heard, opening
from companyos.train.speakers import Said, Speaker


class Tongue:
    """A tokenizer, as scripts use it. What is said alike is looked up once: a group reads the same replies over and over."""

    def __init__(self, learner: Learner) -> None:
        self.encode: Callable[[str], list[int]] = lru_cache(65536)(learner.encode)
        self._text: Callable[[tuple[int, ...]], str] = lru_cache(65536)(lambda tokens: learner.decode(list(tokens)))

    def decode(self, tokens: Iterable[int]) -> str:
        return self._text(tuple(tokens))


class Window(msgspec.Struct):
    """A script as it stood while some calls were said: what each was drawn from are the tokens before it."""

    tokens: list[int]
    calls: list[tuple[int, list[float]]]  # where one begins, and the log probabilities of its tokens


class Played:
    """One episode: the company, the script, and the windows through which it was seen.

    `patience` is how often one line may be said in it before it is given up; 0: as often as there are steps.
    """

    def __init__(
        self,
        task_id: str,
        greedy: bool,
        tongue: Tongue,
        limit: int = LIMIT,
        reserve: int = RESERVE,
        reward: str = "score",
        patience: int = 0,
    ) -> None:
        self.task_id = task_id
        self.greedy = greedy
        self.env: CompanyEnv = make(task_id, reward=reward)
        self.script = Script(tongue.encode, limit, reserve)
        self.script.open(opening(self.env.look()))
        self.windows: list[Window] = []
        self.usage: list[Usage] = []
        self.over = False  # ended, or given up: whoever goes round in circles takes up the time of all, and wins nothing
        self._tongue = tongue
        self._patience = patience
        self._said: Counter[str] = Counter()
        self._calls: list[tuple[int, list[float]]] = []

    def take(self, said: Said, spent: "Spent") -> None:
        """Makes the call that was said, and hears what comes of it."""
        script = self.script
        spent.tokens += len(said.tokens)
        self.usage.append(Usage(len(script.tokens), len(said.tokens), form="text"))
        with spent.on("text"):
            self._calls.append((len(script.tokens), said.logprobs))
            script.say(said.tokens)
            line = self._tongue.decode(said.tokens).strip()
            call = parse_line(line, self.env.toolbox)
        with spent.on("env"):
            obs = self.env.step(line if isinstance(call, str) else call)
        with spent.on("text"):
            self._said[line] += 1
            self.over = obs.done or self._said[line] == self._patience
            seen, end = script.tokens, len(script.tokens)
            if self.over or script.hear(heard(obs, call if isinstance(call, str) else "")):
                self.windows.append(Window(seen[:end], self._calls))
                self._calls = []

    @property
    def total(self) -> float:
        """The sum of its rewards."""
        return self.env.total


class Spent:
    """Seconds on our own work, by kind: the company's (`env`) and its texts' (`text`)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.tokens = 0  # said
        self._begun = time.perf_counter()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._begun

    @contextmanager
    def on(self, kind: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[kind] += time.perf_counter() - begun


def rollout(speaker: Speaker, episodes: Iterable[Played], spent: Spent) -> list[Played]:
    """Has episodes played to their ends. In the order in which they were given."""
    return [played for _, played in sorted(as_they_end(speaker, episodes, spent), key=itemgetter(0))]


def as_they_end(speaker: Speaker, episodes: Iterable[Played], spent: Spent) -> Iterator[tuple[int, Played]]:
    """Has episodes played, each begun as soon as there is room for it; gives each with its number once it has ended."""
    queue, begun = iter(episodes), list[Played]()

    def begin() -> bool:
        with spent.on("env"):
            episode = next(queue, None)
        if episode is None:
            return False
        speaker.listen(len(begun), episode.script.tokens.copy(), episode.greedy)
        begun.append(episode)
        return True

    at_work = sum(begin() for _ in range(speaker.rows))
    while at_work:
        for said in speaker.speak():
            episode = begun[said.who]
            episode.take(said, spent)
            if episode.over:
                speaker.leave(said.who)
                at_work -= not begin()
                yield said.who, episode
            else:
                speaker.listen(said.who, episode.script.tokens.copy(), episode.greedy)
