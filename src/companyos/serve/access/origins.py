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
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")  # they change nothing, and browsers show their replies to the same origin only
_MAX_REMEMBERED = 1024  # pairs of a host and an origin


class Origins:
    """Checks `Host` and `Origin`."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = frozenset(name.lower() for name in settings.allowed_hosts)
        self._any_host_allowed = ANY in self._hosts or (not self._hosts and settings.host not in LOOPBACK)
        self._origins = frozenset(settings.cors_origins)
        # Memo table. The key is the pair (Host, Origin); None means that the pair is allowed.
        self._refusals: dict[tuple[bytes, bytes], type[WrongHost] | type[OtherOrigin] | None] = {}

    def check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise `WrongHost` or `OtherOrigin`."""
        writes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        host = headers.get(b"host", b"")
        origin = headers.get(b"origin", b"") if writes else b""
        if (host, origin) not in self._refusals:
            if len(self._refusals) >= _MAX_REMEMBERED:
                self._refusals.clear()
            self._refusals[host, origin] = self._refusal(host.decode("latin-1"), origin.decode("latin-1"))
        refusal = self._refusals[host, origin]
        if refusal is not None:
            raise refusal

    def _refusal(self, host: str, origin: str) -> type[WrongHost] | type[OtherOrigin] | None:
        """Return the error for this pair of headers, or None if the request is allowed. An empty header is not checked."""
        host_name = _host_name(f"//{host}")
        if host and not (self._any_host_allowed or host_name in self._hosts or host_name in LOOPBACK):
            return WrongHost
        from_this_server = _host_and_port(origin) == host.lower()
        from_allowed_site = origin in self._origins or ANY in self._origins or _host_name(origin) in self._hosts
        if origin and not (from_this_server or from_allowed_site):
            return OtherOrigin
        return None


def _host_name(address: str) -> str | None:
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
