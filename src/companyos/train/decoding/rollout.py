"""Rollouts: episodes that a speaker works, many at once, with all that a loss needs to know of what was said."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar

import msgspec

from companyos.agents.agent import Usage
from companyos.env import CompanyEnv, make
from companyos.env.line_syntax import parse_line
from companyos.train.data.repeats import Decoding, Repeats, moves
from companyos.train.data.script import LIMIT, RESERVE, Script, heard, opening
from companyos.train.data.turns import PROMPT, split
from companyos.train.decoding.speakers import Said, Speaker
from companyos.train.model.models import Learner


class Tongue:
    """A tokenizer, as scripts use it. What is said alike is looked up once: a group reads the same replies over and over."""

    def __init__(self, learner: Learner) -> None:
        self.working = learner.working
        self.encode: Callable[[str], list[int]] = lru_cache(65536)(learner.encode)
        self._text: Callable[[tuple[int, ...]], str] = lru_cache(65536)(lambda tokens: learner.decode(list(tokens)))

    def decode(self, tokens: Iterable[int]) -> str:
        return self._text(tuple(tokens))

    def heard(self, tokens: list[int]) -> tuple[str, int]:
        """The call of a turn, and how many tokens of working precede it."""
        text = self.decode(tokens)
        if not self.working:
            return text.strip(), 0
        working, line = split(text)
        if not working:
            return line, 0
        single = [self.decode([token]) for token in tokens]
        prompts = [n for n in range(1, len(single)) if single[n] == PROMPT and "\n" in single[n - 1]]
        return line, prompts[len(working) - 1] + 1


class Window(msgspec.Struct):
    """A script as it stood while some calls were said: what each was drawn from are the tokens before it."""

    tokens: list[int]
    calls: list[tuple[int, list[float]]]  # where one begins, and the log probabilities of its tokens
    ends: list[int] = []  # where each ends


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
        decoding: Decoding | None = None,
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
        self.lines: list[str] = []  # its calls, as it said them
        self._alike: Counter[tuple[str, str]] = Counter()  # calls with their replies
        self._said: Counter[str] = Counter()
        self._window = Window([], [], [])
        self._decoding = decoding or Decoding(0.0 if greedy else 1.0)
        self._repeats = Repeats(self._decoding.repeats)

    @property
    def temperature(self) -> float:
        """At which its next turn is to be drawn."""
        return self._repeats.temperature(self._decoding.temperature)

    def take(self, said: Said, spent: "Spent") -> None:
        """Makes the call that was said, and hears what comes of it. A call that only repeats may have to be said anew."""
        script = self.script
        spent.tokens += len(said.tokens)
        with spent.on("text"):
            line, working = self._tongue.heard(said.tokens)
            if self._repeats.refuse(line):
                return
            self.usage.append(Usage(len(script.tokens), len(said.tokens), form="text"))
            self._window.calls.append((len(script.tokens), said.logprobs))
            script.say(said.tokens, working)
            self._window.ends.append(len(script.tokens))
            call = parse_line(line, self.env.toolbox)
        with spent.on("env"):
            obs = self.env.step(line if isinstance(call, str) else call)
        with spent.on("text"):
            self.lines.append(line)
            self._said[line] += 1
            self.over = obs.done or self._said[line] == self._patience
            reply = heard(obs, call if isinstance(call, str) else "")
            self._repeats.hear(line, reply, obs.reply.ok and moves(call, self.env.toolbox))
            self._alike[line, reply] += 1
            seen, end = script.tokens, len(script.tokens)
            if self.over or script.hear(reply):
                self._close(seen[:end])

    def _close(self, tokens: list[int]) -> None:
        """What was seen until now is a window."""
        self._window.tokens = tokens
        self.windows.append(self._window)
        self._window = Window([], [], [])

    @property
    def most_alike(self) -> int:
        """How often it made the same call with the same reply, of the call that was repeated most."""
        return max(self._alike.values(), default=0)

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


P = TypeVar("P", bound=Played)


def rollout(speaker: Speaker, episodes: Iterable[P], spent: Spent) -> list[P]:
    """Has episodes played to their ends. In the order in which they were given."""
    return [played for _, played in sorted(as_they_end(speaker, episodes, spent), key=itemgetter(0))]


def as_they_end(speaker: Speaker, episodes: Iterable[P], spent: Spent) -> Iterator[tuple[int, P]]:
    """Has episodes played, each begun as soon as there is room for it; gives each with its number once it has ended."""
    queue, begun = iter(episodes), list[P]()

    def begin() -> bool:
        with spent.on("env"):
            episode = next(queue, None)
        if episode is None:
            return False
        speaker.listen(len(begun), episode.script.tokens.copy(), episode.temperature)
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
                speaker.listen(said.who, episode.script.tokens.copy(), episode.temperature)
