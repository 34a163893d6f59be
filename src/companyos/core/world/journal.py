"""Journal: every write, with when, who, why, before and after."""

from functools import cached_property
from itertools import compress
from operator import ne
from typing import Any

import msgspec
from msgspec.structs import astuple

from companyos.core.world.clock import Minute
from companyos.core.world.record import Record, shown_value, view


class Change(msgspec.Struct, frozen=True, dict=True):
    """One write. `before` is None for a record that was made by it."""

    at: Minute
    actor: str
    why: str
    before: Record | None
    after: Record

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The fields that changed; of a made record, all that are shown. Worked out once: histories are read often."""
        if self.before is None:
            return tuple(name for name in view(self.after) if name != "id")
        return tuple(compress(self.after.__struct_fields__, map(ne, astuple(self.before), astuple(self.after))))

    def values(self, name: str) -> tuple[Any, Any]:
        """A field before and after, as it is shown; a made record had nothing before."""
        if self.before is None:
            return None, view(self.after)[name]
        return shown_value(self.before, name), shown_value(self.after, name)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """What changed, by shown field: (before, after)."""
        return {name: self.values(name) for name in self.names}
