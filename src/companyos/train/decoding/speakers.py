"""Speakers: objects that sample turns from a language model for many episodes at once.

An episode `listen`s: it hands in its script. `speak` then returns the turns that are finished. `Streaming` generates one
token for all rows at a time; a row whose turn has ended gets its reply at once, while the others go on. It needs a model
that `Decoder` supports. `Waiting` calls transformers' `generate` turn by turn, so all rows wait for the longest turn; it
works with every causal model.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Protocol

import msgspec
import torch

from companyos.train.data.turns import LINES, PROMPTED, Progress, WorkingSyntax, working_syntax
from companyos.train.decoding.decoder import Decoder, Drawn
from companyos.train.model.layers import causal_model, fits
from companyos.train.model.models import Learner

_NARROWEST = 64  # rows; with fewer, a step takes a GPU the same time
_FED_AT_ONCE = 16384  # most tokens of a batch that is fed, padding included
# New scripts are fed once there is one for every 3 rows that are speaking: a feed takes at least 18 ms, even for one row.
# Chosen for 512 rows from the times of single steps (10 ms) and feeds on one H200: 16 s with 3, 20 s with 8, 15 s with 2.
_PATIENCE = 3


class SpokenTurn(msgspec.Struct, frozen=True):
    """A finished turn, with the token that ends it. A turn that was cut off has no log probability for its last token."""

    who: int
    tokens: list[int]
    logprobs: list[float]


class Speaker(Protocol):
    """Samples turns for many episodes. `who` is the number of an episode; at most `rows` may take part at a time."""

    rows: int

    def load(self, model: Any) -> None:
        """Copy the present weights of a model. No episode may take part."""
        ...

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        """Hand in the script of an episode. At temperature 0 the most likely token is taken each time."""
        ...

    def leave(self, who: int) -> None: ...
    def speak(self) -> list[SpokenTurn]:
        """Generate until at least one turn is finished, and return the finished turns."""
        ...


def speaker_of(
    model: Any, decode: Callable[[list[int]], str], rows: int, room: int, most: int, working: int | None = None
) -> Speaker:
    """Return the fastest speaker for a model. A script has at most `room` tokens, and a turn at most `most` of them.

    `working` is how many working lines a turn may have; None means that the model was trained without working lines.
    """
    texts = {token: decode([token]) for token in range(causal_model(model).config.vocab_size)}
    enders = sorted((token for token, text in texts.items() if "\n" in text), key=lambda token: texts[token] != "\n")
    syntax = working_syntax(texts, working) if working is not None else None
    if fits(model):
        return Streaming(Decoder(model, rows, room, enders, most, syntax))
    return Waiting(model, rows, enders, most, syntax)


def speaker_for(learner: Learner, rows: int, silent: bool = False) -> Speaker:
    """Return the fastest speaker for a model as it was trained. `silent` forbids working lines."""
    working = (0 if silent else LINES) if learner.working else None
    return speaker_of(learner.model, learner.decode, rows, learner.limit, learner.reserve, working)


# -- token by token ----------------------------------------------------------------------------------------------------


class Streaming:
    """Generates token by token. The CPU reads the tokens of a step while the device computes the next step."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.rows = self._width = decoder.rows
        self._narrowest = _NARROWEST if decoder.device.type == "cuda" else 1
        self._row: dict[int, int] = {}
        self._free = list(range(decoder.rows))
        self._cached: dict[int, list[int]] = {}  # the tokens whose keys and values are in a row's cache
        self._waiting: dict[int, tuple[list[int], float]] = {}
        self._speaking: dict[int, tuple[list[int], list[float]]] = {}  # tokens and log probabilities read so far
        self._reach: dict[
            int, int
        ] = {}  # of rows that may be speaking: length in the cache minus the number of steps at that time
        self._steps = 0
        self._unread: deque[tuple[tuple[int, ...], Drawn]] = (
            deque()
        )  # with the episodes that were fed; none for a step of all rows

    def load(self, model: Any) -> None:
        assert not self._row, "an episode still takes part"
        self._decoder.load(model)

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        if not self._row:  # all have left: rows may have been moved
            self._width, self._free = self.rows, list(range(self.rows))
            self._unread.clear()
        if who not in self._row:
            self._row[who] = self._free.pop(0)
            self._cached[who] = []
        self._waiting[who] = script, temperature

    def leave(self, who: int) -> None:
        self._free.append(self._row.pop(who))
        del self._cached[who]

    def speak(self) -> list[SpokenTurn]:
        assert self._waiting or self._reach, "no episode takes part"
        finished = self._narrowed()
        while not finished:
            if len(self._waiting) * _PATIENCE >= len(self._reach):
                self._feed()
            if self._reach:
                self._steps += 1
                longest = max(self._reach.values()) + self._steps
                self._unread.append(((), self._decoder.step(self._width, longest)))
            finished = self._read(leaving=1)
        return finished

    def _feed(self) -> None:
        """Feed the waiting scripts, as far as they are not cached, in batches of similar length."""
        lacking = []
        for who, (script, temperature) in self._waiting.items():
            known = _common(self._cached[who], script)
            lacking.append((len(script) - known, who, known, script, temperature))
        self._waiting.clear()
        lacking.sort(key=lambda one: one[:2])
        while lacking:
            # The last of a batch is the longest, and the others are padded to its length.
            size = next(n for n in range(len(lacking), 0, -1) if n == 1 or n * lacking[n - 1][0] <= _FED_AT_ONCE)
            batch, lacking = lacking[:size], lacking[size:]
            drawn = self._decoder.feed(
                rows=[self._row[who] for _, who, _, _, _ in batch],
                tokens=[script[known:] for _, _, known, script, _ in batch],
                starts=[known for _, _, known, _, _ in batch],
                hot=[temperature for _, _, _, _, temperature in batch],
            )
            for _, who, _, script, _ in batch:
                self._cached[who] = script
                self._reach[who] = len(script) - self._steps
            self._unread.append((tuple(who for _, who, _, _, _ in batch), drawn))

    def _read(self, leaving: int) -> list[SpokenTurn]:
        """Read the tokens of all steps but the last `leaving`. Return the turns that they finish."""
        finished = []
        while len(self._unread) > leaving or (self._unread and not self._reach):
            fed, drawn = self._unread.popleft()
            tokens, logprobs, over = drawn.read()
            if fed:
                for who, token, logprob in zip(fed, tokens, logprobs, strict=True):
                    self._speaking[who] = [token], [logprob]
                finished += [self._ended(who) for who, ends in zip(fed, over, strict=True) if ends]
            else:
                ended = []
                for who, (said, likely) in self._speaking.items():
                    row = self._row[who]
                    said.append(tokens[row])
                    likely.append(logprobs[row])
                    if over[row]:
                        ended.append(who)
                finished += map(self._ended, ended)
        return finished

    def _ended(self, who: int) -> SpokenTurn:
        tokens, logprobs = self._speaking.pop(who)
        del self._reach[who]
        self._cached[who] = [*self._cached[who], *tokens[:-1]]  # the last token may not be in the cache yet
        return SpokenTurn(who, tokens, logprobs[: self._decoder.most - 1])

    def _narrowed(self) -> list[SpokenTurn]:
        """When at most half of the rows are in use, move them together and halve the width. Return finished turns."""
        if len(self._row) > self._width // 2 or self._width <= self._narrowest:
            return []
        finished = self._read(leaving=0)
        while len(self._row) <= self._width // 2 and self._width > self._narrowest:
            self._width //= 2
        left = sorted(self._row, key=self._row.__getitem__)
        self._decoder.move([self._row[who] for who in left])
        self._row = {who: row for row, who in enumerate(left)}
        self._free = list(range(len(left), self._width))
        return finished


