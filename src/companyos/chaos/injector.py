"""Injectors: one kind of trouble each, on one dial, harder with the dose and never without a way out."""

from typing import ClassVar

from companyos.company import Tool
from companyos.core.calls import Call, Reply
from companyos.core.world import Draw, Streams, World

MOST_LIKELY = 0.75  # at dose 1 no single trouble is more likely than this: there is always something to find out

Level = bool | int | str


class Injector:
    """A dial and what it does. Subclasses say in three clauses what the agent sees, what was written, what recovers."""

    dial: ClassVar[str]
    letter: ClassVar[str]  # how task ids write the dial
    levels: ClassVar[tuple[Level, ...]] = (False, True)  # from calm to worst
    chances: ClassVar[tuple[float, ...]] = (MOST_LIKELY,)  # at dose 1, of reaching each level above calm
    footprint: ClassVar[tuple[tuple[str, str], ...]] = ()  # kind and field of what it touches in the start state

    def level(self, draw: Draw, dose: float) -> Level:
        """How hard it strikes one target. The draw does not depend on the dose, so doses nest: more never means milder."""
        luck = draw.random()
        reached = sum(luck < chance * dose for chance in self.chances)
        return self.levels[reached]

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        """Brings the trouble into the start state, at a target that the family names."""

    def offer(self, dose: float, streams: Streams) -> tuple[Tool, ...]:
        """Which tools an episode has beside the company's own. No cause decides it, since one sees them at once."""
        return ()

    def intercept(self, dose: float, world: World, tool: Tool, call: Call) -> "Fault | None":
        """What goes wrong with a call, or None."""
        return None


class Fault:
    """A call that goes wrong: whether it is carried out all the same, and what the agent hears."""

    __slots__ = ("carried_out", "reply")

    def __init__(self, carried_out: bool, reply: Reply) -> None:
        self.carried_out = carried_out
        self.reply = reply
