"""Detection of repeated calls. Small models easily get into a loop of calls whose reply cannot change."""

from collections import Counter

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import Call

_MAX_REFUSALS = 8  # times in a row that a call is sampled again; then it is made anyway


class Decoding(msgspec.Struct, frozen=True):
    """How calls are sampled. At temperature 0 the most likely token is taken each time.

    `repeats`: a call that already had the same reply this many times, with no write and no wait in between, is sampled
    again, at temperature 1 or more; 0 allows all repeats. Use 3 or more: a fault may strike twice in a row.
    """

    temperature: float = 0.0
    repeats: int = 0


class Repeats:
    """The calls and replies of an episode since the last write or wait, and whether a call may be repeated.

    `limit` is how often a call may have the same reply; 0 means no limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._refusals = 0  # in a row
        self._replies: dict[str, Counter[str]] = {}  # by the line of the call

    @property
    def highest_count(self) -> int:
        """How often the most repeated call had the same reply since the last write or wait."""
        return max((count for replies in self._replies.values() for count in replies.values()), default=0)

    def temperature(self, usual: float) -> float:
        """Return the temperature for the next turn: at least 1 after a refusal, so that another turn can come."""
        return max(usual, 1.0) if self._refusals else usual

    def refuse(self, line: str) -> bool:
        """Return whether this call must be sampled again instead of being made."""
        count = max(self._replies.get(line, {}).values(), default=0)
        if not self._limit or self._refusals >= _MAX_REFUSALS or count < self._limit:
            return False
        self._refusals += 1
        return True

    def record(self, line: str, reply: str, changed_world: bool) -> None:
        """Record the reply to a call. `changed_world` says whether the call wrote something or let time pass."""
        self._refusals = 0
        if changed_world:
            self._replies.clear()
        else:
            self._replies.setdefault(line, Counter())[reply] += 1


def changes_world(call: Call | str, toolbox: Toolbox) -> bool:
    """Return whether a call writes or lets time pass, so that earlier calls may get another reply.

    `call` is a string if the line could not be parsed.
    """
    tool = None if isinstance(call, str) else toolbox.find(call)
    return tool is not None and (tool.writes or tool.method == "wait")
