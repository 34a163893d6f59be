"""Journal: every write, with when, who, why, before and after."""

from typing import Any

import msgspec

from companyos.world.clock import Minute
from companyos.world.record import Record, view


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write. `before` is None for a record that was made by it."""

    at: Minute
    actor: str
    why: str
    before: Record | None
    after: Record

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """What changed, by shown field: (before, after). For a made record: every field, from None."""
        after = view(self.after)
        before = view(self.before) if self.before is not None else {}
        names = {**before, **after}
        return {
            name: (before.get(name), after.get(name))
            for name in names
            if name != "id" and before.get(name) != after.get(name)
        }
