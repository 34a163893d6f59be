"""Cases, that is, single pieces of work in a world, and the declarations of the hidden causes behind them."""

import msgspec

Value = bool | str


class Fact(msgspec.Struct, frozen=True):
    """Marks a cause that decides which ending is right."""

    odds: tuple[float, ...]  # the probability of each alternative
    shown_in: tuple[tuple[str, str, str], ...]  # the fields that show it: kind of record, role in the case, field


class Trouble(msgspec.Struct, frozen=True):
    """Marks a cause that makes the work harder but never changes the right ending."""

    dial: str  # the chaos dial that sets its probability
    target: tuple[str, ...]  # what it affects: roles of the case; `=text` is the literal text, not a role


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
    roles: dict[str, str]  # names for the records and people of the case, such as `entry` or `requester`, and their ids
