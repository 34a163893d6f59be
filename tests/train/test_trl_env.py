"""The class that TRL takes for an environment: its tools, its tasks, its rewards."""

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


def as_of_1_16(episode: TrlEpisode) -> list[Callable[..., str]]:
    """How TRL 1.16 finds the tools of an environment."""
    found = inspect.getmembers(type(episode), predicate=inspect.isfunction)
    return [getattr(episode, name) for name, _ in found if name not in ("reset", "get_reward") and name[0] != "_"]


def as_of_1_9(episode: TrlEpisode) -> list[Callable[..., str]]:
    """How TRL 1.9 finds them."""
    found = inspect.getmembers(episode, predicate=inspect.ismethod)
    return [member for name, member in found if name not in ("reset", "get_reward") and name[0] != "_"]


def calls_of(env: CompanyEnv) -> list[Call]:
    return [turn.call for turn in env.turns]


def make_call(episode: TrlEpisode, call: Call) -> str:
    said: str = getattr(episode, f"{call.app}_{call.method}")(**call.params)
    return said


def one_by_name(toolbox: Toolbox) -> dict[str, Tool]:
    return {f"{tool.app}_{tool.method}": tool for tool in toolbox}


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [as_of_1_9, as_of_1_16])
@pytest.mark.parametrize("toolbox", [TOOLBOX, ALL_TOOLS])
def test_the_tools_that_trl_finds_are_those_of_the_toolbox(reads: Any, toolbox: Toolbox) -> None:
    fresh = offering(toolbox)()
    names = [method.__name__ for method in reads(fresh)]
    assert sorted(names) == sorted(one_by_name(toolbox))


def test_each_tool_is_described_by_its_own_signature() -> None:
    for method in as_of_1_16(offering(ALL_TOOLS)()):
        tool = one_by_name(ALL_TOOLS)[method.__name__]
        ours, theirs = tool.schema["function"], get_json_schema(method)["function"]
        assert theirs["description"] == ours["description"]
        assert theirs["parameters"].get("required", []) == tool.required
        assert list(theirs["parameters"]["properties"]) == list(tool.hints)
        assert theirs.keys() == {"name", "description", "parameters"}
        for name, schema in theirs["parameters"]["properties"].items():
            (full,) = [
                part for part in _alternatives(ours["parameters"]["properties"][name]) if part.get("type") != "null"
            ] or [{}]
            assert schema["description"].startswith(full.get("description", name.replace("_", " ")))
            assert sorted(schema.get("enum", ())) == full.get("enum", [])
            assert schema["type"] == full.get("type", "string")


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    alternatives: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return alternatives


def test_what_stands_in_a_list_of_records_is_told() -> None:
    resolve = get_json_schema(CompanyOS().ticketdesk_resolve_ticket)  # type: ignore[attr-defined]
    evidence = resolve["function"]["parameters"]["properties"]["evidence"]
    assert evidence["description"].endswith("field (the field's name, as in a reply), value")


# -- episodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", WORK)
def test_the_same_calls_give_the_same_words_and_the_same_reward_as_in_process(task: str) -> None:
    known = make(task, reward="score")
    run_expert(known)
    episode = CompanyOS()
    again = make(task, reward="score")
    assert episode.reset(task_id=task, prompt=[{"role": "user", "content": ""}]) == again.reset().text
    for call in calls_of(known):
        assert make_call(episode, call) == again.step(call).text
    assert (episode.get_reward(), episode.success) == (known.turns[-1].reward, True)
    assert episode.get_reward() > 0.9
    assert (episode.task_id, len(episode.codes)) == (task, known.step_count)


def test_an_episode_is_begun_by_id_or_by_family_seed_and_chaos() -> None:
    named = task_named(FAMILY, 7, {"stale": 0.5})
    episode = CompanyOS()
    text = episode.reset(task_id=str(named), family=None, seed=None, chaos=None)
    assert episode.reset(task_id=None, family=FAMILY, seed=7, chaos={"stale": 0.5}) == text
    assert episode.task_id == str(named)
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
    known = make(WORK[0], reward="score")
    run_expert(known)
    episode = CompanyOS()
    episode.reset(task_id=WORK[0])
    for call in calls_of(known):
        make_call(episode, call)
    reward = episode.get_reward()
    with pytest.raises(EpisodeOver, match="the episode is over"):
        make_call(episode, Call("ticketdesk", "my_changes"))
    assert (episode.get_reward(), len(episode.codes)) == (reward, known.step_count)


def test_whoever_stops_early_is_scored_as_one_who_waits_until_the_budget_is_spent() -> None:
    whole = calls_of(played("expert", 3, 0.0))
    for stop in (0, 3, len(whole) - 1):
        env = make(FAMILY, seed=3, reward="score")
        episode = CompanyOS()
        episode.reset(family=FAMILY, seed=3)
        for call in whole[:stop]:
            env.step(call)
            make_call(episode, call)
        while not env.done:
            env.step(Call("ticketdesk", "wait", {"hours": 1}))
        assert (episode.get_reward(), episode.success) == (env.turns[-1].reward, False)
        assert len(episode.codes) == stop  # waiting is nothing that the model did


@settings(STEADY, max_examples=60)
@given(
    st.sampled_from(sorted(one_by_name(TOOLBOX))),
    st.dictionaries(st.sampled_from(["ticket_id", "page", "self", "call", "evidence"]), st.none() | st.text(max_size=5)),
)
def test_wrong_arguments_are_answered_by_the_company_and_take_a_step(name: str, params: dict[str, Any]) -> None:
    episode = CompanyOS()
    episode.reset(task_id=task_id())
    tool = one_by_name(TOOLBOX)[name]
    env = make(task_id())
    assert getattr(episode, name)(**params) == env.step(Call(tool.app, tool.method, params)).text
    assert episode.codes == (env.turns[0].reply.code,)
    if "self" in params:
        assert episode.codes == (BAD_ARGUMENTS,)


def test_a_defect_of_ours_is_not_swallowed_with_the_models_mistakes() -> None:
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


def test_a_task_that_offers_other_tools_is_refused_and_its_own_class_takes_it() -> None:
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
def test_a_row_that_names_a_task_that_is_none_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(BadTask):
        CompanyOS().reset(**row)


def test_nothing_can_be_called_before_an_episode_has_begun() -> None:
    with pytest.raises(BadTask, match="call reset first"):
        CompanyOS().get_reward()
    with pytest.raises(ValueError, match="begins with http"):
        partial(CompanyOS, url="somewhere")()


def test_the_class_is_found_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(CompanyOS)) is CompanyOS
