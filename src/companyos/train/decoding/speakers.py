"""Speakers: objects that sample turns from a language model for many episodes at once.

`listen` hands in the script of an episode. `speak` then returns the turns that are finished. `TokenSpeaker` generates one
token for all episodes at a time; an episode whose turn has ended gets its reply at once, while the others go on. It needs a
model that `Decoder` supports. `TurnSpeaker` calls transformers' `generate` turn by turn, so all episodes wait for the
longest turn; it works with every causal model.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import msgspec
import torch

from companyos.train.data.turns import MAX_WORKING_LINES, PROMPT_DUE, TurnProgress, WorkingSyntax, working_syntax
from companyos.train.decoding.decoder import Decoder, DrawnTokens
from companyos.train.model.layers import causal_model, is_supported
from companyos.train.model.models import Learner

_MIN_GPU_ROWS = 64  # with fewer rows, a step takes a GPU the same time
# Most tokens of a batch that is fed, padding included. A CPU is busy with one script already, so padding only costs time.
_MAX_FED_TOKENS, _MAX_FED_TOKENS_ON_CPU = 16384, 128
# New scripts are fed once there is one for every 3 rows that are speaking: a feed takes at least 18 ms, even for one row.
# Chosen for 512 rows from the times of single steps (10 ms) and feeds on one H200: 16 s with 3, 20 s with 8, 15 s with 2.
_SPEAKING_ROWS_PER_FEED = 3


class SpokenTurn(msgspec.Struct, frozen=True):
    """A finished turn, with the token that ends it. If it was cut off, its last token has no log probability."""

    episode_number: int
    tokens: list[int]
    logprobs: list[float]


class Speaker(Protocol):
    """Samples turns for many episodes. At most `rows` episodes may take part at a time."""

    rows: int

    def load(self, model: Any) -> None:
        """Copy the present weights of a model. No episode may take part."""
        ...

    def listen(self, episode_number: int, script: list[int], temperature: float) -> None:
        """Hand in the script of an episode. At temperature 0 the most likely token is taken each time."""
        ...

    def leave(self, episode_number: int) -> None:
        """End the part of an episode, so that another may use its row."""
        ...

    def speak(self) -> list[SpokenTurn]:
        """Generate until at least one turn is finished, and return the finished turns."""
        ...


def speaker_of(
    model: Any,
    decode: Callable[[list[int]], str],
    rows: int,
    script_tokens: int,
    turn_tokens: int,
    working_lines: int | None = None,
) -> Speaker:
    """Return the fastest speaker for a model.

    A script has at most `script_tokens` tokens, and a turn at most `turn_tokens` of them. `working_lines` is how
    many working lines a turn may have; None means that the model was trained without them.
    """
    texts = {token: decode([token]) for token in range(causal_model(model).config.vocab_size)}
    # The plain newline comes first.
    line_ends = sorted((token for token, text in texts.items() if "\n" in text), key=lambda token: texts[token] != "\n")
    syntax = working_syntax(texts, working_lines) if working_lines is not None else None
    if is_supported(model):
        return TokenSpeaker(Decoder(model, rows, script_tokens, line_ends, turn_tokens, syntax))
    return TurnSpeaker(model, rows, line_ends, turn_tokens, syntax)


def speaker_for(learner: Learner, rows: int, silent: bool = False) -> Speaker:
    """Return the fastest speaker for a model as it was trained. `silent` forbids working lines."""
    working_lines = (0 if silent else MAX_WORKING_LINES) if learner.working else None
    return speaker_of(learner.model, learner.decode, rows, learner.limit, learner.reserve, working_lines)


# -- token by token ----------------------------------------------------------------------------------------------------


class TokenSpeaker:
    """Generates token by token. The CPU reads the tokens of a step while a GPU computes the next step."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.rows = self._width = decoder.rows
        self._on_gpu = decoder.device.type == "cuda"
        self._max_fed_tokens = _MAX_FED_TOKENS if self._on_gpu else _MAX_FED_TOKENS_ON_CPU
        # All dictionaries are by episode number.
        self._row_of: dict[int, int] = {}
        self._free = list(range(decoder.rows))  # rows
        self._cached: dict[int, list[int]] = {}  # the tokens whose keys and values are in its row's cache
        self._waiting: dict[int, tuple[list[int], float]] = {}  # scripts to be fed, and temperatures
        self._speaking: dict[int, tuple[list[int], list[float]]] = {}  # tokens and log probabilities read so far
        # Of episodes that may be speaking: their length in the cache when they were fed, minus the steps up to then. So the
        # present length is this number plus `_steps`.
        self._length_at_step_0: dict[int, int] = {}
        self._steps = 0
        # Tokens that were drawn and not read, with the episodes that were fed; no episodes for a step of all rows.
        self._unread: deque[tuple[tuple[int, ...], DrawnTokens]] = deque()

    def load(self, model: Any) -> None:
        assert not self._row_of, "an episode still takes part"
        self._decoder.load(model)

    def listen(self, episode_number: int, script: list[int], temperature: float) -> None:
        if not self._row_of:  # all episodes have left, and their rows may have been moved
            self._width, self._free = self.rows, list(range(self.rows))
            self._unread.clear()
        if episode_number not in self._row_of:
            self._row_of[episode_number] = self._free.pop(0)
            self._cached[episode_number] = []
        self._waiting[episode_number] = script, temperature

    def leave(self, episode_number: int) -> None:
        self._free.append(self._row_of.pop(episode_number))
        del self._cached[episode_number]

    def speak(self) -> list[SpokenTurn]:
        assert self._waiting or self._length_at_step_0, "no episode takes part"
        finished = self._narrowed()
        while not finished:
            if len(self._waiting) * _SPEAKING_ROWS_PER_FEED >= len(self._length_at_step_0):
                self._feed()
            if self._length_at_step_0:
                self._steps += 1
                longest = max(self._length_at_step_0.values()) + self._steps
                self._unread.append(((), self._decoder.step(self._width, longest)))
            finished = self._read(unread_steps=1 if self._on_gpu else 0)
        return finished

    def _feed(self) -> None:
        """Feed the waiting scripts, as far as they are not cached, in batches of similar length."""
        feeds = []
        for episode_number, (script, temperature) in self._waiting.items():
            known = _common_length(self._cached[episode_number], script)
            feeds.append(_Feed(len(script) - known, episode_number, known, script, temperature))
        self._waiting.clear()
        feeds.sort(key=lambda feed: (feed.new_tokens, feed.episode_number))
        while feeds:
            # The last of a batch is the longest, and the others are padded to its length.
            sizes = range(len(feeds), 0, -1)
            size = next(n for n in sizes if n == 1 or n * feeds[n - 1].new_tokens <= self._max_fed_tokens)
            batch, feeds = feeds[:size], feeds[size:]
            drawn = self._decoder.feed(
                rows=[self._row_of[feed.episode_number] for feed in batch],
                tokens=[feed.script[feed.known :] for feed in batch],
                starts=[feed.known for feed in batch],
                temperatures=[feed.temperature for feed in batch],
            )
            for feed in batch:
                self._cached[feed.episode_number] = feed.script
                self._length_at_step_0[feed.episode_number] = len(feed.script) - self._steps
            self._unread.append((tuple(feed.episode_number for feed in batch), drawn))

    def _read(self, unread_steps: int) -> list[SpokenTurn]:
        """Read the tokens of all steps but the last `unread_steps`. Return the turns that they finish."""
        finished: list[SpokenTurn] = []
        while len(self._unread) > unread_steps or (self._unread and not self._length_at_step_0):
            fed, drawn = self._unread.popleft()
            tokens, logprobs, over = drawn.read()
            if fed:
                for episode_number, token, logprob in zip(fed, tokens, logprobs, strict=True):
                    self._speaking[episode_number] = [token], [logprob]
                ended = [episode_number for episode_number, is_end in zip(fed, over, strict=True) if is_end]
            else:
                ended = []
                for episode_number, (turn_tokens, turn_logprobs) in self._speaking.items():
                    row = self._row_of[episode_number]
                    turn_tokens.append(tokens[row])
                    turn_logprobs.append(logprobs[row])
                    if over[row]:
                        ended.append(episode_number)
            finished += map(self._end_turn, ended)
        return finished

    def _end_turn(self, episode_number: int) -> SpokenTurn:
        """End the turn of an episode, and return the turn."""
        tokens, logprobs = self._speaking.pop(episode_number)
        del self._length_at_step_0[episode_number]
        # The last token may not be in the cache yet.
        self._cached[episode_number] = [*self._cached[episode_number], *tokens[:-1]]
        return SpokenTurn(episode_number, tokens, logprobs[: self._decoder.turn_tokens - 1])

    def _narrowed(self) -> list[SpokenTurn]:
        """If few rows are in use, move them to the front and compute no more than these. Return finished turns."""
        width = narrower(self._width, len(self._row_of), self._on_gpu)
        if width == self._width:
            return []
        finished = self._read(unread_steps=0)
        self._width = width
        remaining = sorted(self._row_of, key=self._row_of.__getitem__)
        self._decoder.move([self._row_of[episode_number] for episode_number in remaining])
        self._row_of = {episode_number: row for row, episode_number in enumerate(remaining)}
        self._free = list(range(len(remaining), self._width))
        return finished


