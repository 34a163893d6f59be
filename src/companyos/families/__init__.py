"""The registry of families. A family is a kind of work, such as vendor onboarding; each is declared in one module.

To add a family, write its module and add one line to `FAMILIES`, or install it as a plug-in.
"""

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
from companyos.families.kit.company import company_of, is_built
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family, Setting

# The families of the benchmark, without those that plug-ins add.
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
# The families whose tasks have the usual length. Splits, suites and demos go through these in turn, task by task, and
# `--families all` means these. A long family has to be selected by name.
SHORT_FAMILIES = tuple(name for name, family in FAMILIES.items() if not family.long)
# The first five families of the benchmark. Training commands use them by default.
STARTER_FAMILIES = SHORT_FAMILIES[:5]


def family(name: str) -> Family:
    """Return a family by its name. Raises `BadTask`, with the valid names, if there is no such family."""
    if not isinstance(name, str) or (name not in FAMILIES and name not in installed()):
        raise BadTask(f"unknown family {name!r}; valid: {', '.join(installed())}")
    return FAMILIES.get(name) or installed()[name]


def installed() -> dict[str, Family]:
    """Return all families by name: those of the benchmark and those of installed plug-ins."""
    return FAMILIES | _plugin_families()


@cache
def _plugin_families() -> dict[str, Family]:
    """Return the families of installed plug-ins by name. Raises `BadPlugin` if a plug-in names no family or a taken name."""
    families: dict[str, Family] = {}
    for source, plugin in plugged_in():
        if not isinstance(plugin, Family):
            raise BadPlugin(f"plug-in {source} must name a Family, not {plugin!r}")
        if plugin.name in FAMILIES | families:
            raise BadPlugin(f"plug-in {source} has a family named {plugin.name}, but this name is already taken")
        families[plugin.name] = plugin
    return families


def family_of(brief: str) -> Family:
    """Return the family that a brief belongs to. Every brief of a family contains the family's `phrase`."""
    benchmark = (candidate for candidate in FAMILIES.values() if candidate.phrase in brief)
    return next(benchmark, None) or next(plugin for plugin in _plugin_families().values() if plugin.phrase in brief)


def canonical(task: TaskId) -> TaskId:
    """Return the task with its shortest id: without overrides of causes that change nothing. See `Family.canonical`."""
    return family(task.family).canonical(task) if task.do else task


@lru_cache(maxsize=128)
def setting(task: TaskId) -> Setting:
    """Return the start state of a task, cached. Episodes fork it."""
    return family(task.family).set_up(task)


def company_is_built(task: TaskId) -> bool:
    """Return whether the company of a task is in memory. If not, `build_company` takes milliseconds to build it."""
    return is_built(task.split, task.seed, task.size)


def build_company(task: TaskId) -> None:
    """Build the company of a task, so that its episode begins quickly."""
    company_of(task.split, task.seed, task.size)


__all__ = [
    "FAMILIES", "SHORT_FAMILIES", "STARTER_FAMILIES", "Case", "Ending", "Family", "EpisodeSoFar", "Setting", "ExpertStyle",
    "build_company", "canonical", "company_is_built", "family", "family_of", "installed", "setting",
]  # fmt: skip
