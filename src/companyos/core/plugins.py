"""Plug-ins of other distributions, loaded when they are first needed and never at import.

A distribution declares a plug-in in its metadata. It is found as soon as the distribution is installed:

    [project.entry-points."companyos.plugins"]
    pool_car = "my_company.pool_car:FAMILY"
"""

from functools import cache

GROUP = "companyos.plugins"


@cache
def plugged_in() -> tuple[tuple[str, object], ...]:
    """Return all plug-ins as pairs: the import path, such as `my_company.pool_car:FAMILY`, and the object."""
    from importlib.metadata import entry_points  # here, because this import is slow

    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return tuple((entry.value, entry.load()) for entry in entries)
