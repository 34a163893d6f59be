"""Decoders: a language model's forward pass over many rows, whose keys and values stay where they were put.

The caches of transformers hold rows that grow together. Here every row has a length of its own, so rows may listen, speak,
begin and end whenever they like; and all memory is laid out once, so a step of all rows is one CUDA graph.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = ("llama", "qwen2")  # whose layers are alike but for a bias
_PLACES = 256  # what a step looks back on is rounded up to so many places, and each such size is a graph of its own
# All but cuDNN's, which would prepare a plan for every shape that it meets.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def causal_model(model: Any) -> Any:
    """The causal language model itself, whether or not adapters sit in its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def fits(model: Any) -> bool:
    """Whether a decoder can stand in for a model."""
    config = causal_model(model).config
    return config.model_type in SHAPES and config.hidden_act == "silu" and not getattr(config, "use_sliding_window", False)


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
        lm = causal_model(model)
        config, device = lm.config, lm.device
        self.rows, self.room, self.most, self.device = rows, room, most, device
        self._newline = enders[0]  # what ends a line that has become too long
        self._dtype = torch.bfloat16 if device.type == "cuda" else lm.dtype
        self._eps = config.rms_norm_eps
        self._size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._key_heads = config.num_key_value_heads
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._layers = [_Layer(layer, self._dtype) for layer in lm.model.layers]
        self._embedding, self._norm, self._head = (
            torch.empty_like(weight, dtype=self._dtype, requires_grad=False)
            for weight in (lm.model.embed_tokens.weight, lm.model.norm.weight, lm.get_output_embeddings().weight)
        )
        self.load(model)
        places = torch.arange(room, device=device)
        with torch.no_grad():
            self._cos, self._sin = (table[0] for table in lm.model.rotary_emb(self._embedding[:1], places[None]))
        self._places = places
        shape = (rows, self._key_heads, room, self._size)
        self._keys = [torch.zeros(shape, dtype=self._dtype, device=device) for _ in self._layers]
        self._values = [torch.zeros(shape, dtype=self._dtype, device=device) for _ in self._layers]
        self._token = torch.zeros(rows, dtype=torch.int64, device=device)  # said, and to be taken in by the next step …
        self._place = torch.zeros(rows, dtype=torch.int64, device=device)  # … here
        self._left = torch.zeros(rows, dtype=torch.int64, device=device)  # how many more a line may have
        self._speaking = torch.zeros(rows, dtype=torch.bool, device=device)
        self._hot = torch.zeros(rows, dtype=torch.float32, device=device)  # 1: draws its tokens; 0: takes the likeliest
        self._drawn = torch.zeros((2, rows), dtype=torch.float32, device=device)
        self._ends = torch.zeros(len(self._embedding), dtype=torch.bool, device=device)
        self._ends[list(enders)] = True
        self._graphs: dict[tuple[int, int], Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def load(self, model: Any) -> None:
        """Takes over the weights of a model as they are, its adapters merged in."""
        lm = causal_model(model)
        with torch.no_grad():
            self._embedding.copy_(lm.model.embed_tokens.weight)
            self._norm.copy_(lm.model.norm.weight)
            self._head.copy_(lm.get_output_embeddings().weight)
            for ours, theirs in zip(self._layers, lm.model.layers, strict=True):
                ours.load(theirs)

    # -- what rows do ----------------------------------------------------------------------------------------------

    def feed(
        self, rows: Sequence[int], tokens: Sequence[Sequence[int]], starts: Sequence[int], hot: Sequence[bool]
    ) -> Drawn:
        """These rows take in tokens, each from a place of its own on, and draw the first token of a line."""
        width = max(map(len, tokens))
        # Who has less to take in takes in its last token again, at the same place: that changes nothing.
        padded = [[*said, *[said[-1]] * (width - len(said))] for said in tokens]
        ends = [start + len(said) for start, said in zip(starts, tokens, strict=True)]
        places = [[*range(start, end), *[end - 1] * (start + width - end)] for start, end in zip(starts, ends, strict=True)]
        index = self._sent(list(rows))
        with torch.no_grad(), sdpa_kernel(_KERNELS):
            hidden = self._forward(self._sent(padded), self._sent(places), self._window(max(ends)), index)[:, -1]
            self._hot[index] = self._sent(hot).to(torch.float32)
            chosen, drawn = self._draw(hidden, self._hot[index])
            self._token[index] = chosen
            self._place[index] = self._sent(ends)
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
        token.copy_(torch.where(left > 0, chosen, self._newline))
        drawn[0] = token
        self._drawn[:, :width] = drawn

    def _forward(self, tokens: Any, places: Any, window: int, rows: Any = None) -> Any:
        """The last hidden states of tokens (row × time) at their places: of these rows, or of the first ones."""
        hidden = F.embedding(tokens, self._embedding)
        count, width = tokens.shape
        turn = self._cos[places][:, :, None], self._sin[places][:, :, None]
        at = (rows if rows is not None else torch.arange(count, device=self.device))[:, None], places
        unseen = self._places[:window] > places[..., None]
        mask = torch.zeros(unseen.shape, dtype=self._dtype, device=self.device).masked_fill_(unseen, -torch.inf)
        mask = mask.repeat(1, self._group, 1)[:, None].expand(-1, self._key_heads, -1, -1)
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            x = F.rms_norm(hidden, hidden.shape[-1:], layer.before, self._eps)
            q, k, v = (
                F.linear(x, layer.qkv, layer.bias)
                .view(count, width, -1, self._size)
                .split((self._group * self._key_heads, self._key_heads, self._key_heads), dim=2)
            )
            keys[at[0], :, at[1]] = _rotated(k, *turn)
            values[at[0], :, at[1]] = v
            seen = keys[:, :, :window], values[:, :, :window]
            seen = (seen[0][rows], seen[1][rows]) if rows is not None else (seen[0][:count], seen[1][:count])
            hidden = hidden + F.linear(self._attend(_rotated(q, *turn), *seen, mask), layer.out)
            x = F.rms_norm(hidden, hidden.shape[-1:], layer.after, self._eps)
            gate, up = F.linear(x, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
        return F.rms_norm(hidden, hidden.shape[-1:], self._norm, self._eps)

    def _attend(self, q: Any, keys: Any, values: Any, mask: Any) -> Any:
        """Heads that share keys stand behind one another in time, so keys and values are read once and never repeated."""
        count, width, heads, size = q.shape
        q = q.view(count, width, self._key_heads, self._group, size).permute(0, 2, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q.reshape(count, self._key_heads, -1, size), keys, values, attn_mask=mask)
        seen = seen.view(count, self._key_heads, self._group, width, size).permute(0, 3, 1, 2, 4)
        return seen.reshape(count, width, heads * size)

    def _draw(self, hidden: Any, hot: Any) -> tuple[Any, Any]:
        """A token for each row, and it with its log probability as numbers that travel together."""
        if hidden.is_cuda:  # bf16 has too few digits for the log probabilities that losses compare
            logits = torch.mm(hidden, self._head.t(), out_dtype=torch.float32)
        else:
            logits = F.linear(hidden, self._head).float()
        logprobs = logits.log_softmax(-1)
        luck = torch.empty_like(logprobs).exponential_().clamp_min_(1e-30).log_()  # the Gumbel trick
        chosen = (logprobs - hot[:, None] * luck).argmax(-1)
        return chosen, torch.stack((chosen.float(), logprobs.gather(-1, chosen[:, None])[:, 0]))

    def _window(self, reach: int) -> int:
        return min(self.room, -(-reach // _PLACES) * _PLACES)

    def _sent(self, numbers: Any) -> Any:
        held = torch.tensor(numbers)
        return held.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else held


class _Layer:
    """The weights of one layer, those that see the same input side by side."""

    def __init__(self, layer: Any, dtype: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp

        def beside(*linears: Any) -> Any:
            inner = _inner(linears[0]).weight
            rows = sum(_inner(linear).weight.shape[0] for linear in linears)
            return torch.empty((rows, inner.shape[1]), dtype=dtype, device=inner.device)

        self.qkv = beside(attention.q_proj, attention.k_proj, attention.v_proj)
        self.bias = self.qkv.new_empty(len(self.qkv)) if _inner(attention.q_proj).bias is not None else None
        self.out, self.down = beside(attention.o_proj), beside(mlp.down_proj)
        self.gate_up = beside(mlp.gate_proj, mlp.up_proj)
        self.before, self.after = (self.qkv.new_empty(self.qkv.shape[1]) for _ in range(2))

    def load(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.before.copy_(layer.input_layernorm.weight)
        self.after.copy_(layer.post_attention_layernorm.weight)
        in_three = attention.q_proj, attention.k_proj, attention.v_proj
        self.qkv.copy_(torch.cat([_merged(linear) for linear in in_three]))
        if self.bias is not None:
            self.bias.copy_(torch.cat([_inner(linear).bias for linear in in_three]))
        self.out.copy_(_merged(attention.o_proj))
        self.gate_up.copy_(torch.cat([_merged(mlp.gate_proj), _merged(mlp.up_proj)]))
        self.down.copy_(_merged(mlp.down_proj))


def _inner(linear: Any) -> Any:
    return getattr(linear, "base_layer", linear)


def _merged(linear: Any) -> Any:
    """A weight with what its adapters add, in the finer of their numbers."""
    weight = _inner(linear).weight
    if getattr(linear, "merged", False):
        return weight
    for adapter in getattr(linear, "active_adapters", ()):
        weight = weight + linear.get_delta_weight(adapter)
    return weight


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin
