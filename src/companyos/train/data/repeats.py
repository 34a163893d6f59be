"""Repeats: calls that are made again although nothing can have changed. A small model is easily caught in such a loop."""

from collections import Counter

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import Call

_TRIES = 8  # that a call is drawn anew before it is made all the same


class Decoding(msgspec.Struct, frozen=True):
    """How calls are chosen: at temperature 0 by the likeliest token each time.

    `repeats`: a call that has had the same reply so often, with nothing written and no time passed since, is drawn anew, at
    temperature 1 at least; 0: it is made. Three is the least that makes sense: a fault may strike twice running.
    """

    temperature: float = 0.0
    repeats: int = 0


class Repeats:
    """What an episode has asked since anything moved, and whether a call may be made once more.

    `most` is how often a call may have had the same reply; 0: there is no limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tries = 0
        self._replies: dict[str, Counter[str]] = {}

    @property
    def most(self) -> int:
        """How often the most repeated call has had the same reply since anything moved."""
        return max((count for replies in self._replies.values() for count in replies.values()), default=0)

    def temperature(self, usual: float) -> float:
        """At which the next turn is to be drawn: where the last one was refused, one at which another may come."""
        return max(usual, 1.0) if self._tries else usual

    def refuse(self, line: str) -> bool:
        """Whether this call must not be made, but drawn anew."""
        if not self._most or self._tries >= _TRIES or max(self._replies.get(line, {}).values(), default=0) < self._most:
            return False
        self._tries += 1
        return True

    def hear(self, line: str, reply: str, moved: bool) -> None:
        """Takes in the reply to a call that was made."""
        self._tries = 0
        if moved:
            self._replies.clear()
        else:
            self._replies.setdefault(line, Counter())[reply] += 1


def moves(call: Call | str, toolbox: Toolbox) -> bool:
    """Whether a call writes or lets time pass: after that, the same question may have another answer."""
    tool = None if isinstance(call, str) else toolbox.find(call)
    return tool is not None and (tool.writes or tool.method == "wait")
