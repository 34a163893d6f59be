"""Quotas: how much of a server one token may take, and how often one address may guess a token."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from companyos.serve.errors import OverQuota, TooManySignIns
from companyos.serve.ledger import Ledger

MINUTE = 60.0
WRONG_TOKENS = 30  # from one address within a minute, before it has to wait
_REMEMBERED = 16_384  # addresses, and pairs of an address and a token
_RECOUNT = 10.0  # seconds for which the ledger need not be asked again how many sessions there are
_RECOUNT_FULL = 1.0  # the same while the quota is used up

Clock = Callable[[], float]


class Brake:
    """Makes guessing tokens slow.

    An address that sent `WRONG_TOKENS` wrong ones within a minute is told to wait, and what it sends meanwhile is not even
    looked at, unless that token was right before at this address: many clients may share one behind a proxy.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()  # since when, how many
        self._right: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def check(self, address: str, token: bytes = b"") -> None:
        """Raise `TooManySignIns` for a caller who has to wait."""
        since, count = self._wrong.get(address, (0.0, 0))
        if count >= WRONG_TOKENS and (address, token) not in self._right:
            left = since + MINUTE - self._clock()
            if left > 0:
                raise TooManySignIns(math.ceil(left))

    def wrong(self, address: str) -> None:
        """Note a wrong token."""
        now = self._clock()
        since, count = self._wrong.pop(address, (now, 0))
        self._wrong[address] = (since, count + 1) if now < since + MINUTE else (now, 1)
        _bound(self._wrong)

    def right(self, address: str, token: bytes) -> None:
        """Note a right token."""
        if (address, token) not in self._right:
            self._right[address, token] = None
            _bound(self._right)


class Quotas:
    """What each token takes of one worker: bytes within a minute, and open sockets. Without a token nothing is counted."""

    def __init__(self, most_bytes: int, most_sockets: int, clock: Clock = time.monotonic) -> None:
        self._most_bytes, self._most_sockets = most_bytes, most_sockets
        self._clock = clock
        self._bytes: dict[str, tuple[float, int]] = {}  # since when, how many; there are as many as tokens
        self._sockets: dict[str, int] = {}

    def spend(self, owner: str, size: int) -> None:
        """Note bytes that came in."""
        if owner:
            now = self._clock()
            since, count = self._bytes.get(owner, (now, 0))
            self._bytes[owner] = (since, count + size) if now < since + MINUTE else (now, size)

    def wait(self, owner: str) -> float:
        """Seconds until this token may send again; 0: at once."""
        since, count = self._bytes.get(owner, (0.0, 0))
        return max(0.0, since + MINUTE - self._clock()) if count > self._most_bytes else 0.0

    def check_bytes(self, owner: str) -> None:
        """Raise `OverQuota` for a token that has sent too much."""
        if (wait := self.wait(owner)) > 0:
            raise OverQuota(f"sent {self._most_bytes} bytes a minute to this worker", math.ceil(wait))

    @contextmanager
    def socket(self, owner: str) -> Iterator[None]:
        """Hold a socket open; `OverQuota` where there are too many."""
        if owner and self._sockets.get(owner, 0) >= self._most_sockets:
            raise OverQuota(f"{self._most_sockets} sockets open at this worker", 1)
        self._sockets[owner] = self._sockets.get(owner, 0) + 1
        try:
            yield
        finally:
            self._sockets[owner] -= 1


class SessionQuota:
    """How many sessions of one token the ledger may hold. It is asked now and then; in between, what was begun is added."""

    def __init__(self, most: int, clock: Clock = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._known: dict[str, tuple[float, int]] = {}  # when it was asked, how many there were

    def take(self, ledger: Ledger, owner: str, count: int) -> None:
        """Make room for sessions that are about to begin, or raise `OverQuota`."""
        if not owner:
            return
        asked, known = self._known.get(owner, (-math.inf, 0))
        now = self._clock()
        if now - asked > (_RECOUNT_FULL if known + count > self._most else _RECOUNT):
            asked, known = now, ledger.count(owner)
        full = known + count > self._most
        self._known[owner] = asked, known + (0 if full else count)
        if full:
            raise OverQuota(f"{self._most} sessions; POST /close forgets one", math.ceil(_RECOUNT_FULL))


def _bound(remembered: OrderedDict[str, tuple[float, int]] | OrderedDict[tuple[str, bytes], None]) -> None:
    """Forget the oldest: addresses are many."""
    if len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
