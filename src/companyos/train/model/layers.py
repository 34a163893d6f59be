"""Layers: the forward pass of models of Llama's shape, on weights with their adapters merged in.

What plays and what learns go through the same layers on the same numbers. Beside each other, an adapter in float32 and the
same adapter merged into bfloat16 are two policies: what a small step changes can be lost between two numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812

SHAPES = ("llama", "qwen2")  # alike but for a bias

# Queries, keys and values (token × head × size) of a layer, by its number, to what its heads saw, side by side.
Attend = Callable[[int, Any, Any, Any], Any]


def causal_model(model: Any) -> Any:
    """The causal language model itself, whether or not adapters sit in its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def fits(model: Any) -> bool:
    """Whether a model has this shape."""
    config = causal_model(model).config
    return config.model_type in SHAPES and config.hidden_act == "silu" and not getattr(config, "use_sliding_window", False)


class Shape(NamedTuple):
    """The numbers that weights do not tell."""

    heads: int
    key_heads: int
    size: int  # of a head
    eps: float


def shape_of(model: Any) -> Shape:
    config = causal_model(model).config
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Shape(heads, config.num_key_value_heads, size, config.rms_norm_eps)


class Layer(NamedTuple):
    """The weights of one layer, those that see the same input side by side."""

    before: Any
    qkv: Any
    bias: Any
    out: Any
    after: Any
    gate_up: Any
    down: Any


class Weights(NamedTuple):
    embedding: Any
    layers: list[Layer]
    norm: Any
    head: Any

    def each(self) -> Iterator[Any]:
        yield from (self.embedding, self.norm, self.head)
        for layer in self.layers:
            yield from (weight for weight in layer if weight is not None)


def weights_of(model: Any, dtype: Any) -> Weights:
    """A copy of a model's weights, adapters merged in. What is trained of them gets its gradients through it."""
    lm = causal_model(model)
    layers = lm.model.layers
    attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    in_three = [[getattr(attention, name) for attention in attentions] for name in ("q_proj", "k_proj", "v_proj")]

    def copied(weight: Any) -> Any:
        return weight.to(dtype, copy=True)

    def beside(*linears: Sequence[Any]) -> Sequence[Any]:
        """Of every layer, the weights of some linears side by side."""
        stacked: Sequence[Any] = torch.cat([_merged(ones) for ones in linears], dim=1).to(dtype).unbind()
        return stacked

    def biases() -> Sequence[Any]:
        if _inner(in_three[0][0]).bias is None:
            return [None] * len(layers)
        return [torch.cat([_inner(ones[number]).bias for ones in in_three]).to(dtype) for number in range(len(layers))]

    made = zip(
        [copied(layer.input_layernorm.weight) for layer in layers],
        beside(*in_three),
        biases(),
        beside([attention.o_proj for attention in attentions]),
        [copied(layer.post_attention_layernorm.weight) for layer in layers],
        beside([mlp.gate_proj for mlp in mlps], [mlp.up_proj for mlp in mlps]),
        beside([mlp.down_proj for mlp in mlps]),
        strict=True,
    )
    return Weights(
        embedding=copied(lm.model.embed_tokens.weight),
        layers=[Layer(*weights) for weights in made],
        norm=copied(lm.model.norm.weight),
        head=copied(lm.get_output_embeddings().weight),
    )


def through(weights: Weights, shape: Shape, tokens: Any, turn: tuple[Any, Any], attend: Attend) -> Any:
    """The last hidden states of tokens, `turn` being the cosines and sines of their places.

    Which of them belong together, only `attend` knows.
    """
    hidden = F.embedding(tokens, weights.embedding)
    before, after = (_compiled(_before), _compiled(_after)) if hidden.is_cuda else (_before, _after)
    cos, sin = (_of_any_number(x[:, None]) for x in turn)
    for number, layer in enumerate(weights.layers):
        q, k, v = before(_of_any_number(hidden), layer.before, layer.qkv, layer.bias, cos, sin, shape)
        seen = _of_any_number(attend(number, q, k, v))
        hidden = after(hidden, seen, layer.out, layer.after, layer.gate_up, layer.down, shape.eps)
    return F.rms_norm(hidden, hidden.shape[-1:], weights.norm, shape.eps)


def _before(hidden: Any, norm: Any, qkv: Any, bias: Any, cos: Any, sin: Any, shape: Shape) -> tuple[Any, Any, Any]:
    """Of a layer, what comes before its heads look: their queries, keys and values."""
    x = F.rms_norm(hidden, hidden.shape[-1:], norm, shape.eps)
    sizes = shape.heads, shape.key_heads, shape.key_heads
    q, k, v = F.linear(x, qkv, bias).unflatten(-1, (sum(sizes), shape.size)).split(sizes, dim=1)
    return _rotated(q, cos, sin), _rotated(k, cos, sin), v


