"""The class that TRL uses as an environment: its tools, its tasks, its rewards."""

import inspect
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils import get_json_schema

from companyos.company import ALL_TOOLS, TOOLBOX, Tool, Toolbox
from companyos.core.calls import BAD_ARGUMENTS, Call
from companyos.core.errors import BadTask
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import FAMILIES
from companyos.integrations.trl_env import CompanyOS, EpisodeOver, TrlEpisode, offering
from tests.helpers import FAMILY, STEADY, played, task_id

WORK = [str(task_named(name, 3, {"stale": 0.5, "flaky": 0.5})) for name in FAMILIES]


def tools_in_trl_1_16(episode: TrlEpisode) -> list[Callable[..., str]]:
    """Return the tools of an environment as TRL 1.16 finds them."""
    members = inspect.getmembers(type(episode), predicate=inspect.isfunction)
    return [getattr(episode, name) for name, _ in members if name not in ("reset", "get_reward") and name[0] != "_"]


def tools_in_trl_1_9(episode: TrlEpisode) -> list[Callable[..., str]]:
    """Return the tools of an environment as TRL 1.9 finds them."""
    members = inspect.getmembers(episode, predicate=inspect.ismethod)
    return [member for name, member in members if name not in ("reset", "get_reward") and name[0] != "_"]


def calls_of(env: CompanyEnv) -> list[Call]:
    return [turn.call for turn in env.turns]


def make_call(episode: TrlEpisode, call: Call) -> str:
    reply: str = getattr(episode, f"{call.app}_{call.method}")(**call.params)
    return reply


def tools_by_name(toolbox: Toolbox) -> dict[str, Tool]:
    return {f"{tool.app}_{tool.method}": tool for tool in toolbox}


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("find_tools", [tools_in_trl_1_9, tools_in_trl_1_16])
@pytest.mark.parametrize("toolbox", [TOOLBOX, ALL_TOOLS])
def test_the_tools_that_trl_finds_are_those_of_the_toolbox(find_tools: Any, toolbox: Toolbox) -> None:
    episode = offering(toolbox)()
    names = [method.__name__ for method in find_tools(episode)]
    assert sorted(names) == sorted(tools_by_name(toolbox))


def test_each_tool_is_described_by_its_own_signature() -> None:
    for method in tools_in_trl_1_16(offering(ALL_TOOLS)()):
        tool = tools_by_name(ALL_TOOLS)[method.__name__]
        expected, found = tool.schema["function"], get_json_schema(method)["function"]
        assert found["description"] == expected["description"]
        assert found["parameters"].get("required", []) == tool.required
        assert list(found["parameters"]["properties"]) == list(tool.hints)
        assert found.keys() == {"name", "description", "parameters"}
        for name, schema in found["parameters"]["properties"].items():
            (expected_schema,) = [
                part for part in _alternatives(expected["parameters"]["properties"][name]) if part.get("type") != "null"
            ] or [{}]
            assert schema["description"].startswith(expected_schema.get("description", name.replace("_", " ")))
            assert sorted(schema.get("enum", ())) == expected_schema.get("enum", [])
            assert schema["type"] == expected_schema.get("type", "string")


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    alternatives: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return alternatives


def test_the_fields_of_a_list_of_records_are_described() -> None:
    resolve = get_json_schema(CompanyOS().ticketdesk_resolve_ticket)  # type: ignore[attr-defined]
    evidence = resolve["function"]["parameters"]["properties"]["evidence"]
    assert evidence["description"].endswith("field (the field's name, as in a reply), value")


# -- episodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", WORK)
def test_the_same_calls_give_the_same_replies_and_reward_as_the_environment(task: str) -> None:
    expert = make(task, reward="score")
    run_expert(expert)
    episode = CompanyOS()
    env = make(task, reward="score")
    assert episode.reset(task_id=task, prompt=[{"role": "user", "content": ""}]) == env.reset().text
    for call in calls_of(expert):
        assert make_call(episode, call) == env.step(call).text
    assert (episode.get_reward(), episode.success) == (expert.turns[-1].reward, True)
    assert episode.get_reward() > 0.9
    assert (episode.task_id, len(episode.codes)) == (task, expert.step_count)


def test_a_row_names_its_task_by_id_or_by_family_seed_and_chaos() -> None:
    task = task_named(FAMILY, 7, {"stale": 0.5})
    episode = CompanyOS()
    text = episode.reset(task_id=str(task), family=None, seed=None, chaos=None)
    assert episode.reset(task_id=None, family=FAMILY, seed=7, chaos={"stale": 0.5}) == text
    assert episode.task_id == str(task)
    episode.reset(family=FAMILY, seed=7)
    assert episode.task_id == task_id(7)


def test_one_object_plays_many_episodes() -> None:
    episode = CompanyOS()
    for _ in range(2):
        episode.reset(task_id=WORK[0])
        assert make_call(episode, Call("ticketdesk", "my_changes")).startswith("[")
        assert episode.codes == ("ok",)
        episode.get_reward()


def test_after_the_end_every_call_raises_and_the_reward_stays() -> None:
    expert = make(WORK[0], reward="score")
    run_expert(expert)
    episode = CompanyOS()
    episode.reset(task_id=WORK[0])
    for call in calls_of(expert):
        make_call(episode, call)
    reward = episode.get_reward()
    with pytest.raises(EpisodeOver, match="the episode is over"):
        make_call(episode, Call("ticketdesk", "my_changes"))
    assert (episode.get_reward(), len(episode.codes)) == (reward, expert.step_count)


def test_a_rollout_that_stops_early_is_scored_as_if_it_waited_until_the_end() -> None:
    calls = calls_of(played("expert", 3, 0.0))
    for stop in (0, 3, len(calls) - 1):
        env = make(FAMILY, seed=3, reward="score")
        episode = CompanyOS()
        episode.reset(family=FAMILY, seed=3)
        for call in calls[:stop]:
            env.step(call)
            make_call(episode, call)
        while not env.done:
            env.step(Call("ticketdesk", "wait", {"hours": 1}))
        assert (episode.get_reward(), episode.success) == (env.turns[-1].reward, False)
        assert len(episode.codes) == stop  # the waits are not the model's calls


@settings(STEADY, max_examples=60)
@given(
    st.sampled_from(sorted(tools_by_name(TOOLBOX))),
    st.dictionaries(st.sampled_from(["ticket_id", "page", "self", "call", "evidence"]), st.none() | st.text(max_size=5)),
)
def test_wrong_arguments_get_the_environments_error_and_take_a_step(name: str, params: dict[str, Any]) -> None:
    episode = CompanyOS()
    episode.reset(task_id=task_id())
    tool = tools_by_name(TOOLBOX)[name]
    env = make(task_id())
    assert getattr(episode, name)(**params) == env.step(Call(tool.app, tool.method, params)).text
    assert episode.codes == (env.turns[0].reply.code,)
    if "self" in params:
        assert episode.codes == (BAD_ARGUMENTS,)


def test_a_bug_of_the_environment_is_not_caught_with_the_models_mistakes() -> None:
    class Broken(CompanyOS):  # type: ignore[misc, valid-type]
        def _step(self, call: Call) -> None:
            raise ZeroDivisionError

    episode = Broken()
    episode.reset(task_id=WORK[0])
    with pytest.raises(ZeroDivisionError):
        episode.ticketdesk_my_changes()
    with pytest.raises(ZeroDivisionError):
        episode.get_reward()


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_task_with_other_tools_is_refused_but_accepted_by_the_class_for_them() -> None:
    cluttered = task_id(7, "100")
    with pytest.raises(BadTask, match=r"does not offer the tools .* approvalflow\.approval_stats\. .* tool_clutter"):
        CompanyOS().reset(task_id=cluttered)
    own = offering(make(cluttered).toolbox)
    assert own().reset(task_id=cluttered) == make(cluttered).reset().text
    with pytest.raises(BadTask, match="does not offer the tools"):
        own().reset(task_id=WORK[0])


@pytest.mark.parametrize("row", [{}, {"family": FAMILY}, {"seed": 3}, {"prompt": "x", "seed": 3, "family": None}])
def test_a_row_that_names_no_task_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(BadTask, match="a row names its task by the column task_id, or by family and seed"):
        CompanyOS().reset(**row)


@pytest.mark.parametrize("row", [{"task_id": FAMILY}, {"task_id": 7}, {"family": "gardening", "seed": 1}])
def test_a_row_that_names_an_unknown_task_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(BadTask):
        CompanyOS().reset(**row)


def test_reset_must_come_first() -> None:
    with pytest.raises(BadTask, match="call reset first"):
        CompanyOS().get_reward()
    with pytest.raises(ValueError, match="begins with http"):
        partial(CompanyOS, url="somewhere")()


def test_the_class_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(CompanyOS)) is CompanyOS
