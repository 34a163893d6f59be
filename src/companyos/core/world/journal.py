"""The journal's entries: one `Change` for each write to the world."""

from functools import cached_property
from itertools import compress
from operator import ne
from typing import Any

import msgspec
from msgspec.structs import astuple

from companyos.core.world.clock import Minute
from companyos.core.world.record import Record, shown_value, view


class Change(msgspec.Struct, frozen=True, dict=True):
    """One write: when, by whom, through which tool, and the record before (None if it is new) and after."""

    at: Minute
    actor: str
    why: str
    before: Record | None
    after: Record

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The fields that changed; for a new record, all fields that are shown. Cached, because histories are read often."""
        if self.before is None:
            return tuple(name for name in view(self.after) if name != "id")
        return tuple(compress(self.after.__struct_fields__, map(ne, astuple(self.before), astuple(self.after))))

    def values(self, name: str) -> tuple[Any, Any]:
        """Return a field before and after, as actors see it. A new record had None before."""
        if self.before is None:
            return None, view(self.after)[name]
        return shown_value(self.before, name), shown_value(self.after, name)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Return (before, after) for each field that changed."""
        return {name: self.values(name) for name in self.names}
