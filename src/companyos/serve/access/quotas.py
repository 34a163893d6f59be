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

MINUTE = 60.0  # seconds
MAX_WRONG_TOKENS = 30  # per address and minute, before it has to wait
_MAX_REMEMBERED = 16_384  # addresses, and pairs of an address and a token
_RECOUNT_SECONDS = 10.0  # between two counts of the sessions of a token in the ledger
_RECOUNT_SECONDS_WHEN_FULL = 1.0  # the same while the quota is used up

Clock = Callable[[], float]


class SignInLimiter:
    """Slows down guessing of tokens.

    An address that sent `MAX_WRONG_TOKENS` wrong tokens within a minute has to wait until the minute is over. While it
    waits, its tokens are not checked, except tokens that were valid before at this address: these still work, because many
    clients may share the address of a proxy.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._wrong_tokens: OrderedDict[str, tuple[float, int]] = OrderedDict()  # per address: start of the minute, count
        self._valid_tokens: OrderedDict[tuple[str, bytes], None] = OrderedDict()  # pairs of an address and a token

    def check(self, address: str, token: bytes = b"") -> None:
        """Raise `TooManySignIns` if this address has to wait."""
        minute_start, count = self._wrong_tokens.get(address, (0.0, 0))
        if count >= MAX_WRONG_TOKENS and (address, token) not in self._valid_tokens:
            wait = minute_start + MINUTE - self._clock()
            if wait > 0:
                raise TooManySignIns(math.ceil(wait))

    def record_wrong(self, address: str) -> None:
        """Record a wrong token."""
        now = self._clock()
        minute_start, count = self._wrong_tokens.pop(address, (now, 0))
        self._wrong_tokens[address] = (minute_start, count + 1) if now < minute_start + MINUTE else (now, 1)
        _drop_oldest(self._wrong_tokens)

    def record_valid(self, address: str, token: bytes) -> None:
        """Record a valid token."""
        if (address, token) not in self._valid_tokens:
            self._valid_tokens[address, token] = None
            _drop_oldest(self._valid_tokens)


class Quotas:
    """Limits what each token may use of one server process (worker): bytes per minute, and open sockets.

    Requests without a token are not counted.
    """

    def __init__(self, max_bytes: int, max_sockets: int, clock: Clock = time.monotonic) -> None:
        self._max_bytes, self._max_sockets = max_bytes, max_sockets
        self._clock = clock
        self._bytes: dict[str, tuple[float, int]] = {}  # per token: start of the minute, bytes in it
        self._sockets: dict[str, int] = {}

    def record_bytes(self, owner: str, size: int) -> None:
        """Record received bytes."""
        if owner:
            now = self._clock()
            minute_start, count = self._bytes.get(owner, (now, 0))
            self._bytes[owner] = (minute_start, count + size) if now < minute_start + MINUTE else (now, size)

    def seconds_to_wait(self, owner: str) -> float:
        """Return the seconds until this token may send again, 0 if it may now."""
        minute_start, count = self._bytes.get(owner, (0.0, 0))
        return max(0.0, minute_start + MINUTE - self._clock()) if count > self._max_bytes else 0.0

    def check_bytes(self, owner: str) -> None:
        """Raise `OverQuota` if this token has sent too much."""
        if (wait := self.seconds_to_wait(owner)) > 0:
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
        self._counts: dict[str, tuple[float, int]] = {}  # per token: when its sessions were counted, how many there were

    def take(self, ledger: Ledger, owner: str, count: int) -> None:
        """Add sessions that are about to begin, or raise `OverQuota` if they would be too many."""
        if not owner:
            return
        counted_at, sessions = self._counts.get(owner, (-math.inf, 0))
        now = self._clock()
        if now - counted_at > (_RECOUNT_SECONDS_WHEN_FULL if sessions + count > self._limit else _RECOUNT_SECONDS):
            counted_at, sessions = now, ledger.count(owner)
        full = sessions + count > self._limit
        self._counts[owner] = counted_at, sessions + (0 if full else count)
        if full:
            raise OverQuota(f"{self._limit} sessions; POST /close deletes one", math.ceil(_RECOUNT_SECONDS_WHEN_FULL))


def _drop_oldest(remembered: OrderedDict[str, tuple[float, int]] | OrderedDict[tuple[str, bytes], None]) -> None:
    """Drop the oldest entry if there are too many, because any number of addresses may connect."""
    if len(remembered) > _MAX_REMEMBERED:
        remembered.popitem(last=False)
