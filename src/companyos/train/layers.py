"""Layers: the forward pass of models of Llama's shape, on weights with their adapters merged in.

What plays and what learns go through the same layers on the same numbers. Beside each other, an adapter in float32 and the
same adapter merged into bfloat16 are two policies: what a small step changes can be lost between two numbers.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812

SHAPES = ("llama", "qwen2")  # alike but for a bias

# Queries, keys and values (row × time × head × size) of a layer, by its number, to what its heads saw, side by side.
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

    def copied(weight: Any) -> Any:
        return weight.to(dtype, copy=True)

    def beside(*linears: Any) -> Any:
        return torch.cat([_merged(linear).to(dtype) for linear in linears])

    def layer_of(layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        in_three = attention.q_proj, attention.k_proj, attention.v_proj
        biases = [_inner(linear).bias for linear in in_three]
        return Layer(
            before=copied(layer.input_layernorm.weight),
            qkv=beside(*in_three),
            bias=torch.cat(biases).to(dtype) if biases[0] is not None else None,
            out=beside(attention.o_proj),
            after=copied(layer.post_attention_layernorm.weight),
            gate_up=beside(mlp.gate_proj, mlp.up_proj),
            down=beside(mlp.down_proj),
        )

    return Weights(
        embedding=copied(lm.model.embed_tokens.weight),
        layers=[layer_of(layer) for layer in lm.model.layers],
        norm=copied(lm.model.norm.weight),
        head=copied(lm.get_output_embeddings().weight),
    )


def through(weights: Weights, shape: Shape, tokens: Any, turn: tuple[Any, Any], attend: Attend) -> Any:
    """The last hidden states of tokens (row × time), `turn` being the cosines and sines of their places."""
    hidden = F.embedding(tokens, weights.embedding)
    sizes = shape.heads, shape.key_heads, shape.key_heads
    for number, layer in enumerate(weights.layers):
        x = F.rms_norm(hidden, hidden.shape[-1:], layer.before, shape.eps)
        q, k, v = F.linear(x, layer.qkv, layer.bias).unflatten(-1, (-1, shape.size)).split(sizes, dim=2)
        seen = attend(number, _rotated(q, *turn), _rotated(k, *turn), v)
        hidden = hidden + F.linear(seen, layer.out)
        x = F.rms_norm(hidden, hidden.shape[-1:], layer.after, shape.eps)
        gate, up = F.linear(x, layer.gate_up).chunk(2, dim=-1)
        hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
    return F.rms_norm(hidden, hidden.shape[-1:], weights.norm, shape.eps)


def turns_of(model: Any, places: int, dtype: Any) -> tuple[Any, Any]:
    """The cosines and sines of so many places."""
    lm = causal_model(model)
    like = torch.empty((), dtype=dtype, device=lm.device)
    cos, sin = lm.model.rotary_emb(like, torch.arange(places, device=lm.device)[None])
    return cos[0], sin[0]


def last_hidden_states(model: Any, tokens: Any) -> Any:
    """Of tokens (row × time), each after those before it in its row: to learn from."""
    lm = causal_model(model)
    dtype = working_type(lm.device)
    if not fits(model):
        with torch.autocast(lm.device.type, dtype, enabled=dtype != torch.float32):
            return getattr(lm, lm.base_model_prefix)(input_ids=tokens, use_cache=False).last_hidden_state
    cos, sin = turns_of(model, tokens.shape[1], dtype)
    return through(weights_of(model, dtype), shape_of(model), tokens, (cos[:, None], sin[:, None]), _causally)


def working_type(device: Any) -> Any:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def _causally(number: int, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return seen.transpose(1, 2).flatten(2)


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
