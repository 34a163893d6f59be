"""Tests of observations: what an agent sees, and that nothing else leaks."""

import re
from collections.abc import Iterator

import msgspec
import pytest

from companyos.agents import make as make_agent
from companyos.company import ALL_TOOLS, KINDS, TOOLBOX, Policy
from companyos.company.colleagues import OBJECTIONS
from companyos.env import CompanyEnv, make
from companyos.env.observations import Observation, compact
from companyos.families import FAMILIES
from tests.helpers import FAMILY, role, staged, step, task_id, ticket

PUBLIC = {
    "task",
    "step",
    "max_steps",
    "steps_remaining",
    "last_result",
    "message",
    "now",
    "tools",
    "text",
    "reward",
    "done",
}


def observations(env: CompanyEnv, agent: str, seed: int = 0) -> Iterator[Observation]:
    """Return everything that an agent sees in an episode."""
    actor = make_agent(agent, seed)
    obs = env.reset()
    yield obs
    while not obs.done:
        obs = env.step(actor.act(obs))
        yield obs


def test_an_observation_has_its_public_fields() -> None:
    obs = make(FAMILY, seed=7).reset()
    assert all(hasattr(obs, name) for name in PUBLIC)
    assert (obs.step, obs.max_steps, obs.steps_remaining, obs.reward, obs.done) == (
        0,
        obs.max_steps,
        obs.max_steps,
        0.0,
        False,
    )
    assert obs.last_result is None
    assert obs.tools == TOOLBOX.schemas


def test_the_first_observation_is_the_brief_the_clock_the_budget_and_the_tools_and_no_record() -> None:
    env = make(FAMILY, seed=7, chaos=0.5)
    obs = env.reset()
    assert obs.task == env.setting.case.brief
    assert obs.text == f"[{obs.now}, step 0 of {obs.max_steps}] ok\n{obs.task}"
    assert (obs.last_result, obs.message) == (None, "")


def test_steps_count_up_and_what_remains_counts_down() -> None:
    env = make(FAMILY, seed=7)
    for number, obs in enumerate(observations(env, "null")):
        assert (obs.step, obs.steps_remaining) == (number, env.max_steps - number)
    assert obs.steps_remaining == 0
    assert obs.done


def test_an_observation_is_plain_json() -> None:
    for obs in observations(make(FAMILY, seed=7, chaos=0.5), "expert"):
        shown = msgspec.to_builtins(obs)
        assert msgspec.json.decode(msgspec.json.encode(obs)) == msgspec.json.decode(msgspec.json.encode(shown))
        assert msgspec.json.decode(msgspec.json.encode(obs.last_result)) == obs.last_result


# -- the text form -----------------------------------------------------------------------------------------------------


def test_a_record_is_one_line_of_text_with_a_dash_for_what_is_empty() -> None:
    env = staged(priority_missing=True)
    obs = step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    head, line = obs.text.split("\n")
    assert head == f"[{obs.now}, step 1 of {obs.max_steps}] ok"
    assert line.startswith(f"{ticket(env).id}; title=Onboard ")
    assert "priority=-" in line


def test_a_list_is_a_line_a_row_and_says_if_there_is_more() -> None:
    obs = step(staged(), "ticketdesk.list_tickets")
    _, *rows, last = obs.text.split("\n")
    assert len(rows) == 10
    assert re.fullmatch(r"page 1 of \d+, \d+ in all", last)


def test_an_empty_list_says_nothing() -> None:
    assert step(staged(), "ticketdesk.search_tickets", query="zzz").text.endswith("ok\nnothing")
    assert step(staged(), "ticketdesk.wait", hours=1).text.endswith("ok\nnothing")


def test_a_refusal_is_its_code_and_its_reason() -> None:
    obs = step(staged(), "ticketdesk.get_ticket", ticket_id="T-1")
    assert obs.text == f"[{obs.now}, step 1 of {obs.max_steps}] not_found: there is no ticket 'T-1'"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "-"),
        ("word", "word"),
        (5, "5"),
        (True, "True"),
        ({"id": "T-1", "a": None, "b": ["x", "y"], "c": [], "d": {"e": 1}}, "T-1; a=-; b=x, y; c=-; d={e: 1}"),
        ({"rows": [{"id": "T-1", "a": 1}, {"id": "T-2", "a": 2}]}, "T-1; a=1\nT-2; a=2"),
        ({"rows": [], "page": 1, "pages": 1, "total": 0}, "nothing"),
        ({"arrived": []}, "nothing"),
    ],
)
def test_data_is_compacted_the_same_way_everywhere(data: object, text: str) -> None:
    assert compact(data) == text


