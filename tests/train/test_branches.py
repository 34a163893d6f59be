"""Branches are as likely as the same turns in sequences of their own, and teach a model the same."""

import random
from typing import Any

import pytest
import torch

from companyos.train.model import branches
from companyos.train.model.branches import Branch, Tree, tree_log_probabilities
from companyos.train.model.forward import log_probabilities
from tests.train.tiny_model import tiny_gpt2, tiny_llama, tiny_qwen

torch.set_num_threads(1)


def trees(luck: random.Random) -> list[Tree]:
    """Windows of different lengths, some without spans, some without branches, some branches of one token."""

    def tokens(size: int) -> list[int]:
        return [luck.randrange(260) for _ in range(size)]

    return [
        Tree(tokens(90), [(10, 14), (60, 71)], [Branch(20, tokens(7)), Branch(20, tokens(3)), Branch(88, tokens(12))]),
        Tree(tokens(33), [], [Branch(1, tokens(1)), Branch(33, tokens(9))]),
        Tree(tokens(51), [(30, 51)]),
    ]


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen, tiny_gpt2])
def test_branches_are_as_likely_as_separate_sequences(make_model: Any) -> None:
    model, made = make_model(), trees(random.Random(0))
    stems, twigs = tree_log_probabilities(model, made)
    apart = [one for tree in made for one in tree.sequences()[1:]]
    assert torch.allclose(stems, log_probabilities(model, [tree.sequences()[0] for tree in made]), atol=1e-5)
    assert torch.allclose(twigs, log_probabilities(model, apart), atol=1e-5)
    assert len(stems) == sum(tree.learnt for tree in made)
    assert len(twigs) == sum(tree.branched for tree in made)


def many_rows(q: Any, k: Any, v: Any, from_q: Any, from_k: Any, most_q: int, most_k: int) -> Any:
    """What `layers.flash` does on a GPU, in plain torch, for any type of number."""
    assert (most_q, most_k) == (int(from_q.diff().max()), int(from_k.diff().max()))
    seen = []
    for row in range(len(from_q) - 1):
        queries = q[from_q[row] : from_q[row + 1]]
        keys, values = (x[from_k[row] : from_k[row + 1]].repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / q.shape[-1] ** 0.5
        ahead = torch.ones_like(scores[0], dtype=torch.bool).triu(1 + len(keys) - len(queries))
        seen.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(ahead, -torch.inf).softmax(-1), values))
    return torch.cat(seen)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_branches_packed_for_a_gpu_are_as_likely_and_teach_the_same(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for packed in (False, True):
        monkeypatch.setattr(branches, "has_flash", lambda device, packed=packed: packed)
        monkeypatch.setattr(branches, "flash", many_rows)
        model = make_model()
        likely = torch.cat(tree_log_probabilities(model, trees(random.Random(3))))
        likely.sum().backward()
        found.append(
            (likely, torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
        )
    (one_by_one, gradient), (together, same_gradient) = found
    assert torch.allclose(one_by_one, together, atol=1e-5)
    assert torch.allclose(gradient, same_gradient, rtol=1e-3, atol=1e-3)


def test_branches_teach_what_separate_sequences_teach() -> None:
    made, gradients = trees(random.Random(1)), []
    for together in (True, False):
        model = tiny_llama()
        if together:
            found = torch.cat(tree_log_probabilities(model, made))
        else:
            found = log_probabilities(model, [one for tree in made for one in tree.sequences()])
        found.sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-3)


def test_a_window_does_not_see_its_branches() -> None:
    model, (tree, *_) = tiny_llama(), trees(random.Random(2))
    bare = Tree(tree.tokens, tree.spans)
    assert torch.allclose(tree_log_probabilities(model, [tree])[0], tree_log_probabilities(model, [bare])[0], atol=1e-5)
