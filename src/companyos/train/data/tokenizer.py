"""The tokenizer of a model without the model, so that worker processes can encode scripts without torch."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from companyos.train.data.turns import PROMPT, split_turn

_CACHE_ENTRIES = 65536


class Tokenizer:
    """Encodes and decodes the text of scripts.

    Encoded texts (lines and replies) and decoded turns are cached, because many episodes have the same ones. Whole scripts
    are not cached: they would fill the memory. `tokenizer_json` is a tokenizer in the JSON of the `tokenizers` library.
    `working` says whether turns may have working lines before their call (see `turns.py`).
    """

    def __init__(self, tokenizer_json: str, working: bool = False) -> None:
        backend = self._backend = _parsed(tokenizer_json)
        self.working = working
        self._encode_cached: Callable[[str], list[int]] = lru_cache(_CACHE_ENTRIES)(
            lambda text: list(backend.encode(text, add_special_tokens=False).ids)
        )
        self._decode_cached: Callable[[tuple[int, ...]], str] = lru_cache(_CACHE_ENTRIES)(self.decode)

    def encode(self, text: str) -> list[int]:
        return self._encode_cached(text).copy()

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._backend.decode(tokens, skip_special_tokens=False))

    def call_of(self, turn: list[int]) -> tuple[str, int]:
        """Return the line of a turn's call, and the number of tokens before it that are working."""
        text = self._decode_cached(tuple(turn))
        if not self.working:
            return text.strip(), 0
        working, line = split_turn(text)
        if not working:
            return line, 0
        texts = [self._decode_cached((token,)) for token in turn]
        prompts = [index for index in range(1, len(texts)) if texts[index] == PROMPT and "\n" in texts[index - 1]]
        return line, prompts[len(working) - 1] + 1  # each working line is followed by a prompt


@cache
def _parsed(tokenizer_json: str) -> Any:
    from tokenizers import Tokenizer as Backend  # installed with the extra `train`

    return Backend.from_str(tokenizer_json)
