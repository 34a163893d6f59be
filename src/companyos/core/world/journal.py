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
    """One write to the world."""

    at: Minute
    actor: str  # the handle of the person who writes; empty for a scheduled event
    why: str  # the tool, or the kind of the scheduled event, that writes
    before: Record | None  # None: the record is new
    after: Record

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The fields that changed; for a new record, all fields that are shown. Cached, because histories are read often."""
        if self.before is None:
            return tuple(name for name in view(self.after) if name != "id")
        return tuple(compress(self.after.__struct_fields__, map(ne, astuple(self.before), astuple(self.after))))

    def values(self, name: str) -> tuple[Any, Any]:
        """Return a field's values before and after, as actors see them. For a new record, the first one is None."""
        if self.before is None:
            return None, view(self.after)[name]
        return shown_value(self.before, name), shown_value(self.after, name)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Return (before, after) for each field that changed."""
        return {name: self.values(name) for name in self.names}
