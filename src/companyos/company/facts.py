"""Facts: the value of a record's field as replies show it, and whether a citation of it is true."""

from typing import Any

from companyos.company.apps.approvalflow import Approval
from companyos.company.apps.datahub import Metric, age_days, presence
from companyos.company.apps.ticketdesk import Citation, same
from companyos.company.people import Person
from companyos.core.world import Record, World, shown_fields, shown_value

MISSING = object()  # not equal to any value that a citation can have


def fact(world: World, record: Record, field: str) -> Any:
    """Return a field of a record as actors see it now, including computed fields; `MISSING` if there is no such field."""
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
    """Tell whether a citation has the value that this record shows."""
    return same(fact(world, record, citation.field), citation.value)


def true_now(world: World, citation: Citation) -> bool:
    """Tell whether a citation has the value that the record it names shows now."""
    record = world.lookup(citation.record)
    return record is not None and true_of(world, record, citation)
