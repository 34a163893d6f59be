"""Branches have the log probabilities and gradients of separate sequences."""

import random
from typing import Any

import pytest
import torch

from companyos.train.model import branches
from companyos.train.model.branches import Branch, Tree, tree_log_probabilities
from companyos.train.model.forward import log_probabilities
from tests.train.tiny_model import tiny_gpt2, tiny_llama, tiny_qwen

torch.set_num_threads(1)


def trees(rng: random.Random) -> list[Tree]:
    """Windows of different lengths, some without spans, some without branches, some branches of one token."""

    def tokens(size: int) -> list[int]:
        return [rng.randrange(260) for _ in range(size)]

    return [
        Tree(tokens(90), [(10, 14), (60, 71)], [Branch(20, tokens(7)), Branch(20, tokens(3)), Branch(88, tokens(12))]),
        Tree(tokens(33), [], [Branch(1, tokens(1)), Branch(33, tokens(9))]),
        Tree(tokens(51), [(30, 51)]),
    ]


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen, tiny_gpt2])
def test_branches_have_the_log_probabilities_of_separate_sequences(make_model: Any) -> None:
    model, trees_under_test = make_model(), trees(random.Random(0))
    span_logprobs, branch_logprobs = tree_log_probabilities(model, trees_under_test)
    separate = [sequence for tree in trees_under_test for sequence in tree.sequences()[1:]]
    assert torch.allclose(
        span_logprobs, log_probabilities(model, [tree.sequences()[0] for tree in trees_under_test]), atol=1e-5
    )
    assert torch.allclose(branch_logprobs, log_probabilities(model, separate), atol=1e-5)
    assert len(span_logprobs) == sum(tree.learnt_tokens for tree in trees_under_test)
    assert len(branch_logprobs) == sum(tree.branch_tokens for tree in trees_under_test)


def flash_in_torch(q: Any, k: Any, v: Any, bounds_q: Any, bounds_k: Any, longest_q: int, longest_k: int) -> Any:
    """Compute what `layers.flash` computes on a GPU, in plain torch and for any dtype."""
    assert (longest_q, longest_k) == (int(bounds_q.diff().max()), int(bounds_k.diff().max()))
    outputs = []
    for row in range(len(bounds_q) - 1):
        queries = q[bounds_q[row] : bounds_q[row + 1]]
        keys, values = (x[bounds_k[row] : bounds_k[row + 1]].repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / q.shape[-1] ** 0.5
        ahead = torch.ones_like(scores[0], dtype=torch.bool).triu(1 + len(keys) - len(queries))
        outputs.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(ahead, -torch.inf).softmax(-1), values))
    return torch.cat(outputs)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_branches_packed_for_a_gpu_have_the_same_log_probabilities_and_gradients(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for packed in (False, True):
        monkeypatch.setattr(branches, "has_flash", lambda device, packed=packed: packed)
        monkeypatch.setattr(branches, "flash", flash_in_torch)
        model = make_model()
        logprobs = torch.cat(tree_log_probabilities(model, trees(random.Random(3))))
        logprobs.sum().backward()
        results.append(
            (logprobs, torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
        )
    (unpacked, gradient), (packed_logprobs, packed_gradient) = results
    assert torch.allclose(unpacked, packed_logprobs, atol=1e-5)
    assert torch.allclose(gradient, packed_gradient, rtol=1e-3, atol=1e-3)


def test_branches_have_the_gradients_of_separate_sequences() -> None:
    trees_under_test, gradients = trees(random.Random(1)), []
    for in_one_pass in (True, False):
        model = tiny_llama()
        if in_one_pass:
            logprobs = torch.cat(tree_log_probabilities(model, trees_under_test))
        else:
            logprobs = log_probabilities(model, [sequence for tree in trees_under_test for sequence in tree.sequences()])
        logprobs.sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-3)


def test_a_window_does_not_see_its_branches() -> None:
    model, (tree, *_) = tiny_llama(), trees(random.Random(2))
    without_branches = Tree(tree.tokens, tree.spans)
    assert torch.allclose(
        tree_log_probabilities(model, [tree])[0], tree_log_probabilities(model, [without_branches])[0], atol=1e-5
    )
