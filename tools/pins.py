"""Write the exact versions that the image installs to requirements.txt: `python -m tools.pins`.

They are the installed versions of the extra `serve` and its dependencies, with which the tests ran.
"""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).parents[1] / "requirements.txt"
_HEADING = """\
# What the image installs. Written by `python -m tools.pins` in the server's environment; a test holds it to pyproject.toml.
"""


class Need(NamedTuple):
    """What one distribution requires of another."""

    asker: str
    requirement: Requirement


def needed() -> dict[str, list[Need]]:
    """Return every distribution that the server needs, with all requirements on its version."""
    found: dict[str, list[Need]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [("companyos", "serve")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in _asked_by(name, extra):
            other = canonicalize_name(requirement.name)
            if other == "companyos":  # an extra that contains another one
                waiting += [(other, part) for part in requirement.extras]
                continue
            found.setdefault(other, []).append(Need(name, requirement))
            waiting += [(other, one) for one in ("", *requirement.extras)]
    return found


def _asked_by(name: str, extra: str) -> Iterator[Requirement]:
    here = {key: str(value) for key, value in default_environment().items()}
    for line in metadata.requires(name) or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(here | {"extra": extra}):
            yield requirement


def pinned() -> dict[str, str]:
    """Return names and versions in the file."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def main() -> None:
    FILE.write_text(_HEADING + "".join(f"{name}=={metadata.version(name)}\n" for name in sorted(needed())))


if __name__ == "__main__":
    main()