def _common(one: list[int], other: list[int]) -> int:
    """Return how many first tokens two scripts share. The last token of `other` never counts: it must be fed to predict."""
    most = min(len(one), len(other) - 1)
    if one[:most] == other[:most]:
        return most
    return next(n for n in range(most) if one[n] != other[n])


# -- turn by turn ------------------------------------------------------------------------------------------------------


class Waiting:
    """Generates turn by turn. All rows are sampled together. After a working line a row is sampled again."""

    def __init__(self, model: Any, rows: int, enders: Sequence[int], most: int, syntax: WorkingSyntax | None = None) -> None:
        self.rows = rows
        self._model = model
        self._enders = list(enders)
        self._most = most
        self._syntax = syntax
        self._waiting: dict[int, tuple[list[int], float]] = {}

    def load(self, model: Any) -> None:
        self._model = model

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        self._waiting[who] = script, temperature

    def leave(self, who: int) -> None:
        pass

    def speak(self) -> list[SpokenTurn]:
        asked, self._waiting = self._waiting, {}
        turns = [_OpenTurn(who, *heard, Progress(self._enders, self._most, self._syntax)) for who, heard in asked.items()]
        left = turns
        while left:
            for _, some in groupby(sorted(left, key=_OpenTurn.how), _OpenTurn.how):
                self._say_a_line(list(some))
            left = [turn for turn in turns if not turn.progress.over]
        return [SpokenTurn(turn.who, turn.tokens, turn.logprobs[: self._most - 1]) for turn in turns]

    def _say_a_line(self, turns: "Sequence[_OpenTurn]") -> None:
        """Generate the next line of some turns. After a working line, add the prompt of the next line."""
        scripts = [turn.script + turn.tokens for turn in turns]
        temperature, may_work, left = turns[0].how()
        made, likely = self._generated(scripts, temperature, left, may_work)
        for turn, tokens, logprobs in zip(turns, made, likely, strict=True):
            for token, logprob in zip(tokens, logprobs, strict=True):
                drawn = self._enders[0] if turn.progress.must_end and token not in self._enders else token
                turn.say(drawn, logprob)
                if drawn in self._enders:
                    break
            if turn.progress.state == PROMPTED and self._syntax is not None:
                turn.say(self._syntax.prompt, 0.0)  # it was not sampled

    def _generated(
        self, scripts: list[list[int]], temperature: float, most: int, may_work: bool
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Sample a line, or `most` tokens, after each script. Return tokens and log probabilities."""
        width, device = max(map(len, scripts)), self._model.device
        padding = [width - len(script) for script in scripts]
        tokens = torch.tensor([[0] * pad + script for pad, script in zip(padding, scripts, strict=True)])
        seen = torch.arange(width)[None] >= torch.tensor(padding)[:, None]
        forbid = [_Forbid(self._syntax, width)] if self._syntax is not None and not may_work else []
        with torch.no_grad():
            made = self._model.generate(
                input_ids=tokens.to(device),
                attention_mask=seen.to(device, torch.int64),
                max_new_tokens=most,
                do_sample=temperature > 0,
                temperature=temperature or None,
                top_k=0 if temperature > 0 else None,
                top_p=1.0 if temperature > 0 else None,
                eos_token_id=self._enders,
                pad_token_id=self._enders[0],
                logits_processor=forbid,
                return_dict_in_generate=True,
                output_logits=True,
            )
        chosen = made.sequences[:, width:]
        likely = torch.stack([logits.float().log_softmax(-1) for logits in made.logits], 1)
        return chosen.tolist(), likely.gather(-1, chosen[..., None])[..., 0].tolist()


class _Forbid:
    """A logits processor for `generate` that forbids working lines."""

    def __init__(self, syntax: WorkingSyntax, width: int) -> None:
        self._syntax, self._width = syntax, width

    def __call__(self, tokens: Any, scores: Any) -> Any:
        blanks = torch.tensor(self._syntax.blanks, device=tokens.device)
        begins = torch.isin(tokens[:, self._width :], blanks).all(dim=1)
        scores[:, list(self._syntax.marks)] = scores[:, list(self._syntax.marks)].masked_fill(begins[:, None], -torch.inf)
        return scores


class _OpenTurn:
    """A turn that is being generated."""

    def __init__(self, who: int, script: list[int], temperature: float, progress: Progress) -> None:
        self.who, self.script, self.progress = who, script, progress
        self._temperature = temperature
        self.tokens: list[int] = []
        self.logprobs: list[float] = []

    def how(self) -> tuple[float, bool, int]:
        """Return temperature, whether working is allowed, and tokens left. Equal turns are sampled together."""
        return self._temperature, self.progress.may_work, self.progress.left

    def say(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.progress.take(token)
