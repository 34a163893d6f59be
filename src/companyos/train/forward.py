"""Forward passes: how likely a model finds calls, each after exactly what was before whoever said it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.nn import functional as F  # noqa: N812

from companyos.train.layers import causal_model, last_hidden_states

T = TypeVar("T")
Spans = Sequence[tuple[int, int]]  # where in some tokens calls begin and end


def log_probabilities(model: Any, windows: Sequence[tuple[list[int], Spans]]) -> Any:
    """Of every token of every call, one after the other; for no other token is the vocabulary gone through."""
    lm = causal_model(model)
    width = max(len(tokens) for tokens, _ in windows)
    # Padded behind, and nobody looks ahead: no mask is needed.
    padded = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens, _ in windows])
    at = [
        number * width + place
        for number, (_, spans) in enumerate(windows)
        for start, end in spans
        for place in range(start, end)
    ]
    places, device = torch.tensor(at), lm.device
    said = padded.flatten()[places].to(device)
    hidden = last_hidden_states(model, padded.to(device))
    logits = F.linear(hidden.flatten(0, 1)[places.to(device) - 1].float(), lm.get_output_embeddings().weight.float())
    return logits.gather(-1, said[:, None])[:, 0] - logits.logsumexp(-1)


def by_length(things: Sequence[T], length: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Things of like length together, the longest first: so many tokens at most at once, padding included, or one thing."""
    some: list[T] = []
    for thing in sorted(things, key=length, reverse=True):
        if some and (len(some) + 1) * length(some[0]) > most:
            yield some
            some = []
        some.append(thing)
    if some:
        yield some
