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


class Cause(msgspec.Struct, frozen=True):
    """One hidden cause of a family, as its `Causes` class declares it."""

    name: str
    alternatives: tuple[Value, ...]
    annotation: Fact | Trouble
    meaning: str = ""  # in words, for facts; the dial of a trouble has a description of its own


class Case(msgspec.Struct, frozen=True):
    """One piece of work in a world."""

    ticket_id: str
    actor: str  # the person who works on the ticket, played by the agent
    brief: str
    roles: dict[str, str]  # the part that a record or person plays in the case, such as `entry` or `requester` -> its id
