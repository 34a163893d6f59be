"""Journal: every write, with when, who, why, before and after."""

from itertools import compress
from operator import ne
from typing import Any

import msgspec
from msgspec.structs import astuple

from companyos.world.clock import Minute
from companyos.world.record import Record, row, view


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write. `before` is None for a record that was made by it."""

    at: Minute
    actor: str
    why: str
    before: Record | None
    after: Record

    def names(self) -> tuple[str, ...]:
        """The fields of which the record has another value than before."""
        before = () if self.before is None else astuple(self.before)
        return tuple(compress(self.after.__struct_fields__, map(ne, before, astuple(self.after))))

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """What changed, by shown field: (before, after). For a made record: every field, from None."""
        if self.before is None:
            return {name: (None, value) for name, value in view(self.after).items() if name != "id"}
        names = self.names()
        before, after = row(self.before, names), row(self.after, names)
        return {name: (before[name], after[name]) for name in names}