def test_everything_in_a_result_stands_in_the_text() -> None:
    def scalars(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for item in value.values():
                yield from scalars(item)
        elif isinstance(value, list):
            for item in value:
                yield from scalars(item)
        elif value is not None:
            yield str(value)

    for obs in observations(make(FAMILY, seed=3, chaos=0.5), "expert"):
        if isinstance(obs.last_result, dict) and "rows" not in obs.last_result:
            assert all(part in obs.text for part in scalars(obs.last_result))


# -- nothing leaks -----------------------------------------------------------------------------------------------------


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def private_words(env: CompanyEnv) -> set[str]:
    """Return names that must not leak: no schema, policy or field name contains them."""
    inside = (
        {cause.name for cause in FAMILIES[FAMILY].specs()}
        | set(OBJECTIONS)
        | {kind.__name__ for kind in KINDS if kind.hidden}
    )
    inside |= set(env.setting.case.roles) | {type(goal).__name__ for goal in env.setting.ending.goals}
    inside |= {name for kind in KINDS if kind.hidden for name in kind.__struct_fields__}
    public = words(msgspec.json.encode(env.toolbox.schemas).decode()) | words(env.setting.case.brief)
    public |= {name for kind in KINDS if not kind.hidden for name in kind.__struct_fields__}
    for policy in env.world.all(Policy):
        public |= words(policy.title) | words(policy.text)
    for record in (record for kind in KINDS if not kind.hidden for record in env.world.all(kind)):
        public |= words(msgspec.json.encode(record).decode())
    return inside - public


def private_phrases(env: CompanyEnv) -> set[str]:
    names = {milestone.name for milestone in env.setting.ending.milestones if " " in milestone.name}
    return names | {env.task_id, env.setting.ending.name}


def test_the_words_that_must_not_leak_are_many() -> None:
    env = staged("100")
    assert {
        "cfo_away",
        "score_stale",
        "priority_missing",
        "superior",
        "Mind",
        "Source",
        "pace",
        "patience",
    } <= private_words(env)
    assert {"outcome recorded", "valid request"} & private_phrases(env)


@pytest.mark.parametrize("agent", ["expert", "random", "jittered"])
@pytest.mark.parametrize("chaos", [0.0, 0.5, 1.0])
def test_no_observation_tells_a_cause_a_mind_a_milestone_the_ending_or_the_task_id(agent: str, chaos: float) -> None:
    for seed in range(8):
        env = make(FAMILY, seed=seed, chaos=chaos)
        secret_words, secret_phrases = private_words(env), private_phrases(env)
        for obs in observations(env, agent, seed):
            seen = f"{obs.text}\n{obs.message}\n{msgspec.json.encode(obs.last_result).decode()}"
            assert not words(seen) & secret_words
            assert not [phrase for phrase in secret_phrases if phrase in seen]


def test_no_tool_tells_a_cause_a_mind_or_a_task_id() -> None:
    env = staged("100")
    seen = msgspec.json.encode(ALL_TOOLS.schemas).decode()
    assert not words(seen) & {"cfo_away", "score_stale", "Mind", "Source", "milestone", "reward", "damage"}
    assert env.task_id not in seen


def test_the_text_shows_no_reward_and_no_verdict() -> None:
    for reward in ("dense", "score", "sparse"):
        env = make(FAMILY, seed=2, chaos=0.5, reward=reward)
        for obs in observations(env, "expert"):
            assert not words(obs.text) & {"reward", "success", "failure", "milestones", "damage"}
    with_reward = msgspec.structs.replace(obs, reward=-77.25, done=False)
    assert with_reward.text == obs.text


def test_the_same_episode_reads_the_same_under_every_profile() -> None:
    def read(reward: str) -> list[str]:
        return [obs.text for obs in observations(make(FAMILY, seed=2, chaos=0.5, reward=reward), "expert")]

    assert read("dense") == read("score") == read("sparse")


# -- progress, an option -----------------------------------------------------------------------------------------------


def test_progress_is_off_by_default_and_a_checklist_of_what_stands_when_asked_for() -> None:
    assert all(obs.progress is None for obs in observations(make(FAMILY, seed=2), "expert"))
    env = make(staged().task_id, progress=True)
    assert env.reset().progress == ()
    fields = {"ticket_id": ticket(env).id, "field": "verified"}
    assert step(env, "ticketdesk.update_ticket", **fields, value=role(env, "entry")).progress == ("verified",)
    assert step(env, "ticketdesk.update_ticket", **fields, value="").progress == ()


def test_a_task_is_named_beside_the_observation_and_never_in_it() -> None:
    env = make(task_id(5, "50"))
    obs = env.reset()
    assert env.task_id == task_id(5, "50")
    assert env.task_id not in msgspec.json.encode(obs).decode()
