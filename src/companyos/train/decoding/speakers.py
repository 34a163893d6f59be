"""Speakers: a language model that works many episodes at once. Each hears its script so far, and says a call, when it will.

`Streaming` goes token by token for all rows together, while each takes its turns at its own pace: whoever has ended a turn
is answered at once, and the others go on meanwhile. It needs a model that a `Decoder` fits. `Waiting` asks `generate`, turn
by turn, and everybody waits for whoever says most; every causal model can be asked that way.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Protocol

import msgspec
import torch

from companyos.train.data.turns import LINES, PROMPTED, Aside, Progress, aside_of
from companyos.train.decoding.decoder import Decoder, Drawn
from companyos.train.model.layers import causal_model, fits
from companyos.train.model.models import Learner

_NARROWEST = 64  # rows, below which a step costs a GPU the same however few there are
_FED_AT_ONCE = 16384  # tokens
# Who has heard something waits until it is one to so many who speak: a feed takes at least 18 ms, however few are fed.
# Estimated for 512 rows from the times of single steps (10 ms) and feeds on one H200: 16 s with 3, 20 s with 8, 15 s with 2.
_PATIENCE = 3


class Said(msgspec.Struct, frozen=True):
    """A turn, to the token that ends it. One that was cut off has no log probability for its last token."""

    who: int
    tokens: list[int]
    logprobs: list[float]


class Speaker(Protocol):
    """Whoever speaks for many. `who` is any number; of those who listen, at most `rows` may not have left."""

    rows: int

    def load(self, model: Any) -> None:
        """Takes over a model's weights as they are; nobody is speaking."""
        ...

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        """Lets somebody hear a script; at temperature 0 the answer is the likeliest, token by token."""
        ...

    def leave(self, who: int) -> None: ...
    def speak(self) -> list[Said]:
        """Goes on until somebody has said a turn, of those who listened."""
        ...


def speaker_of(
    model: Any, decode: Callable[[list[int]], str], rows: int, room: int, most: int, working: int | None = None
) -> Speaker:
    """The fastest speaker for a model: its scripts take `room` tokens, of which a turn may have `most`.

    `working` is how many lines of working a turn may have; None: the model was trained without.
    """
    texts = {token: decode([token]) for token in range(causal_model(model).config.vocab_size)}
    enders = sorted((token for token, text in texts.items() if "\n" in text), key=lambda token: texts[token] != "\n")
    aside = aside_of(texts, working) if working is not None else None
    if fits(model):
        return Streaming(Decoder(model, rows, room, enders, most, aside))
    return Waiting(model, rows, enders, most, aside)


def speaker_for(learner: Learner, rows: int, silent: bool = False) -> Speaker:
    """The fastest speaker for a model as it was trained; `silent`: it has to decide without working."""
    working = (0 if silent else LINES) if learner.working else None
    return speaker_of(learner.model, learner.decode, rows, learner.limit, learner.reserve, working)


# -- token by token ----------------------------------------------------------------------------------------------------


