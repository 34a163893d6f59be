"""A decoder: the forward pass of a language model for many rows, with a fixed cache of keys and values.

In the caches of transformers all rows have the same length. Here every row has its own length, so each row can take in a
script, generate a turn, begin and end independently of the others. All memory is allocated once, so a step of all rows is
one CUDA graph.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from companyos.train.data.turns import BEGINS, CALL, MIN_WORKING_TOKENS, PROMPT_DUE, WORKING, WorkingSyntax
from companyos.train.model.layers import (
    ModelWeights,
    causal_model,
    compute_type,
    rotations_of,
    run_layers,
    shape_of,
    weights_of,
)

# All attention kernels except cuDNN's, which prepares a plan for every new shape. Here almost every call has a new shape.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_WINDOW_UNIT = 256  # the attention window of a step is rounded up to a multiple of this; each size has its own CUDA graph


class DrawnTokens:
    """Sampled tokens, their log probabilities, and whether each ends a turn, while they are copied from the device."""

    def __init__(self, drawn: Any) -> None:
        if drawn.is_cuda:
            self._host = torch.empty(drawn.shape, dtype=drawn.dtype, pin_memory=True)
            self._host.copy_(drawn, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()
        else:
            self._host, self._arrived = drawn.clone(), None

    def read(self) -> tuple[list[int], list[float], list[bool]]:
        """Wait for the copy. Return tokens, log probabilities and ends, in the order of the rows."""
        if self._arrived is not None:
            self._arrived.synchronize()
        tokens, logprobs, over = self._host
        return tokens.to(torch.int64).tolist(), logprobs.tolist(), over.to(torch.bool).tolist()


class Decoder:
    """A cache of `rows` rows with `row_tokens` tokens each. A row is fed tokens, then generates until its turn ends.

    A turn has at most `turn_tokens` tokens. `line_ends` are the tokens that end a line. `syntax` describes working lines;
    None means that the model does not write any.
    """

    def __init__(
        self,
        model: Any,
        rows: int,
        row_tokens: int,
        line_ends: Sequence[int],
        turn_tokens: int,
        syntax: WorkingSyntax | None = None,
    ) -> None:
        device = causal_model(model).device
        self.rows, self.row_tokens, self.turn_tokens, self.device = rows, row_tokens, turn_tokens, device
        self._newline = line_ends[0]  # ends a line that has become too long
        self._syntax = syntax
        self._dtype, self._shape = compute_type(device), shape_of(model)
        with torch.no_grad():
            self._weights: ModelWeights = weights_of(model, self._dtype)
            self._cos, self._sin = rotations_of(model, row_tokens, self._dtype)
        self._positions = torch.arange(row_tokens, device=device)
        cache_shape = (rows, self._shape.kv_heads, row_tokens, self._shape.head_size)
        self._keys = [torch.zeros(cache_shape, dtype=self._dtype, device=device) for _ in self._weights.layers]
        self._values = [torch.zeros(cache_shape, dtype=self._dtype, device=device) for _ in self._weights.layers]
        # The state of each row.
        self._token = torch.zeros(rows, dtype=torch.int64, device=device)  # sampled, and the input of the next step …
        self._position = torch.zeros(rows, dtype=torch.int64, device=device)  # … at this position
        self._tokens_left = torch.full((rows,), turn_tokens, device=device)  # that its turn may still have
        self._state = torch.full((rows,), BEGINS, device=device)  # the state of its turn (`turns.py`)
        self._lines_left = torch.zeros(rows, dtype=torch.int64, device=device)  # working lines that it may still write
        self._speaking = torch.zeros(rows, dtype=torch.bool, device=device)
        self._over = torch.zeros(rows, dtype=torch.bool, device=device)  # whether the next input ends its turn
        self._temperature = torch.zeros(rows, dtype=torch.float32, device=device)  # 0 takes the most likely token
        self._drawn = torch.zeros((3, rows), dtype=torch.float32, device=device)  # as `_draw` returns it
        # Masks over the vocabulary.
        marks, blanks = (syntax.marks, syntax.blanks) if syntax else ((), ())
        self._is_line_end, self._is_mark, self._is_blank = (self._mask_of(tokens) for tokens in (line_ends, marks, blanks))
        self._marks = torch.tensor(marks, dtype=torch.int64, device=device)
        self._graphs: dict[tuple[int, int], Any] = {}  # CUDA graphs of a step, by width and window
        self._graph_pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def _mask_of(self, tokens: Sequence[int]) -> Any:
        """Return a mask over the vocabulary that is true for these tokens."""
        mask = torch.zeros(len(self._weights.embedding), dtype=torch.bool, device=self.device)
        mask[list(tokens)] = True
        return mask

    def load(self, model: Any) -> None:
        """Copy the present weights of a model, with adapters merged in."""
        with torch.no_grad():
            for weight, new in zip(self._weights.tensors(), weights_of(model, self._dtype).tensors(), strict=True):
                weight.copy_(new)

    # -- rows ------------------------------------------------------------------------------------------------------

    def feed(
        self, rows: Sequence[int], tokens: Sequence[Sequence[int]], starts: Sequence[int], temperatures: Sequence[float]
    ) -> DrawnTokens:
        """Feed tokens to some rows, each from its own start position on, and draw the first token of a turn for each."""
        width = max(map(len, tokens))
        # A shorter row is fed its last token again, at the same position: that changes nothing.
        padded = array("q")
        for fed in tokens:
            padded.extend(fed)
            padded.extend([fed[-1]] * (width - len(fed)))
        ends = [start + len(fed) for start, fed in zip(starts, tokens, strict=True)]
        index, first, end = self._on_device(list(rows)), self._on_device(list(starts)), self._on_device(ends)
        with torch.no_grad(), sdpa_kernel(_KERNELS):
            positions = torch.minimum(first[:, None] + self._positions[:width], end[:, None] - 1)
            inputs = self._on_device(padded).view(len(rows), width)
            hidden = self._forward(inputs, positions, self._window(max(ends)), index)[:, -1]
            self._temperature[index] = self._on_device([float(temperature) for temperature in temperatures])
            max_lines = self._syntax.max_lines if self._syntax else 0
            new_turn = (torch.full_like(index, value) for value in (self.turn_tokens, BEGINS, max_lines))
            chosen, drawn, over, state, lines_left = self._draw(hidden, self._temperature[index], *new_turn)
            self._token[index], self._over[index] = chosen, over
            self._state[index], self._lines_left[index] = state, lines_left
            self._position[index] = end
            self._tokens_left[index] = self.turn_tokens - 1
            self._speaking[index] = True
        return DrawnTokens(drawn)

    def step(self, width: int, longest: int) -> DrawnTokens:
        """Generate one token for each speaking row among the first `width`. No row is longer than `longest` tokens."""
        window = self._window(longest)
        graph = self._graphs.get((width, window))
        if graph is not None:
            graph.replay()
        else:
            with torch.no_grad(), sdpa_kernel(_KERNELS):
                self._step(width, window)
                if self._graph_pool is not None:  # a graph can be captured after a warm-up run
                    graph = self._graphs[width, window] = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=self._graph_pool):
                        self._step(width, window)
        return DrawnTokens(self._drawn[:, :width])

    def move(self, rows: Sequence[int]) -> None:
        """Move these rows to the front, in this order."""
        index, count = self._on_device(list(rows)), len(rows)
        with torch.no_grad():
            of_turns = self._tokens_left, self._state, self._lines_left, self._speaking, self._over, self._temperature
            for by_row in (*self._keys, *self._values, self._token, self._position, *of_turns):
                by_row[:count] = by_row[index]

    # -- the model -------------------------------------------------------------------------------------------------

    def _step(self, width: int, window: int) -> None:
        """Generate one token for the first `width` rows, in place, so that it can be captured as a CUDA graph."""
        token, position, speaking = self._token[:width], self._position[:width], self._speaking[:width]
        over, state = self._over[:width], self._state[:width]
        tokens_left, lines_left = self._tokens_left[:width], self._lines_left[:width]
        hidden = self._forward(token[:, None], position[:, None], window)[:, 0]
        # A row whose turn has ended is silent. Steps of the other rows write only to the position after its last token,
        # which is overwritten before it is read.
        position.copy_((position + speaking).clamp(max=self.row_tokens - 1))
        speaking &= ~over
        results = self._draw(hidden, self._temperature[:width], tokens_left, state, lines_left)
        for by_row, result in zip((token, self._drawn[:, :width], over, state, lines_left), results, strict=True):
            by_row.copy_(result)
        tokens_left -= 1

    def _forward(self, tokens: Any, positions: Any, window: int, rows: Any = None) -> Any:
        """Return the last hidden states of tokens (row × time) at their positions.

        The tokens are of these rows, or of the first ones. Each sees the first `window` tokens of its row, up to itself.
        """
        count, width = tokens.shape
        shape, group = self._shape, self._shape.heads // self._shape.kv_heads  # query heads that share keys
        row_index = torch.arange(count, device=self.device)[:, None] if rows is None else rows[:, None]
        chosen = slice(count) if rows is None else rows
        unseen = (self._positions[:window] > positions[..., None]).repeat(1, group, 1)[:, None]
        attention = partial(_attend_by_hand, unseen) if width == 1 else partial(_attend_by_kernel, self._float_mask(unseen))

        def attend(layer_index: int, q: Any, k: Any, v: Any) -> Any:
            keys, values = self._keys[layer_index], self._values[layer_index]
            keys[row_index, :, positions] = k.unflatten(0, (count, width))
            values[row_index, :, positions] = v.unflatten(0, (count, width))
            # Query heads that share keys are concatenated along time, so keys and values are read once and not repeated.
            q = q.view(count, width, shape.kv_heads, group, shape.head_size).permute(0, 2, 3, 1, 4)
            q = q.reshape(count, shape.kv_heads, group * width, shape.head_size)
            heads = attention(q, keys[:, :, :window][chosen], values[:, :, :window][chosen])
            heads = heads.view(count, shape.kv_heads, group, width, shape.head_size).permute(0, 3, 1, 2, 4)
            return heads.reshape(count * width, -1)

        rotation = self._cos[positions].flatten(0, 1), self._sin[positions].flatten(0, 1)
        return run_layers(self._weights, shape, tokens.flatten(), rotation, attend).view(count, width, -1)

    def _float_mask(self, unseen: Any) -> Any:
        """Return a mask to be added to attention scores: minus infinity for unseen tokens."""
        mask = torch.zeros(unseen.shape, dtype=self._dtype, device=self.device).masked_fill_(unseen, -torch.inf)
        return mask.expand(-1, self._shape.kv_heads, -1, -1)

    def _draw(
        self, hidden: Any, temperature: Any, tokens_left: Any, state: Any, lines_left: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        """Sample a token for each row, from its last hidden state and the state of its turn.

        Return the tokens; tokens, log probabilities and ends as one tensor for the copy to the CPU; whether each token ends
        its turn; the new states; and the working lines left.
        """
        if hidden.is_cuda:  # bf16 is too coarse for the log probabilities that a loss compares
            logits = torch.mm(hidden, self._weights.head.t(), out_dtype=torch.float32)
        else:
            logits = F.linear(hidden, self._weights.head)
        logprobs = logits.log_softmax(-1)
        scores = logprobs.clone()
        if hidden.is_cuda or temperature.any():  # the condition would make a GPU wait
            # The Gumbel trick: the argmax of log probabilities plus noise is a sample.
            noise = torch.empty_like(logprobs).exponential_().clamp_min_(1e-30).log_()
            scores -= temperature[:, None] * noise
        if self._syntax is None:
            chosen = scores.argmax(-1).masked_fill(tokens_left <= 1, self._newline)
            over = self._is_line_end[chosen]
        else:
            chosen, over, state, lines_left = self._choose(self._syntax, scores, tokens_left, state, lines_left)
        logprobs_of_chosen = logprobs.gather(-1, chosen[:, None])[:, 0]
        return chosen, torch.stack((chosen.float(), logprobs_of_chosen, over.float())), over, state, lines_left

    def _choose(
        self, syntax: WorkingSyntax, scores: Any, tokens_left: Any, state: Any, lines_left: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Choose the best allowed tokens of turns with working lines, by the rules of `turns.TurnProgress`.

        Return the tokens, whether each ends its turn, the new states, and the working lines left.
        """
        call_tokens = self.turn_tokens - syntax.max_tokens  # kept for the call
        begins, works = state == BEGINS, state == WORKING
        may_work = (lines_left > 0) & (tokens_left >= call_tokens + MIN_WORKING_TOKENS)
        scores[:, self._marks] = scores[:, self._marks].masked_fill((begins & ~may_work)[:, None], -torch.inf)
        must_end = (tokens_left <= 1) | (works & (tokens_left <= call_tokens + 2))
        chosen = scores.argmax(-1).masked_fill(must_end, self._newline)
        chosen = chosen.masked_fill(state == PROMPT_DUE, syntax.prompt)
        ends = self._is_line_end[chosen]
        begins_working = begins & self._is_mark[chosen]
        new_state = torch.full_like(state, CALL)
        new_state = new_state.masked_fill(begins & self._is_blank[chosen] & ~ends | (state == PROMPT_DUE), BEGINS)
        new_state = new_state.masked_fill(begins_working | works & ~ends, WORKING)
        new_state = new_state.masked_fill(works & ends, PROMPT_DUE)
        return chosen, ends & (new_state == CALL), new_state, lines_left - begins_working.long()

    def _window(self, longest: int) -> int:
        """Return the attention window for rows of at most this length."""
        return min(self.row_tokens, -(-longest // _WINDOW_UNIT) * _WINDOW_UNIT)  # rounded up

    def _on_device(self, numbers: Any) -> Any:
        """Return integers or floats as a tensor on the device."""
        tensor = torch.frombuffer(numbers, dtype=torch.int64) if isinstance(numbers, array) else torch.tensor(numbers)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor


def _attend_by_kernel(mask: Any, q: Any, keys: Any, values: Any) -> Any:
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


def _attend_by_hand(unseen: Any, q: Any, keys: Any, values: Any) -> Any:
    """Compute the same for one query or a few per row, for which the kernels take three times as long."""
    scores = torch.matmul(q, keys.transpose(2, 3)).float().mul_(q.shape[-1] ** -0.5).masked_fill_(unseen, -torch.inf)
    return torch.matmul(scores.softmax(-1).to(q.dtype), values)
