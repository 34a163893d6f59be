"""A new family is one file and one line in the registry, and every law covers it. The family here is `pool_car`."""

import importlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance import laws
from companyos.core.calls import Program, silent
from companyos.core.errors import LawBroken
from companyos.core.world import HOUR, Streams
from companyos.env import make
from companyos.families import FAMILIES, Case, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.backdrop import Backdrop
from tests.laws import NAMES
from tests.laws.pool_car import FAMILY, Causes, expert, stage

HERE = Path(__file__).parent


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[Family], str]:
    """Add the family to the registry: the one line."""

    def put(family: Family) -> str:
        monkeypatch.setitem(FAMILIES, family.name, family)
        return family.name

    return put


# -- the laws pick it up -------------------------------------------------------------------------------------------------


def over_families() -> list[Any]:
    """Return every law that runs over the registry, with each value of its other parameters."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        laws_of = vars(importlib.import_module(f"tests.laws.{path.stem}")).values() if path != Path(__file__) else ()
        for law in laws_of:
            given = dict(mark.args for mark in getattr(law, "pytestmark", ()) if mark.name == "parametrize")
            if given.pop("name", None) == NAMES:
                for values in product(*given.values()):
                    name = "-".join([law.__name__.removeprefix("test_"), *map(str, values)])
                    found.append(pytest.param(law, dict(zip(given, values, strict=True)), id=name))
    return found


@pytest.mark.parametrize(("law", "others"), over_families())
def test_a_new_family_keeps_the_law(
    law: Callable[..., None], others: dict[str, Any], register: Callable[[Family], str]
) -> None:
    law(name=register(FAMILY), **others)


# -- and what is broken is named -----------------------------------------------------------------------------------------


def helpless_abroad(so_far: EpisodeSoFar, style: ExpertStyle) -> Program:
    """An expert that ignores where the car is insured."""
    program = silent(expert(so_far, style))
    call = next(program)
    while True:
        if call.params.get("reason") == "not_covered":
            call = replace(call, params=call.params | {"resolution": "completed", "reason": "all_checks_passed"})
        call = program.send((yield call))


def talkative(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """A stage function whose brief reveals what only the requester should know."""
    case = stage(company, streams, causes)
    where = "It goes abroad." if causes.abroad else "It stays in the country."
    return replace(case, brief=f"{case.brief} {where}")


def untimely(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """A stage function in which the clock depends on a cause."""
    case = stage(company, streams, causes)
    company.world.now += HOUR if causes.licence == "ends" else 0
    return case


def first_seed(**causes: Any) -> int:
    """Return the first seed with these causes."""
    settings = (make(FAMILY.name, seed=seed).setting.causes for seed in range(100))
    return next(seed for seed, one in enumerate(settings) if all(getattr(one, c) == value for c, value in causes.items()))


def test_an_expert_that_cannot_solve_its_own_task_is_named_with_seed_and_cause(register: Callable[[Family], str]) -> None:
    register(FAMILY)
    stuck = first_seed(duplicate=False, licence="valid", reach="enough", abroad=True, insured="home")
    broken = register(replace(FAMILY, procedure=helpless_abroad))
    task = rf"{broken}-v\d+-train-{stuck}-0: .*'Ended': False"
    with pytest.raises(
        LawBroken, match=rf"^{task}.*; the cause: duplicate=0, licence=valid, reach=enough, abroad=1, insured=home$"
    ):
        laws.solvable(broken, range(100))


def test_a_brief_that_leaks_a_cause_is_named_with_seed_and_cause(register: Callable[[Family], str]) -> None:
    broken = register(replace(FAMILY, name="talkative_car", stage=talkative))
    told = r"the cause abroad, [01] or [01], is revealed by the brief: .*It (goes abroad|stays in the country)\."
    with pytest.raises(LawBroken, match=rf"^{broken}-v\d+-train-5-0: {told}"):
        laws.briefs_tell_nothing(broken, [5])


def test_twins_that_differ_in_the_first_observation_are_named_with_seed_and_cause(register: Callable[[Family], str]) -> None:
    broken = register(replace(FAMILY, name="untimely_car", stage=untimely))
    laws.briefs_tell_nothing(broken, [5])
    told = r"the cause licence, (valid or ends|ends or valid), is revealed by the first observation: "
    with pytest.raises(LawBroken, match=rf"^{broken}-v\d+-train-5-0: {told}"):
        laws.twins_look_alike(broken, [5])
