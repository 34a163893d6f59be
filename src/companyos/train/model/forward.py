"""Log probabilities of calls, each after exactly the tokens that the model had seen when it made the call."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch.nn import functional as F  # noqa: N812

from companyos.train.model.layers import causal_model, hidden_states_of_rows

T = TypeVar("T")
Spans = Sequence[tuple[int, int]]  # of each call: the index of its first token, and of the token after its last
_CPU_BATCH_TOKENS = 4096


def log_probabilities(model: Any, windows: Sequence[tuple[list[int], Spans]]) -> Any:
    """Return the log probability of every token of every call. A window is its tokens and the spans of its calls.

    Logits are computed for the tokens of calls only.
    """
    lm = causal_model(model)
    window_starts = accumulate((len(tokens) for tokens, _ in windows), initial=0)
    positions = torch.tensor(
        [
            window_start + position
            for window_start, (_, spans) in zip(window_starts, windows, strict=False)
            for span in spans
            for position in range(*span)
        ]
    )
    targets = torch.tensor([token for tokens, spans in windows for start, end in spans for token in tokens[start:end]])
    positions, targets = positions.to(lm.device), targets.to(lm.device)
    hidden = hidden_states_of_rows(model, [tokens for tokens, _ in windows])
    logits = F.linear(hidden[positions - 1].float(), lm.get_output_embeddings().weight.float())
    return logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)


def batch_limit(device: Any, gpu_tokens: int) -> int:
    """Return how many tokens one forward pass may have: `gpu_tokens` on a GPU, fewer on a CPU, which has less memory."""
    return gpu_tokens if device.type == "cuda" else min(gpu_tokens, _CPU_BATCH_TOKENS)


def by_length(items: Sequence[T], length: Callable[[T], int], max_tokens: int) -> Iterator[list[T]]:
    """Yield batches of items of similar length, longest first, with at most `max_tokens` tokens or one item."""
    batch: list[T] = []
    for item in sorted(items, key=length, reverse=True):
        if batch and (len(batch) + 1) * length(batch[0]) > max_tokens:  # as if all were padded to the first
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
