"""Cases, that is, single pieces of work in a world, and the declarations of the hidden causes behind them."""

import msgspec

Value = bool | str  # of a cause


class Fact(msgspec.Struct, frozen=True):
    """Marks a cause that decides which ending is right."""

    odds: tuple[float, ...]  # the probability of each value; for a bool, of False and of True
    shown_in: tuple[tuple[str, str, str], ...]  # the fields that show it: kind of record, role in the case, field


class Trouble(msgspec.Struct, frozen=True):
    """Marks a cause that makes the work harder but never changes the right ending."""

    dial: str  # the chaos dial that sets its probability
    # What it affects: roles of the case, such as `ticket`. A part that begins with `=` is a literal text, such as the name
    # of a field: ("ticket", "=cost_center") is the cost centre of the ticket.
    target: tuple[str, ...]


class Rule(msgspec.Struct, frozen=True):
    """Marks a cause that is a slot of the family's rulebook. Its values are the variants of the slot."""

    held_out: tuple[str, ...] = ()  # the variants that only test tasks have


Mark = Fact | Trouble | Rule


class Cause(msgspec.Struct, frozen=True):
    """One hidden cause of a family, as its `Causes` class declares it."""

    name: str
    alternatives: tuple[Value, ...]
    annotation: Mark
    meaning: str = ""  # in words, for facts; the dial of a trouble has a description of its own

    def values(self, split: str) -> tuple[Value, ...]:
        """Return the values that the tasks of a split can have. Only test tasks have held-out variants of rules."""
        held_out = self.annotation.held_out if isinstance(self.annotation, Rule) and split != "test" else ()
        return tuple(value for value in self.alternatives if value not in held_out)


class Case(msgspec.Struct, frozen=True):
    """One piece of work in a world."""

    ticket_id: str
    actor: str  # the person who works on the ticket, played by the agent
    brief: str
    roles: dict[str, str]  # the part that a record or person plays in the case, such as `entry` or `requester` -> its id
    papers: tuple[str, ...] = ()  # ids of policies that are kept free for the rulebook, whether or not it needs them
    draws: str = ""  # the key of the random draws of the case, if its rulebook is drawn
