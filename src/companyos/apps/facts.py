"""Facts: what a record says of itself, field by field, wherever a reply may have shown it."""

from typing import Any

from msgspec import to_builtins

from companyos.apps.approvalflow import Approval
from companyos.apps.datahub import Metric, age_days, presence
from companyos.apps.people import Person
from companyos.apps.ticketdesk import Citation, same
from companyos.world import Record, World, view


def facts(world: World, record: Record) -> dict[str, Any]:
    """Every field of a record as actors see it now, the empty and the computed ones included."""
    shown = {name: getattr(record, name) for name in record.__struct_fields__} | view(record)
    if isinstance(record, Metric):
        shown["age_days"] = age_days(record, world.now)
    elif isinstance(record, Person):
        shown.update(presence(world, record))
    elif isinstance(record, Approval):
        shown.update(record.data)
    return shown


def true_now(world: World, citation: Citation) -> bool:
    """Whether a citation says what its record shows now."""
    record = world.lookup(citation.record)
    if record is None:
        return False
    shown = facts(world, record)
    return citation.field in shown and same(to_builtins(shown[citation.field]), citation.value)
