"""Cases: one piece of work in a world, and the hidden truths that it can rest on."""

import msgspec

Value = bool | str


class Fact(msgspec.Struct, frozen=True):
    """Marks a cause that decides the right ending: how likely each alternative is, and which fields show it."""

    odds: tuple[float, ...]
    footprint: tuple[tuple[str, str, str], ...]  # kind of record, role in the case, field


class Trouble(msgspec.Struct, frozen=True):
    """Marks a cause that decides the way: on which dial it is, and which roles of the case it strikes."""

    dial: str
    target: tuple[str, ...]  # roles; `=text` stands for the text itself


class Cause(msgspec.Struct, frozen=True):
    """A hidden truth of a family, as its `Causes` declares it."""

    name: str
    alternatives: tuple[Value, ...]
    mark: Fact | Trouble
    meaning: str = ""  # of a fact; what a trouble means, its dial says


class Case(msgspec.Struct, frozen=True):
    """One piece of work in a world: who works on which ticket, what they were told, and which record plays which role."""

    ticket_id: str
    actor: str
    brief: str
    roles: dict[str, str]
