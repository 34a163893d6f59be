"""Aim a task at a kind of rule: draw its facts again until a rule of that kind decides."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from companyos.rules.draw import Design, Variants

T = TypeVar("T")


def aim(draw: Callable[[int], T], hits: Callable[[T], bool], tries: int = 40) -> T:
    """Return the first draw that hits, or the last one. `draw` takes the number of the attempt, from 0 on."""
    drawn = draw(0)
    for attempt in range(1, tries):
        if hits(drawn):
            break
        drawn = draw(attempt)
    return drawn


def deciding_slots(
    design: Design,
    variants: Variants,
    ending: Callable[[Variants], Hashable],
    among: Iterable[str] | None = None,
    held_out: bool = False,
) -> list[str]:
    """Return the slots on which the ending depends: with another variant, the ending is another.

    `ending` decides the case under the given variants. `held_out` also tries variants that only test tasks have.
    """
    present = ending(variants)
    found = []
    for slot in (design.slot(name) for name in among) if among is not None else design.slots:
        others = slot.variants if held_out else slot.known
        if any(ending({**variants, slot.name: other}) != present for other in others if other != variants[slot.name]):
            found.append(slot.name)
    return found
