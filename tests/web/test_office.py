"""The office in a browser: an expert's work done by clicking, and clicks that do nothing twice."""

from collections.abc import Iterator

import pytest

from companyos.env import make, par
from companyos.families import FAMILIES, Memory, Taste, family
from companyos.task import TaskId
from tests.web.browser import Visit, browsing
from tests.web.person import Person
from tests.web.site import Served, served

SEED, CHAOS = 7, 0.5


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served() as one:
        yield one


@pytest.mark.parametrize("name", FAMILIES)
def test_an_expert_solves_a_task_of_every_family_through_the_pages(site: Served, name: str) -> None:
    """Told by the same company in this process, which must be the same to the byte after every click."""
    env = make(name, seed=SEED, chaos=CHAOS)
    program = family(name).expert(Memory(env.scene.task, env.reset().now), Taste())
    with browsing() as seen:
        person = Person(seen.page)
        person.begin(site.url, name, SEED, CHAOS)
        call = next(program)
        while not env.done:
            said = person.make(call)
            env.step(said)
            there = site.session(seen.page.url).env
            assert (there.turns[-1].call, there.digest()) == (said, env.digest())
            if not env.done:
                call = program.send(env.turns[-1].reply)
        assert seen.page.get_by_role("heading", name="Success").is_visible()
        assert f"par {par(TaskId.parse(env.task_id))}, budget {env.max_steps}" in seen.page.locator(".numbers").inner_text()
        check_clean(seen, site)


def check_clean(seen: Visit, site: Served) -> None:
    assert seen.errors == []
    assert {address for address in seen.requests if not address.startswith(f"{site.url}/")} == set()
