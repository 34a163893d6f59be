"""Rollouts: many episodes that a model plays at once, with the tokens and log probabilities that a loss needs."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TypeVar

import msgspec

from companyos.agents.agent import Usage
from companyos.env import CompanyEnv, make
from companyos.env.line_syntax import parse_line
from companyos.train.data.repeats import Decoding, Repeats, changes_world
from companyos.train.data.script import LIMIT, RESERVE, Script, opening, reply_text
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.decoding.speakers import Speaker, SpokenTurn


class PlayedWindow(msgspec.Struct):
    """The script as it was while some turns were sampled. Each turn was sampled after the tokens before it."""

    tokens: list[int]
    turns: list[tuple[int, list[float]]]  # the start of each turn, and the log probabilities of its tokens
    ends: list[int] = []  # the end of each turn


class ModelEpisode:
    """One episode that a model plays: the environment, the script, and the windows of the script.

    `patience` is how often the model may write the same line before the episode is given up; 0 means no limit.
    """

    def __init__(
        self,
        task_id: str,
        greedy: bool,
        tokenizer: Tokenizer,
        limit: int = LIMIT,
        reserve: int = RESERVE,
        reward: str = "score",
        patience: int = 0,
        decoding: Decoding | None = None,
    ) -> None:
        self.task_id = task_id
        self.greedy = greedy
        self.env: CompanyEnv = make(task_id, reward=reward)
        self.script = Script(tokenizer.encode, limit, reserve)
        self.script.open(opening(self.env.look()))
        self.windows: list[PlayedWindow] = []
        self.usage: list[Usage] = []
        self.over = False  # ended or given up
        self._tokenizer = tokenizer
        self._patience = patience
        self.lines: list[str] = []  # its calls, as the model wrote them
        self._counts: Counter[tuple[str, str]] = Counter()  # of each call with the same reply
        self._line_counts: Counter[str] = Counter()
        self._window = PlayedWindow([], [], [])
        self._decoding = decoding or Decoding(0.0 if greedy else 1.0)
        self._repeats = Repeats(self._decoding.repeats)

    @property
    def temperature(self) -> float:
        """The temperature for its next turn."""
        return self._repeats.temperature(self._decoding.temperature)

    def take(self, turn: SpokenTurn, spent: "TimeSpent") -> None:
        """Make the call of a turn and add the reply to the script. A repeated call may be refused and sampled again."""
        script = self.script
        spent.tokens += len(turn.tokens)
        with spent.on("text"):
            line, working = self._tokenizer.call_of(turn.tokens)
            if self._repeats.refuse(line):
                return
            self.usage.append(Usage(len(script.tokens), len(turn.tokens), form="text"))
            self._window.turns.append((len(script.tokens), turn.logprobs))
            script.add_turn(turn.tokens, working)
            self._window.ends.append(len(script.tokens))
            call = parse_line(line, self.env.toolbox)
        with spent.on("env"):
            obs = self.env.step(line if isinstance(call, str) else call)
        with spent.on("text"):
            self.lines.append(line)
            self._line_counts[line] += 1
            self.over = obs.done or self._line_counts[line] == self._patience
            reply = reply_text(obs, call if isinstance(call, str) else "")
            self._repeats.record(line, reply, obs.reply.ok and changes_world(call, self.env.toolbox))
            self._counts[line, reply] += 1
            tokens, end = script.tokens, len(script.tokens)  # before the script changes
            if self.over or script.add_reply(reply):
                self._close(tokens[:end])

    def _close(self, tokens: list[int]) -> None:
        """End the present window with these tokens."""
        self._window.tokens = tokens
        self.windows.append(self._window)
        self._window = PlayedWindow([], [], [])

    @property
    def highest_count(self) -> int:
        """How often the most repeated call had the same reply in this episode."""
        return max(self._counts.values(), default=0)

    @property
    def total(self) -> float:
        """The sum of its rewards."""
        return self.env.total


class TimeSpent:
    """Measures the seconds that are spent outside the model, by kind: `env` for the environment, `text` for scripts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.tokens = 0  # sampled by the model
        self._begun = time.perf_counter()

    @property
    def wall(self) -> float:
        """All seconds so far, those of the model included."""
        return time.perf_counter() - self._begun

    @contextmanager
    def on(self, kind: str) -> Iterator[None]:
        """Count the time inside this context as seconds of a kind."""
        begun = time.perf_counter()
        yield
        self.seconds[kind] += time.perf_counter() - begun


P = TypeVar("P", bound=ModelEpisode)


def rollout(speaker: Speaker, episodes: Iterable[P], spent: TimeSpent) -> list[P]:
    """Play episodes to their ends, and return them in the order in which they were given."""
    return [played for _, played in sorted(as_they_end(speaker, episodes, spent), key=itemgetter(0))]


def as_they_end(speaker: Speaker, episodes: Iterable[P], spent: TimeSpent) -> Iterator[tuple[int, P]]:
    """Play episodes, each as soon as a row of the speaker is free. Yield each with its number when it has ended."""
    queue, begun = iter(episodes), list[P]()

    def begin() -> bool:
        """Begin the next episode. Return whether there was one."""
        with spent.on("env"):
            episode = next(queue, None)
        if episode is None:
            return False
        speaker.listen(len(begun), episode.script.tokens.copy(), episode.temperature)
        begun.append(episode)
        return True

    running = sum(begin() for _ in range(speaker.rows))
    while running:
        for turn in speaker.speak():
            episode = begun[turn.episode_number]
            episode.take(turn, spent)
            if episode.over:
                speaker.leave(turn.episode_number)
                running -= not begin()
                yield turn.episode_number, episode
            else:
                speaker.listen(turn.episode_number, episode.script.tokens.copy(), episode.temperature)
