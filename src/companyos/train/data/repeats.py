"""Detection of repeated calls. Small models easily get caught in a loop of calls whose reply cannot change."""

from collections import Counter

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import Call

_TRIES = 8  # times that a call is sampled again before it is made anyway


class Decoding(msgspec.Struct, frozen=True):
    """How calls are sampled. At temperature 0 the most likely token is taken each time.

    `repeats`: a call that already had the same reply this many times, with no write and no wait in between, is sampled
    again, at temperature 1 or more; 0 allows all repeats. Use 3 or more: a fault may strike twice in a row.
    """

    temperature: float = 0.0
    repeats: int = 0


class Repeats:
    """The calls and replies of an episode since the last write or wait, and whether a call may be repeated.

    `most` is how often a call may have the same reply; 0 means no limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tries = 0
        self._replies: dict[str, Counter[str]] = {}

    @property
    def most(self) -> int:
        """The count of the most repeated call and reply since the last write or wait."""
        return max((count for replies in self._replies.values() for count in replies.values()), default=0)

    def temperature(self, usual: float) -> float:
        """Return the temperature for the next turn: at least 1 after a refusal, so that another turn can come."""
        return max(usual, 1.0) if self._tries else usual

    def refuse(self, line: str) -> bool:
        """Return whether this call must be sampled again instead of being made."""
        if not self._most or self._tries >= _TRIES or max(self._replies.get(line, {}).values(), default=0) < self._most:
            return False
        self._tries += 1
        return True

    def hear(self, line: str, reply: str, moved: bool) -> None:
        """Record the reply to a call. `moved` says whether the call wrote something or let time pass."""
        self._tries = 0
        if moved:
            self._replies.clear()
        else:
            self._replies.setdefault(line, Counter())[reply] += 1


def moves(call: Call | str, toolbox: Toolbox) -> bool:
    """Return whether a call writes or lets time pass. After that, the same call may have another reply."""
    tool = None if isinstance(call, str) else toolbox.find(call)
    return tool is not None and (tool.writes or tool.method == "wait")