def narrower(width: int, rows_in_use: int, on_gpu: bool) -> int:
    """Return how many rows a step computes from now on.

    On a CPU these are the rows in use. On a GPU each width has its own CUDA graph, so the width is only halved.
    """
    if not on_gpu:
        return rows_in_use
    while rows_in_use <= width // 2 and width > _MIN_GPU_ROWS:
        width //= 2
    return width


class _Feed(NamedTuple):
    """A script that is to be fed: its first `known` tokens are cached, the other `new_tokens` are not."""

    new_tokens: int
    episode_number: int
    known: int
    script: list[int]
    temperature: float


def _common_length(cached: list[int], script: list[int]) -> int:
    """Return how many first tokens of a script are cached. Its last token never counts: it must be fed to predict."""
    limit = min(len(cached), len(script) - 1)
    if cached[:limit] == script[:limit]:
        return limit
    return next(n for n in range(limit) if cached[n] != script[n])


# -- turn by turn ------------------------------------------------------------------------------------------------------


class TurnSpeaker:
    """Generates turn by turn, for all waiting episodes together. A turn with working lines is generated line by line."""

    def __init__(
        self, model: Any, rows: int, line_ends: Sequence[int], turn_tokens: int, syntax: WorkingSyntax | None = None
    ) -> None:
        self.rows = rows
        self._model = model
        self._line_ends = list(line_ends)
        self._turn_tokens = turn_tokens
        self._syntax = syntax
        self._waiting: dict[int, tuple[list[int], float]] = {}

    def load(self, model: Any) -> None:
        self._model = model

    def listen(self, episode_number: int, script: list[int], temperature: float) -> None:
        self._waiting[episode_number] = script, temperature

    def leave(self, episode_number: int) -> None:
        pass

    def speak(self) -> list[SpokenTurn]:
        waiting, self._waiting = self._waiting, {}
        turns = [
            _OpenTurn(number, script, temperature, TurnProgress(self._line_ends, self._turn_tokens, self._syntax))
            for number, (script, temperature) in waiting.items()
        ]
        unfinished = turns
        while unfinished:
            for _, group in groupby(sorted(unfinished, key=_OpenTurn.sampling), _OpenTurn.sampling):
                self._add_line(list(group))
            unfinished = [turn for turn in turns if not turn.progress.over]
        return [SpokenTurn(turn.episode_number, turn.tokens, turn.logprobs[: self._turn_tokens - 1]) for turn in turns]

    def _add_line(self, turns: "Sequence[_OpenTurn]") -> None:
        """Generate the next line of some turns. After a working line, add the prompt of the next line."""
        scripts = [turn.script + turn.tokens for turn in turns]
        temperature, may_work, tokens_left = turns[0].sampling()
        lines, logprobs_of_lines = self._generated(scripts, temperature, tokens_left, may_work)
        for turn, tokens, logprobs in zip(turns, lines, logprobs_of_lines, strict=True):
            for token, logprob in zip(tokens, logprobs, strict=True):
                drawn = self._line_ends[0] if turn.progress.must_end and token not in self._line_ends else token
                turn.add(drawn, logprob)
                if drawn in self._line_ends:
                    break
            if turn.progress.state == PROMPT_DUE and self._syntax is not None:
                turn.add(self._syntax.prompt, 0.0)  # it was not sampled

    def _generated(
        self, scripts: list[list[int]], temperature: float, max_tokens: int, may_work: bool
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Sample a line, or `max_tokens` tokens, after each script. Return tokens and log probabilities."""
        width, device = max(map(len, scripts)), self._model.device
        padding = [width - len(script) for script in scripts]
        tokens = torch.tensor([[0] * pad + script for pad, script in zip(padding, scripts, strict=True)])
        is_script = torch.arange(width)[None] >= torch.tensor(padding)[:, None]
        forbid = [_ForbidWorking(self._syntax, width)] if self._syntax is not None and not may_work else []
        with torch.no_grad():
            generated = self._model.generate(
                input_ids=tokens.to(device),
                attention_mask=is_script.to(device, torch.int64),
                max_new_tokens=max_tokens,
                do_sample=temperature > 0,
                temperature=temperature or None,
                top_k=0 if temperature > 0 else None,
                top_p=1.0 if temperature > 0 else None,
                eos_token_id=self._line_ends,
                pad_token_id=self._line_ends[0],
                logits_processor=forbid,
                return_dict_in_generate=True,
                output_logits=True,
            )
        chosen = generated.sequences[:, width:]
        logprobs = torch.stack([logits.float().log_softmax(-1) for logits in generated.logits], 1)
        return chosen.tolist(), logprobs.gather(-1, chosen[..., None])[..., 0].tolist()


class _ForbidWorking:
    """A logits processor for `generate` that forbids the tokens that begin a working line, at the beginning of a line."""

    def __init__(self, syntax: WorkingSyntax, width: int) -> None:
        self._syntax, self._width = syntax, width  # `width` tokens were given; the line begins after them

    def __call__(self, tokens: Any, scores: Any) -> Any:
        blanks = torch.tensor(self._syntax.blanks, device=tokens.device)
        begins = torch.isin(tokens[:, self._width :], blanks).all(dim=1)
        scores[:, list(self._syntax.marks)] = scores[:, list(self._syntax.marks)].masked_fill(begins[:, None], -torch.inf)
        return scores


class _OpenTurn:
    """A turn that is being generated."""

    def __init__(self, episode_number: int, script: list[int], temperature: float, progress: TurnProgress) -> None:
        self.episode_number, self.script, self.progress = episode_number, script, progress
        self._temperature = temperature
        self.tokens: list[int] = []
        self.logprobs: list[float] = []

    def sampling(self) -> tuple[float, bool, int]:
        """Return how the turn is sampled: temperature, whether working is allowed, and tokens left.

        Turns for which these are equal are sampled together.
        """
        return self._temperature, self.progress.may_work, self.progress.tokens_left

    def add(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.progress.take(token)
