"""Quotas: how much of the server one token may use, and how many wrong tokens one address may send.

An `owner` is the digest of a token. It is empty if the request is not counted, for example because it has no token.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from companyos.serve.errors import OverQuota, TooManySignIns
from companyos.serve.ledger import Ledger

MINUTE = 60.0
WRONG_TOKENS = 30  # per address and minute, before it has to wait
_MAX_REMEMBERED = 16_384  # addresses, and pairs of an address and a token
_RECOUNT = 10.0  # seconds between two counts of the sessions in the ledger
_RECOUNT_FULL = 1.0  # the same while the quota is used up

Clock = Callable[[], float]


class SignInLimiter:
    """Slows down guessing of tokens.

    An address that sent `WRONG_TOKENS` wrong tokens within a minute has to wait until the minute is over. While it
    waits, its tokens are not checked, except tokens that were valid before at this address: these still work, because many
    clients may share the address of a proxy.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()  # start of the minute, wrong tokens in it
        self._right: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def check(self, address: str, token: bytes = b"") -> None:
        """Raise `TooManySignIns` if this address has to wait."""
        since, count = self._wrong.get(address, (0.0, 0))
        if count >= WRONG_TOKENS and (address, token) not in self._right:
            left = since + MINUTE - self._clock()
            if left > 0:
                raise TooManySignIns(math.ceil(left))

    def wrong(self, address: str) -> None:
        """Record a wrong token."""
        now = self._clock()
        since, count = self._wrong.pop(address, (now, 0))
        self._wrong[address] = (since, count + 1) if now < since + MINUTE else (now, 1)
        _bound(self._wrong)

    def right(self, address: str, token: bytes) -> None:
        """Record a valid token."""
        if (address, token) not in self._right:
            self._right[address, token] = None
            _bound(self._right)


class Quotas:
    """Limits what each token may use of one server process (worker): bytes per minute, and open sockets.

    Requests without a token are not counted.
    """

    def __init__(self, max_bytes: int, max_sockets: int, clock: Clock = time.monotonic) -> None:
        self._max_bytes, self._max_sockets = max_bytes, max_sockets
        self._clock = clock
        self._bytes: dict[str, tuple[float, int]] = {}  # per token: start of the minute, bytes in it
        self._sockets: dict[str, int] = {}

    def spend(self, owner: str, size: int) -> None:
        """Record received bytes."""
        if owner:
            now = self._clock()
            since, count = self._bytes.get(owner, (now, 0))
            self._bytes[owner] = (since, count + size) if now < since + MINUTE else (now, size)

    def wait(self, owner: str) -> float:
        """Return the seconds until this token may send again, 0 if it may now."""
        since, count = self._bytes.get(owner, (0.0, 0))
        return max(0.0, since + MINUTE - self._clock()) if count > self._max_bytes else 0.0

    def check_bytes(self, owner: str) -> None:
        """Raise `OverQuota` if this token has sent too much."""
        if (wait := self.wait(owner)) > 0:
            raise OverQuota(f"{self._max_bytes} bytes per minute and worker", math.ceil(wait))

    @contextmanager
    def socket(self, owner: str) -> Iterator[None]:
        """Count an open socket. Raise `OverQuota` if there are too many."""
        if owner and self._sockets.get(owner, 0) >= self._max_sockets:
            raise OverQuota(f"{self._max_sockets} open sockets per worker", 1)
        self._sockets[owner] = self._sockets.get(owner, 0) + 1
        try:
            yield
        finally:
            self._sockets[owner] -= 1


class SessionQuota:
    """Limits the sessions of one token in the ledger. Counts them from time to time and adds new ones in between."""

    def __init__(self, limit: int, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._known: dict[str, tuple[float, int]] = {}  # when they were counted, how many there were

    def take(self, ledger: Ledger, owner: str, count: int) -> None:
        """Count sessions that are about to begin, or raise `OverQuota`."""
        if not owner:
            return
        counted_at, known = self._known.get(owner, (-math.inf, 0))
        now = self._clock()
        if now - counted_at > (_RECOUNT_FULL if known + count > self._limit else _RECOUNT):
            counted_at, known = now, ledger.count(owner)
        full = known + count > self._limit
        self._known[owner] = counted_at, known + (0 if full else count)
        if full:
            raise OverQuota(f"{self._limit} sessions; POST /close deletes one", math.ceil(_RECOUNT_FULL))


def _bound(remembered: OrderedDict[str, tuple[float, int]] | OrderedDict[tuple[str, bytes], None]) -> None:
    """Drop the oldest entry if there are too many, because any number of addresses may connect."""
    if len(remembered) > _MAX_REMEMBERED:
        remembered.popitem(last=False)
