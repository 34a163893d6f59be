"""Checks the headers `Host` and `Origin`, against requests that foreign web pages make through a browser.

A page of any site can make a browser send requests to a server on the same machine or network. With DNS rebinding (a host
name whose owner points it to this server) the page can read the replies, too. A browser sends the host name in `Host` and
the site of the page in `Origin`; programs send no `Origin`.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import Scope

from companyos.serve.errors import OtherOrigin, WrongHost
from companyos.serve.ops.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = "*"
_SAFE = ("GET", "HEAD", "OPTIONS")  # they change nothing, and browsers show their replies to the same origin only
_MAX_REMEMBERED = 1024  # pairs of a host and an origin


class Origins:
    """Checks `Host` and `Origin`."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = frozenset(name.lower() for name in settings.allowed_hosts)
        self._any = ANY in self._hosts or (not self._hosts and settings.host not in LOOPBACK)
        self._origins = frozenset(settings.cors_origins)
        self._known: dict[tuple[bytes, bytes], type[WrongHost] | type[OtherOrigin] | None] = {}

    def check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise `WrongHost` or `OtherOrigin`."""
        writes = scope["type"] == "websocket" or scope["method"] not in _SAFE
        asked = headers.get(b"host", b""), headers.get(b"origin", b"") if writes else b""
        if asked not in self._known:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[asked] = self._refusal(asked[0].decode("latin-1"), asked[1].decode("latin-1"))
        refusal = self._known[asked]
        if refusal is not None:
            raise refusal

    def _refusal(self, host: str, origin: str) -> type[WrongHost] | type[OtherOrigin] | None:
        name = _name(f"//{host}")
        if host and not (self._any or name in self._hosts or name in LOOPBACK):
            return WrongHost
        same = origin and _host_and_port(origin) == host.lower()
        if origin and not (same or origin in self._origins or ANY in self._origins or _name(origin) in self._hosts):
            return OtherOrigin
        return None


def _name(address: str) -> str | None:
    """Return the host of an address without its port, or None if it cannot be parsed."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _host_and_port(origin: str) -> str | None:
    """Return host and port of an origin as in the header `Host`, or None if it cannot be parsed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