def _after(hidden: Any, seen: Any, out: Any, norm: Any, gate_up: Any, down: Any, eps: float) -> Any:
    """Of a layer, what comes after its heads have looked."""
    hidden = hidden + F.linear(seen, out)
    gate, up = F.linear(F.rms_norm(hidden, hidden.shape[-1:], norm, eps), gate_up).chunk(2, dim=-1)
    return hidden + F.linear(F.silu(gate) * up, down)


@cache
def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    """Fused: most of what a layer does besides its products is to read and to write. All layers share what is compiled."""
    made: Callable[..., Any] = torch.compile(part)
    return made


def _of_any_number(tokens: Any) -> Any:
    """Says that their number will change, so that nothing is compiled for one of them."""
    if tokens.is_cuda:
        torch._dynamo.maybe_mark_dynamic(tokens, 0)
    return tokens


def turns_of(model: Any, places: int, dtype: Any) -> tuple[Any, Any]:
    """The cosines and sines of so many places."""
    lm = causal_model(model)
    like = torch.empty((), dtype=dtype, device=lm.device)
    cos, sin = lm.model.rotary_emb(like, torch.arange(places, device=lm.device)[None])
    return cos[0], sin[0]


def last_hidden_states(model: Any, rows: Sequence[Sequence[int]]) -> Any:
    """Of rows of tokens, one behind the other, each token after those before it in its row: to learn from."""
    lm = causal_model(model)
    dtype, lengths = working_type(lm.device), [len(row) for row in rows]
    if not fits(model):
        width = max(lengths)  # padded behind, and nobody looks ahead: no mask is needed
        padded = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=lm.device)
        with torch.autocast(lm.device.type, dtype, enabled=dtype != torch.float32):
            seen = getattr(lm, lm.base_model_prefix)(input_ids=padded, use_cache=False).last_hidden_state
        return torch.cat([states[:length] for states, length in zip(seen, lengths, strict=True)])
    tokens = torch.tensor([token for row in rows for token in row], device=lm.device)
    turn = tuple(torch.cat([x[:length] for length in lengths]) for x in turns_of(model, max(lengths), dtype))
    attend = _causally_packed(lengths, lm.device) if has_flash(lm.device) else partial(causally, lengths)
    return through(weights_of(model, dtype), shape_of(model), tokens, turn, attend)


def working_type(device: Any) -> Any:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def has_flash(device: Any) -> bool:
    """Whether its kernels for attention can do many rows at once: NVIDIA's since Ampere."""
    return bool(device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0))


def causally(lengths: Sequence[int], number: int, q: Any, k: Any, v: Any) -> Any:
    # As a batch of one: for less than a batch there is no kernel, and every score of every head would be kept.
    rows = zip(*(x.transpose(0, 1)[None].split(list(lengths), dim=2) for x in (q, k, v)), strict=True)
    seen = [F.scaled_dot_product_attention(*row, is_causal=True, enable_gqa=True) for row in rows]
    return torch.cat(seen, dim=2)[0].transpose(0, 1).flatten(1)


def _causally_packed(lengths: Sequence[int], device: Any) -> Attend:
    """The same for all rows at once: so the kernel can be called that `scaled_dot_product_attention` would take for each."""
    bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    longest = max(lengths)

    def attend(number: int, q: Any, k: Any, v: Any) -> Any:
        return flash(q, k, v, bounds, bounds, longest, longest).flatten(1)

    return attend


def flash(q: Any, k: Any, v: Any, from_q: Any, from_k: Any, most_q: int, most_k: int) -> Any:
    """Causal attention of many rows at once: `from_q` and `from_k` say where the queries and keys of each row begin.

    Where a row has more keys than queries, its last query sees all of them, the one before it all but one.
    """
    return torch.ops.aten._flash_attention_forward(q, k, v, from_q, from_k, most_q, most_k, 0.0, True, False)[0]


def _inner(linear: Any) -> Any:
    return getattr(linear, "base_layer", linear)


def _merged(linears: Sequence[Any]) -> Any:
    """The weights of one linear in all layers, with what its adapters add, in the finer of their numbers.

    All layers at once, whose adapters are alike: there are hundreds, and one by one they would take as long as the model.
    """
    weights = torch.stack([_inner(linear).weight for linear in linears])
    if getattr(linears[0], "merged", False):
        return weights
    for adapter in getattr(linears[0], "active_adapters", ()):
        down, up = (
            torch.stack([getattr(linear, side)[adapter].weight for linear in linears]) for side in ("lora_A", "lora_B")
        )
        weights = torch.baddbmm(weights.to(up.dtype), up, down, alpha=linears[0].scaling[adapter])
    return weights


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin
