"""The forward pass of models with Llama's architecture, on weights with their adapters merged in.

Sampling and learning use the same layers and the same rounded weights. Otherwise they would be two policies: an adapter in
float32 and the same adapter merged into bfloat16 give different outputs. A small update could change the policy that learns,
while rounding hides it from the policy that samples.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812

MODEL_TYPES = ("llama", "qwen2")  # they differ only in a bias

# An attention function: takes the index of a layer, and queries, keys and values (token × head × head size). Returns the
# outputs of all heads, concatenated.
Attend = Callable[[int, Any, Any, Any], Any]


def causal_model(model: Any) -> Any:
    """Return the causal language model itself, without the wrapper that peft puts around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def is_supported(model: Any) -> bool:
    """Return whether this forward pass supports a model."""
    config = causal_model(model).config
    return (
        config.model_type in MODEL_TYPES and config.hidden_act == "silu" and not getattr(config, "use_sliding_window", False)
    )


class ModelShape(NamedTuple):
    """The sizes that cannot be read from the weights."""

    heads: int
    kv_heads: int
    head_size: int
    eps: float  # of the norms


def shape_of(model: Any) -> ModelShape:
    """Return the sizes of a model."""
    config = causal_model(model).config
    heads = config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return ModelShape(heads, config.num_key_value_heads, head_size, config.rms_norm_eps)


class Layer(NamedTuple):
    """The weights of one layer. Those with the same input are concatenated."""

    attention_norm: Any
    qkv: Any
    bias: Any  # of queries, keys and values; None if the model has none
    out: Any
    mlp_norm: Any
    gate_up: Any
    down: Any


class ModelWeights(NamedTuple):
    """All weights of a model."""

    embedding: Any
    layers: list[Layer]
    norm: Any
    head: Any

    def tensors(self) -> Iterator[Any]:
        """Yield every weight, always in the same order."""
        yield from (self.embedding, self.norm, self.head)
        for layer in self.layers:
            yield from (weight for weight in layer if weight is not None)


def weights_of(model: Any, dtype: Any) -> ModelWeights:
    """Return a copy of a model's weights with adapters merged in. Gradients flow through the copy to what is trained."""
    lm = causal_model(model)
    layers = lm.model.layers
    attentions, mlps = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    projections = [[getattr(attention, name) for attention in attentions] for name in ("q_proj", "k_proj", "v_proj")]

    def copied(weight: Any) -> Any:
        return weight.to(dtype, copy=True)

    def concatenated(*modules: Sequence[Any]) -> Sequence[Any]:
        """Return, for every layer, the concatenated weights of its linear modules of some kinds.

        Each argument is one kind: a list with one module per layer.
        """
        by_layer: Sequence[Any] = torch.cat([_merged(linears) for linears in modules], dim=1).to(dtype).unbind()
        return by_layer

    def biases() -> Sequence[Any]:
        if _inner(projections[0][0]).bias is None:
            return [None] * len(layers)
        by_layer = zip(*projections, strict=True)
        return [torch.cat([_inner(linear).bias for linear in linears]).to(dtype) for linears in by_layer]

    weights_by_layer = zip(  # in the order of the fields of `Layer`
        [copied(layer.input_layernorm.weight) for layer in layers],
        concatenated(*projections),
        biases(),
        concatenated([attention.o_proj for attention in attentions]),
        [copied(layer.post_attention_layernorm.weight) for layer in layers],
        concatenated([mlp.gate_proj for mlp in mlps], [mlp.up_proj for mlp in mlps]),
        concatenated([mlp.down_proj for mlp in mlps]),
        strict=True,
    )
    return ModelWeights(
        embedding=copied(lm.model.embed_tokens.weight),
        layers=[Layer(*weights) for weights in weights_by_layer],
        norm=copied(lm.model.norm.weight),
        head=copied(lm.get_output_embeddings().weight),
    )


def run_layers(weights: ModelWeights, shape: ModelShape, tokens: Any, rotation: tuple[Any, Any], attend: Attend) -> Any:
    """Run tokens through all layers, and return their last hidden states. `rotation` has the cosines and sines of positions.

    `attend` decides which tokens see each other.
    """
    hidden = F.embedding(tokens, weights.embedding)
    before_attention, after_attention = _queries_keys_values, _after_attention
    if hidden.is_cuda:
        before_attention, after_attention = _compiled(before_attention), _compiled(after_attention)
    cos, sin = (_with_dynamic_length(x[:, None]) for x in rotation)
    for index, layer in enumerate(weights.layers):
        hidden = _with_dynamic_length(hidden)
        q, k, v = before_attention(hidden, layer.attention_norm, layer.qkv, layer.bias, cos, sin, shape)
        heads = _with_dynamic_length(attend(index, q, k, v))
        hidden = after_attention(hidden, heads, layer.out, layer.mlp_norm, layer.gate_up, layer.down, shape.eps)
    return F.rms_norm(hidden, hidden.shape[-1:], weights.norm, shape.eps)


def _queries_keys_values(
    hidden: Any, norm: Any, qkv: Any, bias: Any, cos: Any, sin: Any, shape: ModelShape
) -> tuple[Any, Any, Any]:
    """Compute the part of a layer before attention. Return its queries, keys and values."""
    x = F.rms_norm(hidden, hidden.shape[-1:], norm, shape.eps)
    sizes = shape.heads, shape.kv_heads, shape.kv_heads
    q, k, v = F.linear(x, qkv, bias).unflatten(-1, (sum(sizes), shape.head_size)).split(sizes, dim=1)
    return _rotated(q, cos, sin), _rotated(k, cos, sin), v


