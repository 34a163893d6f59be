"""Branches: better turns at some positions of a window, learnt in the same forward pass as the window.

A window is a part of an episode's script, as tokens. The tokens of a branch see the window up to the position where the
branch begins, and the branch itself; no other token sees them. So the window is processed once, however many branches it
has. The log probabilities equal those of separate sequences.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import torch
from torch.nn import functional as F  # noqa: N812

from companyos.train.model.forward import log_probabilities
from companyos.train.model.layers import (
    Attend,
    attend_causally,
    causal_model,
    compute_type,
    flash,
    has_flash,
    is_supported,
    rotations_of,
    run_layers,
    shape_of,
    weights_of,
)


class Branch(msgspec.Struct, frozen=True):
    """A better turn, in place of the window's tokens from index `at` on."""

    at: int
    tokens: list[int]


class Tree(msgspec.Struct, frozen=True):
    """A window, its spans (first token and end) that are learnt as they are, and its branches."""

    tokens: list[int]
    spans: list[tuple[int, int]]
    branches: list[Branch] = []

    @property
    def size(self) -> int:
        """Number of tokens that go through a model."""
        return len(self.tokens) + sum(len(branch.tokens) for branch in self.branches)

    @property
    def learnt_tokens(self) -> int:
        """Number of tokens of the window that are learnt."""
        return sum(end - start for start, end in self.spans)

    @property
    def branch_tokens(self) -> int:
        """Number of tokens of branches, which are all learnt."""
        return sum(len(branch.tokens) for branch in self.branches)

    def sequences(self) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return equal sequences without branches, each with its learnt spans: the window, then one for each branch."""
        branch_sequences = [
            ([*self.tokens[: branch.at], *branch.tokens], [(branch.at, branch.at + len(branch.tokens))])
            for branch in self.branches
        ]
        return [(self.tokens, self.spans), *branch_sequences]


class _BranchView(NamedTuple):
    """What a branch sees: `window_length` tokens from `window_start` on, then its own `length` tokens from `start` on.

    The starts are indices into the concatenated tokens of all windows and branches.
    """

    window_start: int
    window_length: int
    start: int
    length: int


def tree_log_probabilities(model: Any, trees: Sequence[Tree]) -> tuple[Any, Any]:
    """Return the log probabilities of all tokens of spans, and those of all tokens of branches, both tree by tree."""
    if not is_supported(model):
        return _separately(model, trees)
    lm = causal_model(model)
    device, dtype = lm.device, compute_type(lm.device)
    lengths = [len(tree.tokens) for tree in trees]
    window_starts = list(accumulate(lengths, initial=0))
    tokens = [token for tree in trees for token in tree.tokens]
    positions = [position for length in lengths for position in range(length)]
    # Every learnt token is a target, and is predicted from the token before it: `sources` has the index of that token.
    targets = [token for tree in trees for start, end in tree.spans for token in tree.tokens[start:end]]
    sources = [
        window_start + index - 1
        for window_start, tree in zip(window_starts, trees, strict=False)
        for span in tree.spans
        for index in range(*span)
    ]
    span_target_count, views = len(targets), list[_BranchView]()
    for window_start, tree in zip(window_starts, trees, strict=False):
        for branch in tree.branches:
            start, length = len(tokens), len(branch.tokens) - 1  # nothing is predicted from its last token
            sources += [window_start + branch.at - 1, *range(start, start + length)]
            targets += branch.tokens
            tokens += branch.tokens[:-1]
            positions += range(branch.at, branch.at + length)
            if length:
                views.append(_BranchView(window_start, branch.at, start, length))
    on_device = partial(torch.tensor, device=device)
    rotation = tuple(x[on_device(positions)] for x in rotations_of(model, max(positions) + 1, dtype))
    attend: Attend = _attend_packed(lengths, views, device) if has_flash(device) else partial(_attend, lengths, views)
    hidden = run_layers(weights_of(model, dtype), shape_of(model), on_device(tokens), rotation, attend)
    logits = F.linear(hidden[on_device(sources)].float(), lm.get_output_embeddings().weight.float())
    logprobs = logits.gather(-1, on_device(targets)[:, None])[:, 0] - logits.logsumexp(-1)
    return logprobs[:span_target_count], logprobs[span_target_count:]


def _separately(model: Any, trees: Sequence[Tree]) -> tuple[Any, Any]:
    """Compute what `tree_log_probabilities` returns, for other architectures, with a separate sequence for each branch."""
    windows = [tree.sequences()[0] for tree in trees]
    branches = [sequence for tree in trees for sequence in tree.sequences()[1:]]

    def logprobs(sequences: Sequence[tuple[list[int], list[tuple[int, int]]]]) -> Any:
        if any(spans for _, spans in sequences):
            return log_probabilities(model, sequences)
        return torch.zeros(0, device=causal_model(model).device)

    return logprobs(windows), logprobs(branches)


def _attend_packed(lengths: Sequence[int], views: Sequence[_BranchView], device: Any) -> Attend:
    """Return an attention function that computes all windows and branches in one call of the kernel.

    A branch has only its own queries. Its keys are copies of those of its window, followed by its own.
    """
    key_indices = [
        index
        for view in views
        for start, length in ((view.window_start, view.window_length), (view.start, view.length))
        for index in range(start, start + length)
    ]
    queries = [*lengths, *(view.length for view in views)]
    keys = [*lengths, *(view.window_length + view.length for view in views)]
    bounds_q, bounds_k = (
        torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device=device) for counts in (queries, keys)
    )
    branch_keys, window_tokens = torch.tensor(key_indices, dtype=torch.int64, device=device), sum(lengths)

    def attend(layer_index: int, q: Any, k: Any, v: Any) -> Any:
        if key_indices:
            k, v = (torch.cat((x[:window_tokens], x.index_select(0, branch_keys))) for x in (k, v))
        return flash(q, k, v, bounds_q, bounds_k, max(queries), max(keys)).flatten(1)

    return attend


def _attend(lengths: Sequence[int], views: Sequence[_BranchView], layer_index: int, q: Any, k: Any, v: Any) -> Any:
    """Compute the attention of windows and branches one after the other, not all in one call of a kernel."""
    window_tokens = sum(lengths)
    outputs = [attend_causally(lengths, layer_index, q[:window_tokens], k[:window_tokens], v[:window_tokens])]
    for view in views:
        window = slice(view.window_start, view.window_start + view.window_length)
        branch = slice(view.start, view.start + view.length)
        keys, values = (torch.cat((x[window], x[branch])) for x in (k, v))
        mask = torch.ones(view.length, len(keys), dtype=torch.bool, device=q.device).tril(view.window_length)
        row = (x.transpose(0, 1)[None] for x in (q[branch], keys, values))
        output = F.scaled_dot_product_attention(*row, attn_mask=mask, enable_gqa=True)
        outputs.append(output[0].transpose(0, 1).flatten(1))
    return torch.cat(outputs)
