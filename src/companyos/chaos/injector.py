"""The base class of injectors. Each injector brings one kind of trouble into an episode.

A dial is an injector's name in a task; its dose, from 0 to 1, says how likely and how hard the trouble is. A task can
be solved at every dose.
"""

from typing import ClassVar

from companyos.company import Tool
from companyos.core.calls import Call, Reply
from companyos.core.world import Draw, Streams, World

MAX_CHANCE = 0.75  # the highest chance of any trouble, so that even at dose 1 an agent must look

Level = bool | int | str  # how hard a trouble is: one of the `levels` of its injector


class Injector:
    """One kind of trouble.

    The docstring of a subclass has three parts: what the agent sees; what the trouble changes; how the agent copes with it.
    """

    dial: ClassVar[str]
    letter: ClassVar[str]  # stands for the dial in task ids, such as the f and the s in `f100s50`
    levels: ClassVar[tuple[Level, ...]] = (False, True)  # from no trouble to the worst
    # At dose 1: the chance of each level after the first, or of a worse one.
    level_chances: ClassVar[tuple[float, ...]] = (MAX_CHANCE,)
    footprint: ClassVar[tuple[tuple[str, str], ...]] = ()  # the record types and fields that it may change

    def level(self, draw: Draw, dose: float) -> Level:
        """Return the level at one target. The draw does not depend on the dose, so a higher dose is never milder."""
        luck = draw.random()
        reached = sum(luck < chance * dose for chance in self.level_chances)
        return self.levels[reached]

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        """Bring the trouble into the start state.

        `target` is what the family lets the trouble affect: ids of records, or names of fields, joined by `/`.
        """

    def offer(self, dose: float, streams: Streams) -> tuple[Tool, ...]:
        """Return extra tools for the episode. They do not depend on causes, because the agent sees them at the start."""
        return ()

    def intercept(self, dose: float, world: World, tool: Tool, call: Call) -> "Fault | None":
        """Return the fault that strikes a call, or None."""
        return None


class Fault:
    """A call that fails: whether it is carried out nevertheless, and the reply that the agent gets."""

    __slots__ = ("carried_out", "reply")

    def __init__(self, carried_out: bool, reply: Reply) -> None:
        self.carried_out = carried_out
        self.reply = reply
