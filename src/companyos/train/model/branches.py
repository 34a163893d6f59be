"""Branches: better turns at some places of a window, learnt in the same forward pass as the window.

The tokens of a branch see the window up to the branch's place and the branch itself; nothing else sees them. So the window
is processed once, however many branches it has. The log probabilities equal those of separate sequences.
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
    causal_model,
    causally,
    fits,
    flash,
    has_flash,
    shape_of,
    through,
    turns_of,
    weights_of,
    working_type,
)


class Branch(msgspec.Struct, frozen=True):
    """A better turn, in place of the window's tokens from `at` on."""

    at: int
    tokens: list[int]


class Tree(msgspec.Struct, frozen=True):
    """A window, the spans of it that are learnt as they are, and its branches."""

    tokens: list[int]
    spans: list[tuple[int, int]]
    branches: list[Branch] = []

    @property
    def size(self) -> int:
        """Number of tokens that go through a model."""
        return len(self.tokens) + sum(len(branch.tokens) for branch in self.branches)

    @property
    def learnt(self) -> int:
        """Number of tokens of the window that are learnt."""
        return sum(end - start for start, end in self.spans)

    @property
    def branched(self) -> int:
        """Number of tokens of branches, which are all learnt."""
        return sum(len(branch.tokens) for branch in self.branches)

    def sequences(self) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the same as sequences without branches: the window, then a sequence for each branch."""
        apart = [([*self.tokens[: one.at], *one.tokens], [(one.at, one.at + len(one.tokens))]) for one in self.branches]
        return [(self.tokens, self.spans), *apart]


class _BranchView(NamedTuple):
    """The keys of a branch: `length` tokens of its window from `first` on, then its own `size` tokens from `at` on."""

    first: int
    length: int
    at: int
    size: int


def tree_log_probabilities(model: Any, trees: Sequence[Tree]) -> tuple[Any, Any]:
    """Return the log probabilities of all tokens of spans, and those of all tokens of branches, both tree by tree."""
    if not fits(model):
        return _apart(model, trees)
    lm = causal_model(model)
    device, dtype = lm.device, working_type(lm.device)
    lengths = [len(tree.tokens) for tree in trees]
    firsts = list(accumulate(lengths, initial=0))
    tokens = [token for tree in trees for token in tree.tokens]
    places = [place for length in lengths for place in range(length)]
    before = [at - 1 + n for at, tree in zip(firsts, trees, strict=False) for span in tree.spans for n in range(*span)]
    said = [token for tree in trees for start, end in tree.spans for token in tree.tokens[start:end]]
    stems, seen = len(said), list[_BranchView]()
    for first, tree in zip(firsts, trees, strict=False):
        for branch in tree.branches:
            at, size = len(tokens), len(branch.tokens) - 1  # nothing is predicted from its last token
            before += [first + branch.at - 1, *range(at, at + size)]
            said += branch.tokens
            tokens += branch.tokens[:-1]
            places += range(branch.at, branch.at + size)
            if size:
                seen.append(_BranchView(first, branch.at, at, size))
    sent = partial(torch.tensor, device=device)
    turn = tuple(x[sent(places)] for x in turns_of(model, max(places) + 1, dtype))
    attend: Attend = _packed(lengths, seen, device) if has_flash(device) else partial(_one_by_one, lengths, seen)
    hidden = through(weights_of(model, dtype), shape_of(model), sent(tokens), turn, attend)
    logits = F.linear(hidden[sent(before)].float(), lm.get_output_embeddings().weight.float())
    likely = logits.gather(-1, sent(said)[:, None])[:, 0] - logits.logsumexp(-1)
    return likely[:stems], likely[stems:]


def _apart(model: Any, trees: Sequence[Tree]) -> tuple[Any, Any]:
    """Compute the same for a model of another architecture, with a separate sequence for each branch."""
    stems = [tree.sequences()[0] for tree in trees]
    twigs = [one for tree in trees for one in tree.sequences()[1:]]
    nothing = torch.zeros(0, device=causal_model(model).device)
    found = [log_probabilities(model, some) if any(spans for _, spans in some) else nothing for some in (stems, twigs)]
    return found[0], found[1]


def _packed(lengths: Sequence[int], seen: Sequence[_BranchView], device: Any) -> Attend:
    """Attend to all rows in one call of the kernel. A branch has its own queries, and its window's keys before its own."""
    index = [n for one in seen for n in (*range(one.first, one.first + one.length), *range(one.at, one.at + one.size))]
    asking = [*lengths, *(one.size for one in seen)]
    looked = [*lengths, *(one.length + one.size for one in seen)]
    from_q, from_k = (torch.tensor([0, *accumulate(sizes)], dtype=torch.int32, device=device) for sizes in (asking, looked))
    gathered, whole = torch.tensor(index, dtype=torch.int64, device=device), sum(lengths)
    most_q, most_k = max(asking), max(looked)

    def attend(number: int, q: Any, k: Any, v: Any) -> Any:
        if index:
            k, v = (torch.cat((x[:whole], x.index_select(0, gathered))) for x in (k, v))
        return flash(q, k, v, from_q, from_k, most_q, most_k).flatten(1)

    return attend


def _one_by_one(lengths: Sequence[int], seen: Sequence[_BranchView], number: int, q: Any, k: Any, v: Any) -> Any:
    """Compute the same row by row."""
    whole = sum(lengths)
    found = [causally(lengths, number, q[:whole], k[:whole], v[:whole])]
    for one in seen:
        ours = slice(one.at, one.at + one.size)
        keys, values = (torch.cat((x[one.first : one.first + one.length], x[ours])) for x in (k, v))
        mask = torch.ones(one.size, one.length + one.size, dtype=torch.bool, device=q.device).tril(one.length)
        row = (x.transpose(0, 1)[None] for x in (q[ours], keys, values))
        here = F.scaled_dot_product_attention(*row, attn_mask=mask, enable_gqa=True)
        found.append(here[0].transpose(0, 1).flatten(1))
    return torch.cat(found)
