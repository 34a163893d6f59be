"""The people of a company: those who have a part in cases, and the teams of the departments."""

from collections.abc import Iterator

from companyos.company import Mind, Person
from companyos.core.world import Draw, World
from companyos.families.kit.backdrop import DEPARTMENTS
from companyos.families.kit.names import FIRST_NAMES, LAST_NAMES, pool

_OTHER_DEPARTMENTS = ("Sales", "Logistics", "Quality", "Training", "Facilities", "Communications", "Production", "Design")
_TEAM_TITLES = ("Specialist", "Coordinator", "Planner", "Assistant", "Clerk", "Trainee")
_TEAM_SIZE = 8  # people under one team lead


def add_staff(world: World, split: str, people: int) -> dict[str, str]:
    """Add this many people, each with a manager. Return their ids by job title."""
    names = _names(world.streams.at("names"), split)
    positions = _positions(world.streams.at("limits"))
    positions += _team_positions(people - len(positions))
    departments = sorted({position[1] for position in positions})
    cost_centers = dict(
        zip(departments, world.streams.at("cost centres").sample(range(100, 1000), len(departments)), strict=True)
    )
    paces = world.streams.at("paces")
    staff: dict[str, str] = {}
    hired = [(position, next(names)) for position in positions]
    for (job_title, *_), (first_name, last_name) in hired:
        staff.setdefault(job_title, f"@{first_name}.{last_name}".lower())
    for (job_title, department, desk, manager, signing_limit, delegate), (first_name, last_name) in hired:
        handle = f"@{first_name}.{last_name}".lower()
        world.put_at_start(
            Person(
                id=handle,
                name=f"{first_name} {last_name}",
                role=job_title,
                department=department,
                desk=desk,
                manager=staff.get(manager or ""),
                limit=signing_limit,
                delegate=staff.get(delegate or ""),
                cost_center=f"CC-{cost_centers[department]}",
            )
        )
        world.put_at_start(Mind(handle, pace=paces.between(12, 149)))
    return staff


# Job title, department, desk, job title of the manager, signing limit, job title of the delegate.
_Position = tuple[str, str, str, str | None, int | None, str | None]


def _positions(draw: Draw) -> list[_Position]:
    """Return the positions that have a part in cases."""
    head_limit = draw.between(10, 24) * 1000
    cfo_limit = draw.between(8, 16) * 10_000
    positions: list[_Position] = [
        ("CEO", "Board", "board", None, cfo_limit, None),
        ("CFO", "Finance", "finance", "CEO", cfo_limit, "Finance Controller"),
        ("Finance Controller", "Finance", "finance", "CFO", 5000, "Treasurer"),
        ("Treasurer", "Finance", "finance", "CFO", 5000, None),
        ("CTO", "Engineering", "engineering", "CEO", head_limit, None),
        ("HR Lead", "People", "people", "CEO", head_limit, None),
        ("Procurement Lead", "Procurement", "procurement", "CFO", head_limit, None),
        ("Compliance Officer", "Compliance", "compliance", "CEO", None, None),
        ("Finance Clerk", "Finance", "finance", "Finance Controller", None, None),
        ("Support Engineer", "Engineering", "engineering", "CTO", None, None),
        ("Vendor Desk Lead", "Procurement", "vendor", "Procurement Lead", None, None),
        ("Vendor Analyst", "Procurement", "vendor", "Vendor Desk Lead", None, None),
    ]
    for department in DEPARTMENTS:
        desk = department.lower()
        positions += [
            (f"Head of {department}", department, desk, "CFO", head_limit, f"Deputy Head of {department}"),
            (f"Deputy Head of {department}", department, desk, f"Head of {department}", 3000, f"{department} Manager"),
            (f"{department} Manager", department, desk, f"Head of {department}", 1000, None),
            (f"{department} Associate", department, desk, f"{department} Manager", None, None),
        ]
    return positions


def _team_positions(count: int) -> list[_Position]:
    """Return this many positions in the teams of all departments, each team with a lead of its own."""
    positions: list[_Position] = []
    departments = (*DEPARTMENTS, *_OTHER_DEPARTMENTS)
    team = 0
    while len(positions) < count:
        department = departments[team % len(departments)]
        desk, lead = department.lower(), f"{department} Team Lead {team // len(departments) + 1}"
        head = f"Head of {department}" if department in DEPARTMENTS else "CEO"
        positions.append((lead, department, desk, head, None, None))
        positions += [
            (f"{department} {_TEAM_TITLES[n % len(_TEAM_TITLES)]}", department, desk, lead, None, None)
            for n in range(_TEAM_SIZE)
        ]
        team += 1
    return positions[: max(count, 0)]


def _names(draw: Draw, split: str) -> Iterator[tuple[str, str]]:
    """Yield first and last names. No two of the first people share either, and no two people share both."""
    first_names, last_names = draw.shuffled(pool(FIRST_NAMES, split)), draw.shuffled(pool(LAST_NAMES, split))
    pairs = list(zip(first_names, last_names, strict=False))
    yield from pairs
    first_pairs = set(pairs)
    for pair in draw.shuffled([(first, last) for first in first_names for last in last_names]):
        if pair not in first_pairs:
            yield pair
