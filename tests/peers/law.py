"""The contract of every compared environment: episodes run, give the same replies each time, and can be forked."""

from collections.abc import Callable
from typing import Any

from companyos.bench.peers import Peer


def meets_the_contract(peer: Peer, told: Callable[[Any], object]) -> None:
    """Check the contract. `told` returns the part of a reply that is compared."""
    number = len(peer.scripts) - 1
    script = peer.scripts[number]
    whole = _play(peer, peer.begin(peer.open(), number), script, told)
    assert len(whole) >= 2
    assert len(set(map(repr, whole))) > 1, "the replies must not all be equal"
    assert _play(peer, peer.begin(peer.half(0), number), script, told) == whole, (
        "an episode must start anew from the middle of another"
    )
    middle, rest = peer.half(number), script[len(script) // 2 :]
    fork = peer.fork(middle)
    assert _play(peer, fork, rest, told) == whole[-len(rest) :], "a fork must continue as the original would"
    assert _play(peer, middle, rest, told) == whole[-len(rest) :], "a fork must not change the original"
    assert peer.live(0) is not peer.live(0)
    assert peer.step_includes
    assert peer.release.split()[0]


def _play(peer: Peer, env: Any, script: Any, told: Callable[[Any], object]) -> list[object]:
    step = peer.stepper(env)
    return [told(step(action)) for action in script]
