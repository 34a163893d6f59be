"""A decoder: the forward pass of a language model for many rows, with a fixed cache of keys and values.

In the caches of transformers all rows have the same length. Here every row has its own length, so a row can be fed, can
speak, begin and end at any time. All memory is allocated once, so a step of all rows is one CUDA graph.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from companyos.train.data.turns import BEGINS, CALL, LEAST, PROMPTED, WORKING, WorkingSyntax
from companyos.train.model.layers import ModelWeights, causal_model, shape_of, through, turns_of, weights_of, working_type

# All attention kernels except cuDNN's, which prepares a plan for every new shape. Here almost every call has a new shape.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_PLACES = 256  # the attention window of a step is rounded up to a multiple of this; each size has its own CUDA graph


class Drawn:
    """Sampled tokens, their log probabilities, and whether each ends a turn, while they are copied from the device."""

    def __init__(self, rows: Sequence[int], drawn: Any) -> None:
        self.rows = rows
        if drawn.is_cuda:
            self._host = torch.empty(drawn.shape, dtype=drawn.dtype, pin_memory=True)
            self._host.copy_(drawn, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()
        else:
            self._host, self._arrived = drawn.clone(), None

    def read(self) -> tuple[list[int], list[float], list[bool]]:
        """Wait for the copy and return the values in the order of `rows`."""
        if self._arrived is not None:
            self._arrived.synchronize()
        tokens, logprobs, over = self._host
        return tokens.to(torch.int64).tolist(), logprobs.tolist(), over.to(torch.bool).tolist()


class Decoder:
    """A cache of `rows` rows with `room` tokens each. A row is fed tokens, then generates up to a token that ends its turn.

    A turn has at most `most` tokens. `syntax` describes working lines; None means that the model does not write any.
    """

    def __init__(
        self, model: Any, rows: int, room: int, enders: Sequence[int], most: int, syntax: WorkingSyntax | None = None
    ) -> None:
        device = causal_model(model).device
        self.rows, self.room, self.most, self.device = rows, room, most, device
        self._newline = enders[0]  # ends a line that has become too long
        self._syntax = syntax
        self._dtype, self._shape = working_type(device), shape_of(model)
        with torch.no_grad():
            self._weights: ModelWeights = weights_of(model, self._dtype)
            self._cos, self._sin = turns_of(model, room, self._dtype)
        self._places = torch.arange(room, device=device)
        held = (rows, self._shape.key_heads, room, self._shape.size)
        self._keys = [torch.zeros(held, dtype=self._dtype, device=device) for _ in self._weights.layers]
        self._values = [torch.zeros(held, dtype=self._dtype, device=device) for _ in self._weights.layers]
        self._token = torch.zeros(rows, dtype=torch.int64, device=device)  # sampled, and the input of the next step …
        self._place = torch.zeros(rows, dtype=torch.int64, device=device)  # … at this position
        self._left = torch.full((rows,), most, device=device)  # tokens that its turn may still have
        self._state = torch.full((rows,), BEGINS, device=device)  # the state of its turn (`turns.py`)
        self._lines = torch.zeros(rows, dtype=torch.int64, device=device)  # working lines that it may still write
        self._speaking = torch.zeros(rows, dtype=torch.bool, device=device)
        self._over = torch.zeros(rows, dtype=torch.bool, device=device)  # whether the next input ends its turn
        self._hot = torch.zeros(rows, dtype=torch.float32, device=device)  # temperature; 0 takes the most likely token
        self._drawn = torch.zeros((3, rows), dtype=torch.float32, device=device)
        self._ends, self._marks, self._blanks = (
            self._among(tokens) for tokens in (enders, syntax.marks if syntax else (), syntax.blanks if syntax else ())
        )
        self._marked = torch.tensor(syntax.marks if syntax else (), dtype=torch.int64, device=device)
        self._graphs: dict[tuple[int, int], Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def _among(self, tokens: Sequence[int]) -> Any:
        """Return a mask over the vocabulary that is true for these tokens."""
        found = torch.zeros(len(self._weights.embedding), dtype=torch.bool, device=self.device)
        found[list(tokens)] = True
        return found

    def load(self, model: Any) -> None:
        """Copy the present weights of a model, with adapters merged in."""
        with torch.no_grad():
            for ours, theirs in zip(self._weights.each(), weights_of(model, self._dtype).each(), strict=True):
                ours.copy_(theirs)

    # -- rows ------------------------------------------------------------------------------------------------------

    def feed(
        self, rows: Sequence[int], tokens: Sequence[Sequence[int]], starts: Sequence[int], hot: Sequence[float]
    ) -> Drawn:
        """These rows take in tokens, each from a place of its own on, and draw the first token of a turn.

        `hot` are their temperatures: 0 takes the likeliest token.
        """
        width = max(map(len, tokens))
        # Who has less to take in takes in its last token again, at the same place: that changes nothing.
        padded = array("q")
        for said in tokens:
            padded.extend(said)
            padded.extend([said[-1]] * (width - len(said)))
        ends = [start + len(said) for start, said in zip(starts, tokens, strict=True)]
        index, first, last = self._sent(list(rows)), self._sent(list(starts)), self._sent(ends)
        with torch.no_grad(), sdpa_kernel(_KERNELS):
            places = torch.minimum(first[:, None] + self._places[:width], last[:, None] - 1)
            taken = self._sent(padded).view(len(rows), width)
            hidden = self._forward(taken, places, self._window(max(ends)), index)[:, -1]
            self._hot[index] = self._sent([float(one) for one in hot])
            fresh = (
                torch.full_like(index, value) for value in (self.most, BEGINS, self._syntax.lines if self._syntax else 0)
            )
            chosen, drawn, over, state, lines = self._draw(hidden, self._hot[index], *fresh)
            self._token[index], self._over[index], self._state[index], self._lines[index] = chosen, over, state, lines
            self._place[index] = last
            self._left[index] = self.most - 1
            self._speaking[index] = True
        return Drawn(rows, drawn)

    def step(self, width: int, reach: int) -> Drawn:
        """Generate one token for each speaking row among the first `width`. No row is longer than `reach` tokens."""
        window = self._window(reach)
        graph = self._graphs.get((width, window))
        if graph is not None:
            graph.replay()
        else:
            with torch.no_grad(), sdpa_kernel(_KERNELS):
                self._step(width, window)
                if self._pool is not None:  # a graph can be captured after a warm-up run
                    graph = self._graphs[width, window] = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=self._pool):
                        self._step(width, window)
        return Drawn(range(width), self._drawn[:, :width])

    def move(self, rows: Sequence[int]) -> None:
        """Move these rows to the front, in this order."""
        index, size = self._sent(list(rows)), len(rows)
        with torch.no_grad():
            turn = self._left, self._state, self._lines, self._over
            for held in (*self._keys, *self._values, self._token, self._place, self._speaking, self._hot, *turn):
                held[:size] = held[index]

    # -- the model -------------------------------------------------------------------------------------------------

    def _step(self, width: int, window: int) -> None:
        token, place, speaking, over = (held[:width] for held in (self._token, self._place, self._speaking, self._over))
        left, state, lines = (held[:width] for held in (self._left, self._state, self._lines))
        hidden = self._forward(token[:, None], place[:, None], window)[:, 0]
        # A row whose turn has ended is silent. Steps of the other rows write only to the position after its last token,
        # which is overwritten before it is read.
        place.copy_((place + speaking).clamp(max=self.room - 1))
        speaking &= ~over
        drawn = self._draw(hidden, self._hot[:width], left, state, lines)
        for held, found in zip((token, self._drawn[:, :width], over, state, lines), drawn, strict=True):
            held.copy_(found)
        left -= 1

    def _forward(self, tokens: Any, places: Any, window: int, rows: Any = None) -> Any:
        """Return the last hidden states of tokens (row × time) at their positions, of these rows or of the first ones."""
        count, width = tokens.shape
        shape, group = self._shape, self._shape.heads // self._shape.key_heads
        at = torch.arange(count, device=self.device)[:, None] if rows is None else rows[:, None]
        unseen = (self._places[:window] > places[..., None]).repeat(1, group, 1)[:, None]
        look = partial(_by_hand, unseen) if width == 1 else partial(_by_kernel, self._mask(unseen))

        def attend(number: int, q: Any, k: Any, v: Any) -> Any:
            keys, values = self._keys[number], self._values[number]
            keys[at, :, places], values[at, :, places] = k.unflatten(0, (count, width)), v.unflatten(0, (count, width))
            chosen = slice(count) if rows is None else rows
            # Query heads that share keys are concatenated along time, so keys and values are read once and not repeated.
            q = q.view(count, width, shape.key_heads, group, shape.size).permute(0, 2, 3, 1, 4)
            q = q.reshape(count, shape.key_heads, group * width, shape.size)
            found = look(q, keys[:, :, :window][chosen], values[:, :, :window][chosen])
            found = found.view(count, shape.key_heads, group, width, shape.size).permute(0, 3, 1, 2, 4)
            return found.reshape(count * width, -1)

        turn = self._cos[places].flatten(0, 1), self._sin[places].flatten(0, 1)
        return through(self._weights, shape, tokens.flatten(), turn, attend).view(count, width, -1)

    def _mask(self, unseen: Any) -> Any:
        mask = torch.zeros(unseen.shape, dtype=self._dtype, device=self.device).masked_fill_(unseen, -torch.inf)
        return mask.expand(-1, self._shape.key_heads, -1, -1)

    def _draw(self, hidden: Any, hot: Any, left: Any, state: Any, lines: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Sample a token for each row. Return the tokens; tokens, log probabilities and ends as one tensor for the copy to
        the CPU; whether each ends its turn; the new states; and the working lines left."""
        if hidden.is_cuda:  # bf16 is too coarse for the log probabilities that a loss compares
            logits = torch.mm(hidden, self._weights.head.t(), out_dtype=torch.float32)
        else:
            logits = F.linear(hidden, self._weights.head)
        logprobs = logits.log_softmax(-1)
        luck = torch.empty_like(logprobs).exponential_().clamp_min_(1e-30).log_()  # the Gumbel trick
        scores = logprobs - hot[:, None] * luck
        if self._syntax is None:
            chosen = scores.argmax(-1).masked_fill(left <= 1, self._newline)
            over = self._ends[chosen]
        else:
            chosen, over, state, lines = self._follow(self._syntax, scores, left, state, lines)
        likely = logprobs.gather(-1, chosen[:, None])[:, 0]
        return chosen, torch.stack((chosen.float(), likely, over.float())), over, state, lines

    def _follow(self, syntax: WorkingSyntax, scores: Any, left: Any, state: Any, lines: Any) -> tuple[Any, Any, Any, Any]:
        """Choose the best allowed tokens of turns with working lines, by the rules of `turns.Progress`."""
        call, begins, works = self.most - syntax.room, state == BEGINS, state == WORKING
        may_not = begins & ~((lines > 0) & (left >= call + LEAST))
        scores[:, self._marked] = scores[:, self._marked].masked_fill(may_not[:, None], -torch.inf)
        chosen = scores.argmax(-1).masked_fill((left <= 1) | (works & (left <= call + 2)), self._newline)
        chosen = chosen.masked_fill(state == PROMPTED, syntax.prompt)
        ends = self._ends[chosen]
        begun = begins & self._marks[chosen]
        now = torch.full_like(state, CALL)
        now = now.masked_fill(begins & self._blanks[chosen] & ~ends | (state == PROMPTED), BEGINS)
        now = now.masked_fill(begun | works & ~ends, WORKING).masked_fill(works & ends, PROMPTED)
        return chosen, ends & (now == CALL), now, lines - begun.long()

    def _window(self, reach: int) -> int:
        return min(self.room, -(-reach // _PLACES) * _PLACES)

    def _sent(self, numbers: Any) -> Any:
        held = torch.frombuffer(numbers, dtype=torch.int64) if isinstance(numbers, array) else torch.tensor(numbers)
        return held.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else held


def _by_kernel(mask: Any, q: Any, keys: Any, values: Any) -> Any:
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


def _by_hand(unseen: Any, q: Any, keys: Any, values: Any) -> Any:
    """Compute the same for one query or a few per row, for which the kernels take three times as long."""
    found = torch.matmul(q, keys.transpose(2, 3)).float().mul_(q.shape[-1] ** -0.5).masked_fill_(unseen, -torch.inf)
    return torch.matmul(found.softmax(-1).to(q.dtype), values)
