"""BrowserGym's environment around our tasks: reset, observations, actions of an agent, and the expert."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from browsergym.core import _get_global_playwright
from browsergym.utils.obs import flatten_axtree_to_str

import companyos.integrations.browsergym as tasks
from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.families import FAMILIES
from companyos.serve.errors import UnknownSession
from companyos.serve.ops import programs

SEED, CHAOS = 7, 0.5


@pytest.fixture(scope="module", autouse=True)
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the system's Chromium into Playwright's browser folder, because BrowserGym's chat accepts no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path_factory.mktemp("browsers")))
        patch.setenv("PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS", "1")
        program = programs.chromium()
        assert program, "these tests need a Chromium: .ci/packages chromium installs it on Debian"
        expected = Path(_get_global_playwright().chromium.executable_path)
        expected.parent.mkdir(parents=True)
        expected.write_text(f'#!/bin/sh\nexec {program} --no-sandbox "$@"\n')
        expected.chmod(0o755)
        yield


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[Any]:
    env = gymnasium.make(
        f"browsergym/companyos.{request.param}",
        task_kwargs={"chaos": CHAOS},
        pre_observation_delay=0.0,
        action_mapping=None,  # actions are lines of Python; BrowserGym's own actions wait half a second for each click
        disable_env_checker=True,
    )
    yield env.unwrapped
    env.close()


def test_every_family_is_registered() -> None:
    assert {f"browsergym/companyos.{name}" for name in FAMILIES} <= set(gymnasium.registry)


@pytest.mark.parametrize("world", ["vendor_onboarding", "expense_report"], indirect=True)
def test_the_expert_solves_a_task_through_its_pages(world: Any) -> None:
    obs, info = world.reset(seed=SEED)
    here = make(world.task._task.family, seed=SEED, chaos=CHAOS)
    assert (obs["goal"], info["task_info"]["task_id"]) == (here.scene.brief, here.task_id)
    assert obs["screenshot"].shape == (768, 1024, 3)
    assert "What you were asked to do" in flatten_axtree_to_str(obs["axtree_object"])
    world.task.cheat(world.page, world.chat.messages)
    there = world.task.session.env
    for call in (turn.call for turn in there.turns):
        here.step(call)
    assert there.digest() == here.digest()
    _, reward, terminated, truncated, info = world.step("pass")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["task_info"]["success"] is True


@pytest.mark.parametrize("world", ["vendor_onboarding"], indirect=True)
def test_an_agent_s_actions_are_calls_and_the_expert_can_take_over(world: Any) -> None:
    obs, _ = world.reset(seed=SEED)
    tickets = re.search(r"\[(\w+)\] button 'Tickets'", flatten_axtree_to_str(obs["axtree_object"]))
    assert tickets
    obs, reward, terminated, _, info = world.step(f"page.get_by_test_id('{tickets[1]}').click()")
    assert (obs["last_action_error"], reward, terminated) == ("", 0.0, False)
    assert world.task.session.calls == [Call("ticketdesk", "list_tickets")]
    assert info["task_info"]["step"] == 1
    world.task.cheat(world.page, world.chat.messages)
    _, reward, terminated, _, _ = world.step("pass")
    assert terminated
    here = make("vendor_onboarding", seed=SEED, chaos=CHAOS, reward="score")
    here.step(Call("ticketdesk", "list_tickets"))
    run_expert(here)
    assert reward == here.turns[-1].reward


@pytest.mark.parametrize("world", ["vendor_onboarding"], indirect=True)
def test_another_reset_forgets_the_session_before(world: Any) -> None:
    world.reset(seed=1)
    first = world.task
    world.reset(seed=2)
    assert world.task.session.env.task_id != str(first._task)
    with pytest.raises(UnknownSession):
        assert first.session


def test_without_a_seed_there_is_some_task() -> None:
    assert str(tasks.CompanyTask(None, "vendor_onboarding")._task).startswith("vendor_onboarding-")
