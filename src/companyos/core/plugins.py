"""Plug-ins: what other distributions bring along, loaded when it is first asked for and never at import.

A distribution names it in its metadata, and is found as soon as it is installed:

    [project.entry-points."companyos.plugins"]
    pool_car = "my_company.pool_car:FAMILY"
"""

from functools import cache

GROUP = "companyos.plugins"


@cache
def plugged_in() -> tuple[tuple[str, object], ...]:
    """Every plug-in there is: where it comes from, and what it is."""
    from importlib.metadata import entry_points  # costs as much as half of us

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return tuple((entry.value, entry.load()) for entry in found)