class Streaming:
    """The processor reads what a step drew, and answers, while the device works on the next, which does not depend on it."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.rows = self._width = decoder.rows
        self._narrowest = _NARROWEST if decoder.device.type == "cuda" else 1
        self._row: dict[int, int] = {}
        self._free = list(range(decoder.rows))
        self._cached: dict[int, list[int]] = {}  # the script that a row's keys and values are of
        self._waiting: dict[int, tuple[list[int], float]] = {}
        self._speaking: dict[int, tuple[list[int], list[float]]] = {}  # what was said so far, as far as we have read
        self._reach: dict[int, int] = {}  # of those who may be speaking: length in the cache, less the steps until then
        self._steps = 0
        self._unread: deque[tuple[tuple[int, ...], Drawn]] = deque()  # with who was fed; nobody: a step of all

    def load(self, model: Any) -> None:
        assert not self._row, "somebody has not left"
        self._decoder.load(model)

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        if not self._row:  # all have left: they may have been moved together
            self._width, self._free = self.rows, list(range(self.rows))
            self._unread.clear()
        if who not in self._row:
            self._row[who] = self._free.pop(0)
            self._cached[who] = []
        self._waiting[who] = script, temperature

    def leave(self, who: int) -> None:
        self._free.append(self._row.pop(who))
        del self._cached[who]

    def speak(self) -> list[Said]:
        assert self._waiting or self._reach, "nobody has listened"
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
        """Lets those who wait take in what is not in the cache yet, those alike in length together."""
        lacking = []
        for who, (script, temperature) in self._waiting.items():
            known = _common(self._cached[who], script)
            lacking.append((len(script) - known, who, known, script, temperature))
        self._waiting.clear()
        lacking.sort(key=lambda one: one[:2])
        while lacking:
            # The longest of a batch is its last, and all are made as long.
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

    def _read(self, leaving: int) -> list[Said]:
        """Reads what was drawn, all but the last so many."""
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

    def _ended(self, who: int) -> Said:
        tokens, logprobs = self._speaking.pop(who)
        del self._reach[who]
        self._cached[who] = [*self._cached[who], *tokens[:-1]]  # whether the end is in it, depends on what was under way
        return Said(who, tokens, logprobs[: self._decoder.most - 1])

    def _narrowed(self) -> list[Said]:
        """Moves those who are left together, once they are few, and reads for that what is under way."""
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
    """How many tokens two scripts begin with alike, but for the last of the second: somebody has to draw what follows."""
    most = min(len(one), len(other) - 1)
    if one[:most] == other[:most]:
        return most
    return next(n for n in range(most) if one[n] != other[n])


# -- turn by turn ------------------------------------------------------------------------------------------------------


class Waiting:
    """All who have listened are asked together, and answer together; who says working is asked again for what follows."""

    def __init__(self, model: Any, rows: int, enders: Sequence[int], most: int, aside: Aside | None = None) -> None:
        self.rows = rows
        self._model = model
        self._enders = list(enders)
        self._most = most
        self._aside = aside
        self._waiting: dict[int, tuple[list[int], float]] = {}

    def load(self, model: Any) -> None:
        self._model = model

    def listen(self, who: int, script: list[int], temperature: float) -> None:
        self._waiting[who] = script, temperature

    def leave(self, who: int) -> None:
        pass

    def speak(self) -> list[Said]:
        asked, self._waiting = self._waiting, {}
        turns = [_Turn(who, *heard, Progress(self._enders, self._most, self._aside)) for who, heard in asked.items()]
        left = turns
        while left:
            for _, some in groupby(sorted(left, key=_Turn.how), _Turn.how):
                self._say_a_line(list(some))
            left = [turn for turn in turns if not turn.progress.over]
        return [Said(turn.who, turn.tokens, turn.logprobs[: self._most - 1]) for turn in turns]

    def _say_a_line(self, turns: "Sequence[_Turn]") -> None:
        """Has turns that may go on alike go on to the end of a line, and behind working to the prompt of the next."""
        scripts = [turn.script + turn.tokens for turn in turns]
        temperature, may_work, left = turns[0].how()
        made, likely = self._generated(scripts, temperature, left, may_work)
        for turn, tokens, logprobs in zip(turns, made, likely, strict=True):
            for token, logprob in zip(tokens, logprobs, strict=True):
                drawn = self._enders[0] if turn.progress.must_end and token not in self._enders else token
                turn.say(drawn, logprob)
                if drawn in self._enders:
                    break
            if turn.progress.state == PROMPTED and self._aside is not None:
                turn.say(self._aside.prompt, 0.0)  # nobody had a choice

    def _generated(
        self, scripts: list[list[int]], temperature: float, most: int, may_work: bool
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Tokens and their log probabilities behind scripts, each to the first that ends a line, or so many."""
        width, device = max(map(len, scripts)), self._model.device
        padding = [width - len(script) for script in scripts]
        tokens = torch.tensor([[0] * pad + script for pad, script in zip(padding, scripts, strict=True)])
        seen = torch.arange(width)[None] >= torch.tensor(padding)[:, None]
        forbid = [_Forbid(self._aside, width)] if self._aside is not None and not may_work else []
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
    """Keeps lines from beginning as working does, for `generate`."""

    def __init__(self, aside: Aside, width: int) -> None:
        self._aside, self._width = aside, width

    def __call__(self, tokens: Any, scores: Any) -> Any:
        blanks = torch.tensor(self._aside.blanks, device=tokens.device)
        begins = torch.isin(tokens[:, self._width :], blanks).all(dim=1)
        scores[:, list(self._aside.marks)] = scores[:, list(self._aside.marks)].masked_fill(begins[:, None], -torch.inf)
        return scores


class _Turn:
    """What somebody is saying."""

    def __init__(self, who: int, script: list[int], temperature: float, progress: Progress) -> None:
        self.who, self.script, self.progress = who, script, progress
        self._temperature = temperature
        self.tokens: list[int] = []
        self.logprobs: list[float] = []

    def how(self) -> tuple[float, bool, int]:
        """Temperature, whether it may work, and how many tokens it has left: those alike can be asked together."""
        return self._temperature, self.progress.may_work, self.progress.left

    def say(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.progress.take(token)
