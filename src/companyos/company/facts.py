"""Facts: what a record says of itself, field by field, wherever a reply may have shown it."""

from typing import Any

from companyos.company.apps.approvalflow import Approval
from companyos.company.apps.datahub import Metric, age_days, presence
from companyos.company.apps.ticketdesk import Citation, same
from companyos.company.people import Person
from companyos.core.world import Record, World, shown_fields, shown_value

MISSING = object()  # equals nothing that can be said


def fact(world: World, record: Record, field: str) -> Any:
    """A field of a record as actors see it now, the empty and the computed ones included; `MISSING` if it has none."""
    if field in shown_fields(type(record)):
        return shown_value(record, field)
    if record.spread and field in (spread := getattr(record, record.spread)):
        return spread[field]
    if isinstance(record, Metric) and field == "age_days":
        return age_days(record, world.now)
    if isinstance(record, Person):
        return presence(world, record).get(field, MISSING)
    if isinstance(record, Approval):
        return record.data.get(field, MISSING)
    return MISSING


def true_of(world: World, record: Record, citation: Citation) -> bool:
    """Whether a citation says what this record shows."""
    return same(fact(world, record, citation.field), citation.value)


def true_now(world: World, citation: Citation) -> bool:
    """Whether a citation says what its record shows now."""
    record = world.lookup(citation.record)
    return record is not None and true_of(world, record, citation)
