"""The forward pass of models with Llama's architecture, on weights with their adapters merged in.

Sampling and learning use the same layers and the same rounded weights. Otherwise they would be two policies: an adapter in
float32 and the same adapter merged into bfloat16 differ, and a small update can be lost in the rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812

SHAPES = ("llama", "qwen2")  # model types; they differ only in a bias

# An attention function: takes the number of a layer, and queries, keys and values (token × head × size). Returns the
# outputs of all heads, concatenated.
Attend = Callable[[int, Any, Any, Any], Any]


def causal_model(model: Any) -> Any:
    """Return the causal language model itself, without the wrapper that peft puts around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def fits(model: Any) -> bool:
    """Return whether this forward pass supports a model."""
    config = causal_model(model).config
    return config.model_type in SHAPES and config.hidden_act == "silu" and not getattr(config, "use_sliding_window", False)


class ModelShape(NamedTuple):
    """The sizes that cannot be read from the weights."""

    heads: int
    key_heads: int
    size: int  # of a head
    eps: float


def shape_of(model: Any) -> ModelShape:
    config = causal_model(model).config
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return ModelShape(heads, config.num_key_value_heads, size, config.rms_norm_eps)


class Layer(NamedTuple):
    """The weights of one layer. Those with the same input are concatenated."""

    before: Any
    qkv: Any
    bias: Any
    out: Any
    after: Any
    gate_up: Any
    down: Any


class ModelWeights(NamedTuple):
    embedding: Any
    layers: list[Layer]
    norm: Any
    head: Any

    def each(self) -> Iterator[Any]:
        yield from (self.embedding, self.norm, self.head)
        for layer in self.layers:
            yield from (weight for weight in layer if weight is not None)


def weights_of(model: Any, dtype: Any) -> ModelWeights:
    """Return a copy of a model's weights with adapters merged in. Gradients flow through the copy to what is trained."""
    lm = causal_model(model)
    layers = lm.model.layers
    attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    in_three = [[getattr(attention, name) for attention in attentions] for name in ("q_proj", "k_proj", "v_proj")]

    def copied(weight: Any) -> Any:
        return weight.to(dtype, copy=True)

    def beside(*linears: Sequence[Any]) -> Sequence[Any]:
        """Return, for every layer, the concatenated weights of some linear modules."""
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
    return ModelWeights(
        embedding=copied(lm.model.embed_tokens.weight),
        layers=[Layer(*weights) for weights in made],
        norm=copied(lm.model.norm.weight),
        head=copied(lm.get_output_embeddings().weight),
    )


def through(weights: ModelWeights, shape: ModelShape, tokens: Any, turn: tuple[Any, Any], attend: Attend) -> Any:
    """Return the last hidden states of tokens. `turn` has the cosines and sines of their positions.

    `attend` decides which tokens see each other.
    """
    hidden = F.embedding(tokens, weights.embedding)
    before, after = (_compiled(_before), _compiled(_after)) if hidden.is_cuda else (_before, _after)
    cos, sin = (_of_any_number(x[:, None]) for x in turn)
    for number, layer in enumerate(weights.layers):
        q, k, v = before(_of_any_number(hidden), layer.before, layer.qkv, layer.bias, cos, sin, shape)
        seen = _of_any_number(attend(number, q, k, v))
        hidden = after(hidden, seen, layer.out, layer.after, layer.gate_up, layer.down, shape.eps)
    return F.rms_norm(hidden, hidden.shape[-1:], weights.norm, shape.eps)


def _before(hidden: Any, norm: Any, qkv: Any, bias: Any, cos: Any, sin: Any, shape: ModelShape) -> tuple[Any, Any, Any]:
    """Compute the part of a layer before attention: its queries, keys and values."""
    x = F.rms_norm(hidden, hidden.shape[-1:], norm, shape.eps)
    sizes = shape.heads, shape.key_heads, shape.key_heads
    q, k, v = F.linear(x, qkv, bias).unflatten(-1, (sum(sizes), shape.size)).split(sizes, dim=1)
    return _rotated(q, cos, sin), _rotated(k, cos, sin), v


def _after(hidden: Any, seen: Any, out: Any, norm: Any, gate_up: Any, down: Any, eps: float) -> Any:
    """Compute the part of a layer after attention."""
    hidden = hidden + F.linear(seen, out)
    gate, up = F.linear(F.rms_norm(hidden, hidden.shape[-1:], norm, eps), gate_up).chunk(2, dim=-1)
    return hidden + F.linear(F.silu(gate) * up, down)


@cache
def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a part of a layer, because most of its time besides matrix products is memory traffic. All layers share it."""
    made: Callable[..., Any] = torch.compile(part)
    return made


def _of_any_number(tokens: Any) -> Any:
    """Mark the number of tokens as dynamic, so that nothing is compiled for one number only."""
    if tokens.is_cuda:
        torch._dynamo.maybe_mark_dynamic(tokens, 0)
    return tokens


def turns_of(model: Any, places: int, dtype: Any) -> tuple[Any, Any]:
    """Return the cosines and sines of the first `places` positions."""
    lm = causal_model(model)
    like = torch.empty((), dtype=dtype, device=lm.device)
    cos, sin = lm.model.rotary_emb(like, torch.arange(places, device=lm.device)[None])
    return cos[0], sin[0]


def last_hidden_states(model: Any, rows: Sequence[Sequence[int]]) -> Any:
    """Return the last hidden states of rows of tokens, concatenated. Each token sees the tokens before it in its row."""
    lm = causal_model(model)
    dtype, lengths = working_type(lm.device), [len(row) for row in rows]
    if not fits(model):
        width = max(lengths)  # padding comes last, and attention is causal: no mask is needed
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
    """Return whether a device has attention kernels for rows of different lengths: NVIDIA GPUs since Ampere."""
    return bool(device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0))


def causally(lengths: Sequence[int], number: int, q: Any, k: Any, v: Any) -> Any:
    # Each row is a batch of one: without a batch dimension there is no fused kernel, and all scores would be kept in memory.
    rows = zip(*(x.transpose(0, 1)[None].split(list(lengths), dim=2) for x in (q, k, v)), strict=True)
    seen = [F.scaled_dot_product_attention(*row, is_causal=True, enable_gqa=True) for row in rows]
    return torch.cat(seen, dim=2)[0].transpose(0, 1).flatten(1)


def _causally_packed(lengths: Sequence[int], device: Any) -> Attend:
    """Return the same function for all rows at once, in one call of the kernel."""
    bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    longest = max(lengths)

    def attend(number: int, q: Any, k: Any, v: Any) -> Any:
        return flash(q, k, v, bounds, bounds, longest, longest).flatten(1)

    return attend


def flash(q: Any, k: Any, v: Any, from_q: Any, from_k: Any, most_q: int, most_k: int) -> Any:
    """Compute causal attention for many rows at once. `from_q` and `from_k` have the first query and key of each row.

    In a row with more keys than queries, the last query sees all keys, the one before it all but one, and so on.
    """
    return torch.ops.aten._flash_attention_forward(q, k, v, from_q, from_k, most_q, most_k, 0.0, True, False)[0]


def _inner(linear: Any) -> Any:
    return getattr(linear, "base_layer", linear)


def _merged(linears: Sequence[Any]) -> Any:
    """Return the weights of one linear module in all layers, with adapters merged in, in the more precise of their types.

    All layers are merged at once: there are hundreds of modules, and merging them one by one takes as long as the model.
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
