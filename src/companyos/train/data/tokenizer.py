"""The tokenizer of a model without the model, so that worker processes can encode scripts without torch."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from companyos.train.data.turns import PROMPT, split

_CACHED = 65536  # entries; whole scripts are not cached, because they would fill the memory


class Tokenizer:
    """Encodes and decodes the text of scripts. Caches lines and turns, because many episodes have the same ones.

    `content` is a tokenizer in the JSON of the `tokenizers` library. `working` says whether turns may have working lines
    before their call (see `turns.py`).
    """

    def __init__(self, content: str, working: bool = False) -> None:
        made = self._made = _parsed(content)
        self.working = working
        self._tokens: Callable[[str], list[int]] = lru_cache(_CACHED)(
            lambda text: list(made.encode(text, add_special_tokens=False).ids)
        )
        self._turn: Callable[[tuple[int, ...]], str] = lru_cache(_CACHED)(self.decode)

    def encode(self, text: str) -> list[int]:
        return self._tokens(text).copy()

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._made.decode(tokens, skip_special_tokens=False))

    def call_of(self, turn: list[int]) -> tuple[str, int]:
        """Return the line of a turn's call, and the number of tokens before it that are working."""
        text = self._turn(tuple(turn))
        if not self.working:
            return text.strip(), 0
        working, line = split(text)
        if not working:
            return line, 0
        single = [self._turn((token,)) for token in turn]
        prompts = [n for n in range(1, len(single)) if single[n] == PROMPT and "\n" in single[n - 1]]
        return line, prompts[len(working) - 1] + 1


@cache
def _parsed(content: str) -> Any:
    from tokenizers import Tokenizer as Backend  # comes with an extra

    return Backend.from_str(content)
