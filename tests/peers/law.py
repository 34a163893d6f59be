"""What every side of the race keeps, or the race would be none: its episodes run, alike each time, and forks are forks."""

from collections.abc import Callable
from typing import Any

from companyos.bench.peers import Peer


def keeps_the_law(peer: Peer, told: Callable[[Any], object]) -> None:
    """`told` is what is compared of a reply."""
    number = len(peer.scripts) - 1
    script = peer.scripts[number]
    whole = _play(peer, peer.begin(peer.open(), number), script, told)
    assert len(whole) >= 2
    assert len(set(map(repr, whole))) > 1, "something happens in it"
    assert _play(peer, peer.begin(peer.half(0), number), script, told) == whole, "it begins anew in the midst of another"
    middle, rest = peer.half(number), script[len(script) // 2 :]
    fork = peer.fork(middle)
    assert _play(peer, fork, rest, told) == whole[-len(rest) :], "a fork goes on as the original would"
    assert _play(peer, middle, rest, told) == whole[-len(rest) :], "and what it did is nothing to the original"
    assert peer.live(0) is not peer.live(0)
    assert peer.includes
    assert peer.release.split()[0]


def _play(peer: Peer, env: Any, script: Any, told: Callable[[Any], object]) -> list[object]:
    step = peer.stepper(env)
    return [told(step(action)) for action in script]
