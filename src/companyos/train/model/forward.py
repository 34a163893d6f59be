"""Log probabilities of calls, each after exactly the tokens that the player had seen."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch.nn import functional as F  # noqa: N812

from companyos.train.model.layers import causal_model, last_hidden_states

T = TypeVar("T")
Spans = Sequence[tuple[int, int]]  # the first token of each call, and the token after its last
_ON_A_PROCESSOR = 4096  # tokens in one batch on a CPU


def log_probabilities(model: Any, windows: Sequence[tuple[list[int], Spans]]) -> Any:
    """Return the log probability of every token of every call. Logits are computed for these tokens only."""
    lm = causal_model(model)
    firsts = accumulate((len(tokens) for tokens, _ in windows), initial=0)
    places = torch.tensor(
        [
            first + place
            for first, (_, spans) in zip(firsts, windows, strict=False)
            for span in spans
            for place in range(*span)
        ]
    )
    said = torch.tensor([token for tokens, spans in windows for start, end in spans for token in tokens[start:end]])
    places, said = places.to(lm.device), said.to(lm.device)
    hidden = last_hidden_states(model, [tokens for tokens, _ in windows])
    logits = F.linear(hidden[places - 1].float(), lm.get_output_embeddings().weight.float())
    return logits.gather(-1, said[:, None])[:, 0] - logits.logsumexp(-1)


def fitting(device: Any, most: int) -> int:
    """Return how many tokens go through a model at once: `most` on a GPU, fewer on a CPU, which would run out of memory."""
    return most if device.type == "cuda" else min(most, _ON_A_PROCESSOR)


def by_length(things: Sequence[T], length: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield batches of items of similar length, longest first, with at most `most` tokens or one item."""
    some: list[T] = []
    for thing in sorted(things, key=length, reverse=True):
        if some and (len(some) + 1) * length(some[0]) > most:
            yield some
            some = []
        some.append(thing)
    if some:
        yield some