def _after_attention(hidden: Any, heads: Any, out: Any, norm: Any, gate_up: Any, down: Any, eps: float) -> Any:
    """Compute the part of a layer after attention, from the outputs of its heads. Return the new hidden states."""
    hidden = hidden + F.linear(heads, out)
    gate, up = F.linear(F.rms_norm(hidden, hidden.shape[-1:], norm, eps), gate_up).chunk(2, dim=-1)
    return hidden + F.linear(F.silu(gate) * up, down)


@cache
def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a part of a layer, once for all layers. Outside matrix products, compiled code moves less memory."""
    compiled: Callable[..., Any] = torch.compile(part)
    return compiled


def _with_dynamic_length(tokens: Any) -> Any:
    """Mark the number of tokens as dynamic, so that the compiled code works for any number of them."""
    if tokens.is_cuda:
        torch._dynamo.maybe_mark_dynamic(tokens, 0)
    return tokens


def rotations_of(model: Any, positions: int, dtype: Any) -> tuple[Any, Any]:
    """Return the cosines and sines of rotary embedding for the first `positions` positions."""
    lm = causal_model(model)
    example = torch.empty((), dtype=dtype, device=lm.device)  # `rotary_emb` takes type and device from it
    cos, sin = lm.model.rotary_emb(example, torch.arange(positions, device=lm.device)[None])
    return cos[0], sin[0]


def hidden_states_of_rows(model: Any, rows: Sequence[Sequence[int]]) -> Any:
    """Return the last hidden states of rows of tokens, concatenated. Each token sees the tokens before it in its row."""
    lm = causal_model(model)
    dtype, lengths = compute_type(lm.device), [len(row) for row in rows]
    if not is_supported(model):
        width = max(lengths)  # padding comes last, and attention is causal: no mask is needed
        padded = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=lm.device)
        with torch.autocast(lm.device.type, dtype, enabled=dtype != torch.float32):
            padded_states = getattr(lm, lm.base_model_prefix)(input_ids=padded, use_cache=False).last_hidden_state
        return torch.cat([states[:length] for states, length in zip(padded_states, lengths, strict=True)])
    tokens = torch.tensor([token for row in rows for token in row], device=lm.device)
    rotation = tuple(torch.cat([x[:length] for length in lengths]) for x in rotations_of(model, max(lengths), dtype))
    attend = _attend_causally_packed(lengths, lm.device) if has_flash(lm.device) else partial(attend_causally, lengths)
    return run_layers(weights_of(model, dtype), shape_of(model), tokens, rotation, attend)


def compute_type(device: Any) -> Any:
    """Return the type of the weights and hidden states on a device."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def has_flash(device: Any) -> bool:
    """Return whether a device has attention kernels for rows of different lengths: NVIDIA GPUs since Ampere."""
    return bool(device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0))


def attend_causally(lengths: Sequence[int], layer_index: int, q: Any, k: Any, v: Any) -> Any:
    """Compute attention for concatenated rows of these lengths. Each token sees the tokens before it in its row."""
    # Each row is a batch of one: without a batch dimension there is no fused kernel, and all scores would be kept in memory.
    rows = zip(*(x.transpose(0, 1)[None].split(list(lengths), dim=2) for x in (q, k, v)), strict=True)
    heads = [F.scaled_dot_product_attention(*row, is_causal=True, enable_gqa=True) for row in rows]
    return torch.cat(heads, dim=2)[0].transpose(0, 1).flatten(1)


def _attend_causally_packed(lengths: Sequence[int], device: Any) -> Attend:
    """Return a function like `attend_causally` that computes all rows in one call of the kernel."""
    bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    longest = max(lengths)

    def attend(layer_index: int, q: Any, k: Any, v: Any) -> Any:
        return flash(q, k, v, bounds, bounds, longest, longest).flatten(1)

    return attend


def flash(q: Any, k: Any, v: Any, bounds_q: Any, bounds_k: Any, longest_q: int, longest_k: int) -> Any:
    """Compute causal attention for many concatenated rows at once.

    `bounds_q` has the index of the first query of each row, and at the end the number of all queries; `bounds_k` has that
    for keys. `longest_q` and `longest_k` are the largest numbers of queries and of keys in a row.
    In a row with more keys than queries, the last query sees all keys, the one before it all but one, and so on.
    """
    dropout, causal, return_mask = 0.0, True, False
    return torch.ops.aten._flash_attention_forward(
        q, k, v, bounds_q, bounds_k, longest_q, longest_k, dropout, causal, return_mask
    )[0]


def _inner(linear: Any) -> Any:
    """Return a linear module without its adapter."""
    return getattr(linear, "base_layer", linear)


def _merged(linears: Sequence[Any]) -> Any:
    """Return the weights of one linear module in all layers, with adapters merged in.

    The result has the type of the adapter, which peft keeps in float32, or that of the module if there is no adapter. All
    layers are merged at once, because merging hundreds of modules one by one takes as long as the forward pass.
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
    """Apply rotary position embedding to queries or keys."""
    first_half, second_half = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second_half, first_half), dim=-1) * sin
