"""Families: what there is to do. One file each; a new one is a file and a line here."""

from functools import lru_cache

from companyos.errors import BadTask
from companyos.families import (
    access_request,
    budget_transfer,
    bug_escalation,
    contract_renewal,
    data_deletion,
    employee_offboarding,
    expense_report,
    handbook_update,
    incident_response,
    license_renewal,
    quarter_close,
    refund_dispute,
    vendor_onboarding,
)
from companyos.families.case import Case
from companyos.families.family import Ending, Family, Memory, Setting, Taste
from companyos.task import TaskId

FAMILIES: dict[str, Family] = {
    module.FAMILY.name: module.FAMILY
    for module in (
        vendor_onboarding,
        expense_report,
        bug_escalation,
        license_renewal,
        handbook_update,
        access_request,
        incident_response,
        budget_transfer,
        contract_renewal,
        employee_offboarding,
        data_deletion,
        refund_dispute,
        quarter_close,
    )
}


# Those that take turns wherever tasks are counted off; a long one is asked for by name.
ROUND = tuple(name for name, family in FAMILIES.items() if not family.long)


def family(name: str) -> Family:
    """A family by name; `BadTask` lists those there are."""
    if not isinstance(name, str) or name not in FAMILIES:
        raise BadTask(f"unknown family {name!r}; valid: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def family_of(brief: str) -> Family:
    """The family that a brief belongs to, by the phrase that stands in all of its briefs."""
    return next(family for family in FAMILIES.values() if family.phrase in brief)


@lru_cache(maxsize=128)
def setting(task: TaskId) -> Setting:
    """A task's first morning, furnished once; episodes start from forks of it."""
    return family(task.family).set_up(task)


__all__ = ["FAMILIES", "ROUND", "Case", "Ending", "Family", "Memory", "Setting", "Taste", "family", "family_of", "setting"]
