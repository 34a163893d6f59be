"""Decoders: a language model's forward pass over many rows, whose keys and values stay where they were put.

The caches of transformers hold rows that grow together. Here every row has a length of its own, so rows may listen, speak,
begin and end whenever they like; and all memory is laid out once, so a step of all rows is one CUDA graph.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from companyos.train.layers import Weights, causal_model, shape_of, through, turns_of, weights_of, working_type

# For attention all but cuDNN's, which would prepare a plan for every shape that it meets: here hardly two are alike.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_PLACES = 256  # what a step looks back on is rounded up to so many places, and each such size is a graph of its own


class Drawn:
    """Tokens and their log probabilities on their way from the device."""

    def __init__(self, rows: Sequence[int], drawn: Any) -> None:
        self.rows = rows
        if drawn.is_cuda:
            self._host = torch.empty(drawn.shape, dtype=drawn.dtype, pin_memory=True)
            self._host.copy_(drawn, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()
        else:
            self._host, self._arrived = drawn.clone(), None

    def read(self) -> tuple[list[int], list[float]]:
        """Waits for them, if need be. By row, in the order of `rows`."""
        if self._arrived is not None:
            self._arrived.synchronize()
        tokens, logprobs = self._host
        return tokens.to(torch.int64).tolist(), logprobs.tolist()


class Decoder:
    """So many rows with room for so many tokens each. A row listens to tokens, then speaks up to one that ends its line."""

    def __init__(self, model: Any, rows: int, room: int, enders: Sequence[int], most: int) -> None:
        device = causal_model(model).device
        self.rows, self.room, self.most, self.device = rows, room, most, device
        self._newline = enders[0]  # what ends a line that has become too long
        self._dtype, self._shape = working_type(device), shape_of(model)
        with torch.no_grad():
            self._weights: Weights = weights_of(model, self._dtype)
            self._cos, self._sin = turns_of(model, room, self._dtype)
        self._places = torch.arange(room, device=device)
        held = (rows, self._shape.key_heads, room, self._shape.size)
        self._keys = [torch.zeros(held, dtype=self._dtype, device=device) for _ in self._weights.layers]
        self._values = [torch.zeros(held, dtype=self._dtype, device=device) for _ in self._weights.layers]
        self._token = torch.zeros(rows, dtype=torch.int64, device=device)  # said, and to be taken in by the next step …
        self._place = torch.zeros(rows, dtype=torch.int64, device=device)  # … here
        self._left = torch.zeros(rows, dtype=torch.int64, device=device)  # how many more a line may have
        self._speaking = torch.zeros(rows, dtype=torch.bool, device=device)
        self._hot = torch.zeros(rows, dtype=torch.float32, device=device)  # 1: draws its tokens; 0: takes the likeliest
        self._drawn = torch.zeros((2, rows), dtype=torch.float32, device=device)
        self._ends = torch.zeros(len(self._weights.embedding), dtype=torch.bool, device=device)
        self._ends[list(enders)] = True
        self._graphs: dict[tuple[int, int], Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def load(self, model: Any) -> None:
        """Takes over the weights of a model as they are, its adapters merged in."""
        with torch.no_grad():
            for ours, theirs in zip(self._weights.each(), weights_of(model, self._dtype).each(), strict=True):
                ours.copy_(theirs)

    # -- what rows do ----------------------------------------------------------------------------------------------

    def feed(
        self, rows: Sequence[int], tokens: Sequence[Sequence[int]], starts: Sequence[int], hot: Sequence[bool]
    ) -> Drawn:
        """These rows take in tokens, each from a place of its own on, and draw the first token of a line."""
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
            self._hot[index] = self._sent(hot).to(torch.float32)
            chosen, drawn = self._draw(hidden, self._hot[index])
            self._token[index] = chosen
            self._place[index] = last
            self._left[index] = self.most - 1
            self._speaking[index] = True
        return Drawn(rows, drawn)

    def step(self, width: int, reach: int) -> Drawn:
        """Each of the first `width` rows that speak says a token more. None of them is longer than `reach` by now."""
        window = self._window(reach)
        graph = self._graphs.get((width, window))
        if graph is not None:
            graph.replay()
        else:
            with torch.no_grad(), sdpa_kernel(_KERNELS):
                self._step(width, window)
                if self._pool is not None:  # what ran once is warm, and can be captured
                    graph = self._graphs[width, window] = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=self._pool):
                        self._step(width, window)
        return Drawn(range(width), self._drawn[:, :width])

    def move(self, rows: Sequence[int]) -> None:
        """These rows become the first ones, in this order."""
        index, size = self._sent(list(rows)), len(rows)
        with torch.no_grad():
            for held in (*self._keys, *self._values, self._token, self._place, self._left, self._speaking, self._hot):
                held[:size] = held[index]

    # -- the model -------------------------------------------------------------------------------------------------

    def _step(self, width: int, window: int) -> None:
        token, place, left, speaking = (held[:width] for held in (self._token, self._place, self._left, self._speaking))
        hidden = self._forward(token[:, None], place[:, None], window)[:, 0]
        chosen, drawn = self._draw(hidden, self._hot[:width])
        # A row that has taken in the end of its line is silent: the steps of the others leave it as it is, but for the
        # place behind its last token, which nobody looks at before it is written.
        place.copy_((place + speaking).clamp(max=self.room - 1))
        speaking &= ~self._ends[token]
        left -= 1
        token.copy_(chosen.masked_fill(left <= 0, self._newline))
        drawn[0] = token
        self._drawn[:, :width] = drawn

    def _forward(self, tokens: Any, places: Any, window: int, rows: Any = None) -> Any:
        """The last hidden states of tokens (row × time) at their places: of these rows, or of the first ones."""
        count, width = tokens.shape
        shape, group = self._shape, self._shape.heads // self._shape.key_heads
        at = torch.arange(count, device=self.device)[:, None] if rows is None else rows[:, None]
        unseen = (self._places[:window] > places[..., None]).repeat(1, group, 1)[:, None]
        look = partial(_by_hand, unseen) if width == 1 else partial(_by_kernel, self._mask(unseen))

        def attend(number: int, q: Any, k: Any, v: Any) -> Any:
            keys, values = self._keys[number], self._values[number]
            keys[at, :, places], values[at, :, places] = k.unflatten(0, (count, width)), v.unflatten(0, (count, width))
            chosen = slice(count) if rows is None else rows
            # Heads that share keys stand behind one another in time, so keys and values are read once and never repeated.
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

    def _draw(self, hidden: Any, hot: Any) -> tuple[Any, Any]:
        """A token for each row, and it with its log probability as numbers that travel together."""
        if hidden.is_cuda:  # bf16 has too few digits for the log probabilities that losses compare
            logits = torch.mm(hidden, self._weights.head.t(), out_dtype=torch.float32)
        else:
            logits = F.linear(hidden, self._weights.head)
        logprobs = logits.log_softmax(-1)
        luck = torch.empty_like(logprobs).exponential_().clamp_min_(1e-30).log_()  # the Gumbel trick
        chosen = (logprobs - hot[:, None] * luck).argmax(-1)
        return chosen, torch.stack((chosen.float(), logprobs.gather(-1, chosen[:, None])[:, 0]))

    def _window(self, reach: int) -> int:
        return min(self.room, -(-reach // _PLACES) * _PLACES)

    def _sent(self, numbers: Any) -> Any:
        held = torch.frombuffer(numbers, dtype=torch.int64) if isinstance(numbers, array) else torch.tensor(numbers)
        return held.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else held


def _by_kernel(mask: Any, q: Any, keys: Any, values: Any) -> Any:
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


def _by_hand(unseen: Any, q: Any, keys: Any, values: Any) -> Any:
    """The same, where a row asks for a token or a few: kernels are made for many, and take three times as long."""
    found = torch.matmul(q, keys.transpose(2, 3)).float().mul_(q.shape[-1] ** -0.5).masked_fill_(unseen, -torch.inf)
    return torch.matmul(found.softmax(-1).to(q.dtype), values)
