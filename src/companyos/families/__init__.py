"""Families: what there is to do. One file each; a new one is a file and a line here."""

from functools import cache, lru_cache

from companyos.core.errors import BadPlugin, BadTask
from companyos.core.plugins import plugged_in
from companyos.core.task import TaskId
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
from companyos.families.kit.case import Case
from companyos.families.kit.family import Ending, Family, Memory, Setting, Taste

# Those of the benchmark: splits, the floor and `all` mean these, whatever else is installed.
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
    if not isinstance(name, str) or (name not in FAMILIES and name not in installed()):
        raise BadTask(f"unknown family {name!r}; valid: {', '.join(installed())}")
    return FAMILIES.get(name) or installed()[name]


def installed() -> dict[str, Family]:
    """All there are: the benchmark's, and those that plug-ins bring."""
    return FAMILIES | _plugged_in()


@cache
def _plugged_in() -> dict[str, Family]:
    brought: dict[str, Family] = {}
    for source, one in plugged_in():
        if not isinstance(one, Family):
            raise BadPlugin(f"plug-in {source} is no Family, but {one!r}")
        if one.name in FAMILIES | brought:
            raise BadPlugin(f"plug-in {source} brings a family {one.name}, and there is one of that name")
        brought[one.name] = one
    return brought


def family_of(brief: str) -> Family:
    """The family that a brief belongs to, by the phrase that stands in all of its briefs."""
    of_benchmark = (family for family in FAMILIES.values() if family.phrase in brief)
    return next(of_benchmark, None) or next(family for family in installed().values() if family.phrase in brief)


def canonical(task: TaskId) -> TaskId:
    """The task under its one id; see `Family.canonical`."""
    return family(task.family).canonical(task) if task.do else task


@lru_cache(maxsize=128)
def setting(task: TaskId) -> Setting:
    """A task's first morning, furnished once; episodes start from forks of it."""
    return family(task.family).set_up(task)


__all__ = [
    "FAMILIES", "ROUND", "Case", "Ending", "Family", "Memory", "Setting", "Taste", "canonical", "family", "family_of",
    "installed", "setting",
]  # fmt: skip
