"""All injectors of trouble, the doses that a task has for them, and how task ids write doses."""

import re
from collections.abc import Mapping

from companyos.chaos.clutter import ToolClutter
from companyos.chaos.faults import Flaky
from companyos.chaos.incidents import Interference, Noise, Overload, PolicyDrift
from companyos.chaos.injector import Fault, Injector, Level
from companyos.chaos.mess import (
    Absence,
    Blocked,
    Conflict,
    HostileText,
    Lookalikes,
    MissingFields,
    OutdatedFields,
    Refresh,
    Rejections,
    RequiredFields,
    SchemaDrift,
    Stale,
)
from companyos.company import Toolbox, toolbox_of
from companyos.core.errors import BadDose
from companyos.core.world import Streams

# In the order in which they change the start state.
INJECTORS: tuple[Injector, ...] = (
    Lookalikes(),
    OutdatedFields(),
    MissingFields(),
    Blocked(),
    Stale(),
    Refresh(),
    Absence(),
    Rejections(),
    RequiredFields(),
    SchemaDrift(),
    Conflict(),
    HostileText(),
    Noise(),
    Overload(),
    Interference(),
    PolicyDrift(),
    Flaky(),
    ToolClutter(),
)
DIALS = {injector.dial: injector for injector in INJECTORS}
_DIAL_OF_LETTER = {injector.letter: injector.dial for injector in INJECTORS}  # task ids name a dial by one letter

Doses = dict[str, int]  # percent by dial
Chaos = float | str | Mapping[str, float]  # a dose for all dials, the name of a preset, or doses for some dials

# Named doses. `only_stale` and the like set one dial to 1 and all others to 0, for ablations.
PRESETS: dict[str, float | dict[str, float]] = {
    "calm": 0.0,
    "monday": 0.25,
    "quarter_end": 0.5,
    "reorg": 0.75,
    "meltdown": 1.0,
    **{f"only_{dial}": {dial: 1.0} for dial in DIALS},
}


def offered(streams: Streams, doses: Doses) -> Toolbox:
    """Return the tools of an episode: the company's own and the extra tools that injectors offer."""
    active = [injector for injector in INJECTORS if doses[injector.dial]]
    extras = [tool for injector in active for tool in injector.offer(doses[injector.dial] / 100, streams)]
    return toolbox_of(tuple(tool.name for tool in extras))


def doses_of(chaos: Chaos) -> Doses:
    """Return the doses that a caller asks for, in percent. Dials that a mapping does not name get 0."""
    if isinstance(chaos, str):
        if chaos not in PRESETS:
            raise BadDose(f"chaos takes a dose from 0 to 1, or a preset of {', '.join(PRESETS)}; got {chaos!r}")
        chaos = PRESETS[chaos]
    if isinstance(chaos, Mapping):
        unknown = sorted(set(chaos) - set(DIALS), key=str)
        if unknown:
            raise BadDose(f"unknown dial {unknown[0]!r}; valid: {', '.join(DIALS)}")
        return {dial: _percent(dial, chaos.get(dial, 0.0)) for dial in DIALS}
    return dict.fromkeys(DIALS, _percent("chaos", chaos))


def _percent(dial: str, dose: object) -> int:
    """Return a dose from 0 to 1 in percent. `dial` is its name in the error message."""
    if isinstance(dose, bool) or not isinstance(dose, int | float) or not 0 <= dose <= 1:
        raise BadDose(f"{dial} takes a dose from 0 to 1, in steps of 0.01; got {dose!r}")
    return round(dose * 100)


def write_doses(doses: Doses) -> str:
    """Return doses as task ids write them: `50`, or `f100s50` when the dials differ."""
    if len(set(doses.values())) == 1:
        return str(next(iter(doses.values())))
    return "".join(f"{letter}{doses[dial]}" for letter, dial in sorted(_DIAL_OF_LETTER.items()) if doses[dial])


def read_doses(text: str) -> Doses:
    """Parse what `write_doses` returns. `BadDose` for every other text."""
    parts = re.findall(r"([a-z]?)([0-9]+)", text)  # "f100s50" gives ("f", "100") and ("s", "50"); "50" gives ("", "50")
    unknown = [letter for letter, _ in parts if letter and letter not in _DIAL_OF_LETTER]
    if unknown:
        raise BadDose(f"unknown dial {unknown[0]!r} in {text!r}; valid: {_legend()}")
    doses = dict.fromkeys(DIALS, 0)
    for letter, percent in parts:
        doses |= {_DIAL_OF_LETTER[letter]: int(percent)} if letter else dict.fromkeys(DIALS, int(percent))
    if max(doses.values()) > 100 or write_doses(doses) != text:
        raise BadDose(f"{text!r} does not write doses the canonical way, from 0 to 100, dials in order: {_legend()}")
    return doses


def _legend() -> str:
    """Return the letters and their dials, for error messages."""
    return ", ".join(f"{letter} {dial}" for letter, dial in sorted(_DIAL_OF_LETTER.items()))


__all__ = [
    "DIALS", "INJECTORS", "PRESETS", "Chaos", "Doses", "Fault", "Injector", "Level", "doses_of", "offered", "read_doses",
    "write_doses",
]  # fmt: skip
