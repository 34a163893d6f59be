"""Tests of the environment: reset, step, fork, the end of an episode and lost episodes."""

import datetime
import decimal
import math
import pickle
import random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import companyos
from companyos.agents import make as make_agent
from companyos.assurance.replay import replay
from companyos.assurance.twins import do
from companyos.company import TOOLBOX, Approval, Tool
from companyos.company.apps.tool import reference
from companyos.core.calls import Call
from companyos.core.world import Change
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.observations import Observation
from companyos.families import FAMILIES
from tests.helpers import (
    FAMILY,
    STEADY,
    answered,
    asked,
    form,
    played,
    recomputed,
    role,
    say,
    staged,
    step,
    task_id,
    ticket,
    verify,
)

CAUSES = [cause.name for cause in FAMILIES[FAMILY].specs()]
WRONG: dict[str, Any] = {"resolution": "declined", "reason": "no_budget", "evidence": []}


# -- bad input ---------------------------------------------------------------------------------------------------------

SEED_RANGE = "from 0 to 999999999999"
BAD_INPUT: list[tuple[dict[str, Any], str]] = [
    ({"task": "space_travel"}, FAMILY),
    ({"task": ""}, FAMILY),
    ({"task": "space_travel-v4-train-7-0"}, FAMILY),
    ({"task": f"{FAMILY}-7"}, f"{FAMILY}-v4-train-7-50"),
    ({"task": task_id(chaos="101")}, "from 0 to 100"),
    ({"task": task_id(chaos="z50")}, "s stale"),
    ({"task": task_id(chaos="s50s50")}, "s stale"),
    ({"task": task_id() + "-luck.true"}, "duplicate, conflict"),
    ({"task": task_id() + "-duplicate.maybe"}, "duplicate cannot be 'maybe'; valid: "),
    ({"task": task_id() + "-block.sometimes"}, "no, leftover, waiting"),
    ({"seed": -1}, SEED_RANGE),
    ({"seed": 10**12}, SEED_RANGE),
    ({"seed": 1.5}, SEED_RANGE),
    ({"seed": True}, SEED_RANGE),
    ({"seed": "7"}, SEED_RANGE),
    ({"seed": None}, SEED_RANGE),
    ({"chaos": -0.1}, "from 0 to 1"),
    ({"chaos": 1.1}, "from 0 to 1"),
    ({"chaos": math.nan}, "from 0 to 1"),
    ({"chaos": True}, "from 0 to 1"),
    ({"chaos": "0.5"}, "from 0 to 1"),
    ({"chaos": {"stale": 2}}, "from 0 to 1"),
    ({"chaos": {"stale": True}}, "from 0 to 1"),
    ({"chaos": {"weather": 0.5}}, "stale"),
    ({"reward": "generous"}, "dense, score, sparse"),
    ({"reward": None}, "dense, score, sparse"),
    ({"split": "holdout"}, "train, validation, test"),
    ({"split": None}, "train, validation, test"),
]


@pytest.mark.parametrize("number", range(len(BAD_INPUT)))
def test_bad_input_is_a_value_error_of_one_line_that_lists_what_is_valid(number: int) -> None:
    given_, valid = BAD_INPUT[number]
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as error:
        make(**({"task": FAMILY} | given_))
    assert valid in str(error.value)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_value_that_a_cause_cannot_have_is_refused(cause: str) -> None:
    with pytest.raises(ValueError, match=f"{cause} cannot be 'nonsense'; valid: "):
        do(task_id(), **{cause: "nonsense"})


def test_an_unknown_cause_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no cause 'luck'; valid: .*duplicate"):
        do(task_id(), luck=True)


def test_an_unknown_agent_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown agent 'oracle'; valid: .*expert"):
        companyos.agents.make("oracle")


def test_a_task_is_made_by_family_and_seed_or_by_its_id() -> None:
    by_name = make(FAMILY, seed=7, chaos={"stale": 0.5, "flaky": 0.25}, split="test")
    assert by_name.task_id == task_id(7, "f25s50", "test")
    assert make(by_name.task_id).digest() == by_name.digest()
    assert companyos.families() == list(FAMILIES)


# -- anything as an action ---------------------------------------------------------------------------------------------

TOOLS = list(TOOLBOX)
FIELDS = ["ticket_id", "subject", "reference", "amount", "cost_center", "score", "certificate", "contract", "vendor"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


STRANGE: list[Any] = [
    "\ud800",
    "x\udfff",
    "\x00",
    "\u2028",
    "T-1\x1fT-2",
    2**63,
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    10**400,
    1e308,
    -0.0,
    math.nan,
    math.inf,
    nested(60),
    {"rows": 1},
    {"\ud800": 1},
]
# Values whose repr fails, so they cannot be part of a hypothesis strategy.
UNSPEAKABLE: list[Any] = [10**5000, nested(3000), {10**5000: 1}]
NOT_JSON: list[Any] = [
    object(),
    b"bytes",
    {1, 2},
    (1, 2),
    {1: 2, None: 3},
    datetime.date(2026, 1, 5),
    decimal.Decimal("1.5"),
    Call,
    len,
    Call("ticketdesk", "wait", {"hours": object()}),
    msgspec.Raw(b"{"),
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(STRANGE),
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


class Babbler:
    """An agent that sends anything: junk, junk in the shape of a call, and calls with real ids and junk."""

    def __init__(self, env: CompanyEnv, junk: list[Any], seed: int) -> None:
        self.env = env
        self.junk = [*junk, *STRANGE, *UNSPEAKABLE, *NOT_JSON]
        self.random = random.Random(seed)
        self.ids = [*env.setting.case.roles.values(), env.setting.case.actor]

    def action(self) -> Any:
        kind = self.random.random()
        if kind < 0.15:
            return self.pick(self.junk)
        if kind < 0.25:
            shape = {"app": self.pick(["ticketdesk", *self.junk]), "method": self.pick(["wait", *self.junk])}
            return shape | self.pick([{}, {"params": self.pick(self.junk)}, {"why": 1}])
        tool = self.pick(TOOLS)
        params = {name: self.value(tool, name) for name in tool.hints if self.chance(0.97 if name in tool.required else 0.3)}
        if self.chance(0.03):
            params[self.pick(["zzz", "world", "actor"])] = self.pick(self.junk)
        return {"app": tool.app, "method": tool.method, "params": params}

    def value(self, tool: Tool, name: str) -> Any:
        if self.chance(0.12):
            return self.pick(self.junk)
        if name == "data":
            right = form(self.env)
            fields = [field for field in FIELDS if self.chance(0.9 if field in right else 0.2)]
            return {field: right.get(field) if self.chance(0.8) else self.pick(self.junk) for field in fields}
        if name == "evidence":
            return [
                {"record": self.pick(self.ids), "field": self.pick(FIELDS), "value": self.pick(self.junk)}
                for _ in range(self.random.randrange(3))
            ]
        hint = tool.hints[name]
        kind = reference(hint)
        if kind is not None:
            known = [record.id for record in self.env.world.all(kind)]
            return (
                self.pick(known or self.ids)
                if self.chance(0.5)
                else self.pick([i for i in self.ids if i in known] or self.ids)
            )
        if name in ("page", "hours"):
            return self.random.randrange(1, 40)
        choices = [choice for part in (hint, *get_args(hint)) for choice in get_args(part) if isinstance(choice, str)]
        return self.pick([*choices, *self.ids, "", "normal", "CFO"])

    def pick(self, options: list[Any]) -> Any:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


def invariants(env: CompanyEnv, journal_before: list[Change]) -> None:
    world = env.world
    for kind in world.kinds():
        for record in world.all(kind):
            assert type(record) is kind
            assert world.get(kind, record.id) is record
        assert len({record.id for record in world.all(kind)}) == world.count(kind)
    assert world.journal[: len(journal_before)] == journal_before
    assert world.digest() == recomputed(world)


@settings(STEADY, max_examples=400)
@given(st.lists(junk, max_size=5), st.integers(0, 2**32), st.sampled_from(["0", "50", "100"]))
def test_any_action_gets_a_reply_and_leaves_the_company_in_order(said: list[Any], seed: int, chaos: str) -> None:
    env = make(task_id(seed % 50, chaos))
    babbler = Babbler(env, said, seed)
    for _ in range(50):  # times 400 examples: 20,000 actions
        if env.done:
            env.reset()
        before, journal, turns = env.world.now, env.world.journal.copy(), len(env.turns)
        obs = env.step(babbler.action())
        assert isinstance(obs, Observation)
        assert obs.code == env.turns[-1].reply.code
        assert obs.text
        assert msgspec.json.decode(msgspec.json.encode(obs.last_result)) == obs.last_result
        assert env.world.now >= before
        assert len(env.turns) == turns + 1
        assert env.world.journal[: len(journal)] == journal
    invariants(env, [])


@settings(STEADY, max_examples=60)
@given(st.lists(junk, max_size=5), st.integers(0, 2**32))
def test_an_episode_in_which_anything_was_said_replays_and_pickles(said: list[Any], seed: int) -> None:
    env = make(task_id(seed % 50, "50"))
    babbler = Babbler(env, said, seed)
    while not env.done and env.step_count < 40:
        env.step(babbler.action())
    assert replay(env.transcript().to_jsonl()).digest() == env.digest()
    assert pickle.loads(pickle.dumps(env)).transcript() == env.transcript()


@pytest.mark.parametrize("depth", [50, 300, 600, 900, 5000])
def test_an_episode_pickles_and_replays_however_deep_the_nonsense_was(depth: int) -> None:
    env = make(task_id())
    env.step({"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": nested(depth)}})
    assert env.turns[-1].reply.code in ("bad_arguments", "bad_action")
    assert pickle.loads(pickle.dumps(env)).digest() == env.digest()
    assert replay(env.transcript().to_jsonl()).digest() == env.digest()


@pytest.mark.parametrize(
    "amount", [2**63, 2**64, -(2**63) - 1, 2**70, 10**400, 1e308], ids=lambda n: f"{float(min(n, 1e308)):.3g}"
)
def test_a_number_of_any_size_in_a_form_or_a_citation_is_answered(amount: Any) -> None:
    env = staged()
    data = form(env, amount=amount)
    step(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=data)
    step(env, "ticketdesk.wait", hours=72)
    citation = {"record": ticket(env).id, "field": "amount", "value": amount}
    step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **(WRONG | {"evidence": [citation]}))
    invariants(env, [])


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ({"app": "payroll", "method": "pay", "params": {}}, "unknown_tool"),
        ({"app": "ticketdesk", "method": "get_Ticket", "params": {}}, "unknown_tool"),
        ({"app": "", "method": "", "params": {}}, "unknown_tool"),
        ({"app": "ticketdesk", "method": "get_ticket", "params": {}}, "bad_arguments"),
        ({"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": 5}}, "bad_arguments"),
        ({"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": "T-1"}}, "not_found"),
        ({"app": "ticketdesk", "method": "get_ticket"}, "bad_arguments"),
        ({"app": "ticketdesk"}, "bad_action"),
        ([], "bad_action"),
        (None, "bad_action"),
        ("get_ticket", "bad_action"),
    ],
)
def test_a_reply_to_nonsense_has_a_stable_code_and_costs_a_step(action: Any, code: str) -> None:
    env = make(task_id())
    tables = {kind: list(env.world.all(kind)) for kind in env.world.kinds()}
    start = env.world.now
    obs = env.step(action)
    assert (obs.code, obs.last_result, obs.step) == (code, None, 1)
    assert obs.message
    assert env.world.now > start
    assert {kind: list(env.world.all(kind)) for kind in env.world.kinds()} == tables
    penalty = {"bad_arguments": "failed_call", "not_found": "failed_call"}.get(code, "unknown_tool")
    assert set(env.turns[0].parts) == {"step", penalty}


def test_a_call_may_be_a_call_or_a_mapping() -> None:
    one, other = make(task_id()), make(task_id())
    params = {"ticket_id": ticket(one).id}
    one.step(Call("ticketdesk", "get_ticket", params))
    other.step({"app": "ticketdesk", "method": "get_ticket", "params": params})
    assert one.turns == other.turns


def test_changing_an_observation_does_not_change_the_company() -> None:
    def spoil(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                spoil(item)
            value.clear()
        elif isinstance(value, list):
            for item in value:
                spoil(item)
            value.clear()

    for seed in range(6):
        env, agent = make(task_id(seed, "50")), make_agent("expert")
        obs = env.reset()
        while not obs.done:
            call = agent.act(obs)
            obs = env.step(call)
            spoiled = msgspec.json.decode(msgspec.json.encode(obs.last_result))
            spoil(obs.last_result)
            obs = msgspec.structs.replace(obs, reply=msgspec.structs.replace(obs.reply, data=spoiled))
            invariants(env, [])
        assert env.success


def test_every_reply_is_plain_json_even_of_what_was_cited() -> None:
    env = staged()
    citation = {"record": ticket(env).id, "field": "amount", "value": 5}
    closing = WRONG | {"evidence": [citation], "note": "?"}
    step(env, "ticketdesk.resolve_ticket", ticket_id=role(env, "earlier"), **closing)
    step(env, "ticketdesk.my_changes")
    step(env, "ticketdesk.get_history", ticket_id=role(env, "earlier"))
    step(env, "ticketdesk.get_ticket", ticket_id=role(env, "earlier"))
    for turn in env.turns[1:]:
        assert msgspec.json.decode(msgspec.json.encode(turn.reply.data)) == turn.reply.data
        assert '"amount"' in msgspec.json.encode(turn.reply.data).decode()


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["expert", "random", "null"])
def test_after_the_end_every_step_says_so_pays_nothing_and_changes_nothing(agent: str) -> None:
    env = played(agent, 3)
    before = (env.digest(), env.turns.copy(), env.transcript(), env.verdict, env.step_count)
    for action in (Call("ticketdesk", "wait", {"hours": 8}), {"app": "?"}, None, object(), Call("payroll", "pay")):
        obs = env.step(action)
        assert (obs.code, obs.reward, obs.done, obs.last_result) == ("episode_over", 0.0, True, None)
        assert (env.digest(), env.turns, env.transcript(), env.verdict, env.step_count) == before


def test_resolving_the_briefs_ticket_ends_the_episode_and_resolving_another_does_not() -> None:
    env = staged()
    obs = step(env, "ticketdesk.resolve_ticket", ticket_id=role(env, "earlier"), **WRONG)
    assert (obs.code, obs.done, env.success) == ("ok", False, None)
    obs = step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **WRONG)
    assert (obs.code, obs.done, env.success) == ("ok", True, False)


def test_a_budget_that_runs_out_is_a_failure() -> None:
    env = played("null", 3)
    assert env.step_count == env.max_steps
    assert (env.done, env.success) == (True, False)
    assert env.turns[-1].parts["end"] == -5.0
    assert all("end" not in turn.parts for turn in env.turns[:-1])


def test_success_is_open_until_the_end() -> None:
    env = make(task_id(4, "50"))
    agent = make_agent("expert")
    obs = env.reset()
    while not obs.done:
        assert (env.success, env.done) == (None, False)
        obs = env.step(agent.act(obs))
    assert (env.success, env.done) == (True, True)


def test_a_success_on_the_last_step_is_a_success() -> None:
    quick = staged(conflict="requester")
    run_expert(quick)
    env = staged(conflict="requester")
    while env.step_count < env.max_steps - quick.step_count:
        env.step({"app": "payroll", "method": "pay"})
    run_expert(env)
    assert (env.step_count, env.success) == (env.max_steps, True)


# -- reset -------------------------------------------------------------------------------------------------------------


def test_reset_gives_the_same_first_bytes_every_time_and_everywhere() -> None:
    env = make(task_id(5, "75"))
    first, digest = msgspec.json.encode(env.reset()), env.digest()
    run_expert(env)
    assert env.digest() != digest
    assert msgspec.json.encode(env.reset()) == first
    assert (env.digest(), env.turns, env.verdict, env.step_count) == (digest, [], None, 0)
    assert msgspec.json.encode(make(task_id(5, "75")).reset()) == first


def test_an_episode_after_a_reset_is_the_same_episode() -> None:
    env = make(task_id(5, "75"))
    run_expert(env)
    once = env.transcript()
    env.reset()
    run_expert(env)
    assert env.transcript() == once


def test_playing_an_episode_leaves_the_first_morning_as_it_was() -> None:
    env = make(task_id(5, "75"))
    before = env.setting.world.digest()
    run_expert(env)
    assert env.setting.world.digest() == before == recomputed(env.setting.world)


# -- lost --------------------------------------------------------------------------------------------------------------


def test_nothing_is_lost_at_the_start_after_reads_nor_after_a_success() -> None:
    env = make(task_id(6, "50"))
    assert env.lost() is None
    step(env, "ticketdesk.list_tickets")
    assert env.lost() is None
    run_expert(env)
    assert (env.success, env.lost()) == (True, None)


def test_a_wrong_ending_cannot_be_undone() -> None:
    env = staged()
    step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **WRONG)
    assert env.lost() == "irreversible"


def test_a_comment_on_another_ticket_is_damage_for_good() -> None:
    env = staged()
    step(env, "ticketdesk.comment", ticket_id=role(env, "earlier"), text="Hello.")
    assert env.lost() == "damage"


def test_a_signature_that_nobody_needed_is_damage_for_good_and_a_pending_request_is_not() -> None:
    env = staged(conflict="requester")
    verify(env)
    request = asked(env)
    assert env.lost() is None
    assert answered(env, request).status == "approved"
    assert env.lost() == "damage"


def test_closing_another_ticket_is_damage_for_good() -> None:
    env = staged()
    step(env, "ticketdesk.resolve_ticket", ticket_id=role(env, "earlier"), **WRONG)
    assert env.lost() == "damage"


def test_damage_that_can_be_undone_does_not_lose_the_episode_but_fails_it_while_it_remains() -> None:
    env = staged()
    other = {"ticket_id": role(env, "earlier"), "field": "waiting_on"}
    step(env, "ticketdesk.update_ticket", **other, value=role(env, "cfo"))
    assert env.lost() is None
    spoiled = env.fork()
    for turn in played_calm():
        spoiled.step(turn)
    assert spoiled.verdict is not None
    assert all(spoiled.verdict.goals.values())
    assert [harm.field for harm in spoiled.verdict.damage] == ["waiting_on"]
    assert (spoiled.success, spoiled.lost()) == (False, "irreversible")
    step(env, "ticketdesk.update_ticket", **other, value="")
    for turn in played_calm():
        env.step(turn)
    assert env.success


def played_calm() -> list[Call]:
    """Return the expert's calls at dose 0."""
    env = staged()
    run_expert(env)
    assert env.success
    return [turn.call for turn in env.turns]


def test_a_budget_that_ran_out_is_not_lost_and_a_fresh_one_wins() -> None:
    env = played("null", 3)
    assert env.lost() is None
    fresh = env.fresh_budget()
    assert (fresh.done, fresh.step_count) == (False, 0)
    run_expert(fresh)
    assert fresh.success
    assert (env.done, env.success) == (True, False)


def test_a_request_that_stands_twice_is_damage() -> None:
    env = staged()
    verify(env)
    for request in (asked(env), asked(env)):
        assert answered(env, request).status == "approved"
    assert env.lost() == "damage"
    assert say(env, "approvalflow.list_approvals", status="approved").data["total"] == 2


# -- forks, pickles, company -------------------------------------------------------------------------------------------


def calls_of(agent: str, seed: int) -> tuple[str, list[Call], list[str]]:
    """An episode's task, its calls, and the digest after each."""
    env = played(agent, seed, chaos=0.75)
    return env.task_id, [turn.call for turn in env.turns], [turn.digest for turn in env.turns]


@pytest.mark.parametrize("agent", ["expert", "random"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_fork_at_any_step_goes_the_same_way_and_leaves_the_original_alone(agent: str, seed: int) -> None:
    task, calls, digests = calls_of(agent, seed)
    env = make(task)
    for number, call in enumerate(calls):
        twin, stray = env.fork(), env.fork()
        for later in calls[number:]:
            twin.step(later)
        assert [turn.digest for turn in twin.turns] == digests
        stray.step(Call("ticketdesk", "comment", {"ticket_id": ticket(env).id, "text": "astray"}))
        stray.step(Call("ticketdesk", "wait", {"hours": 72}))
        assert len(env.turns) == env.step_count == number
        assert env.digest() == (digests[number - 1] if number else make(task).digest())
        invariants(env, [])
        env.step(call)
    assert [turn.digest for turn in env.turns] == digests


@pytest.mark.parametrize("agent", ["expert", "random"])
def test_what_happens_to_the_original_does_not_reach_its_fork(agent: str) -> None:
    task, calls, digests = calls_of(agent, 3)
    env = make(task)
    forks = []
    for call in calls:
        forks.append(env.fork())
        env.step(call)
    for number, fork in enumerate(forks):
        for later in calls[number:]:
            fork.step(later)
        assert [turn.digest for turn in fork.turns] == digests
        assert fork.transcript() == env.transcript()


@pytest.mark.parametrize("agent", ["expert", "random"])
def test_an_env_pickled_at_any_step_goes_the_same_way(agent: str) -> None:
    task, calls, digests = calls_of(agent, 4)
    env = make(task)
    for number, call in enumerate(calls):
        again: CompanyEnv = pickle.loads(pickle.dumps(env))
        assert again.digest() == env.digest() == recomputed(again.world)
        if number % 5 == 0:
            for later in calls[number:]:
                again.step(later)
            assert [turn.digest for turn in again.turns] == digests
            assert again.success is not None
        env.step(call)
    assert pickle.loads(pickle.dumps(env)).transcript() == env.transcript()


def test_interleaved_episodes_go_as_they_would_alone() -> None:
    alone = [calls_of(agent, seed) for seed in range(4) for agent in ("expert", "random")]
    alone += alone[:2]  # two episodes of one task, side by side
    together = [make(task) for task, _, _ in alone]
    for number in range(max(len(calls) for _, calls, _ in alone)):
        for env, (_, calls, _) in zip(together, alone, strict=True):
            if number < len(calls):
                env.step(calls[number])
    for env, (_, _, digests) in zip(together, alone, strict=True):
        assert [turn.digest for turn in env.turns] == digests


def test_every_turn_holds_the_digest_of_the_company_after_it() -> None:
    env = make(task_id(8, "50"))
    for _ in range(6):
        step(env, "ticketdesk.wait", hours=9)
        assert env.turns[-1].digest == env.digest() == recomputed(env.world)


def test_an_extra_read_shifts_no_later_decision() -> None:
    def decided(extra_reads: int) -> tuple[str, str | None]:
        env = staged(objection="evidence")
        verify(env)
        for _ in range(extra_reads):
            say(env, "datahub.list_metrics")
        request = answered(env, asked(env))
        return request.code, request.decided_by

    assert decided(0) == decided(25)


def test_a_lost_answer_of_a_request_leaves_a_request_that_can_be_found() -> None:
    found = 0
    for seed in range(60):
        env = make(FAMILY, seed=seed, chaos={"flaky": 1.0})
        params = {"approval_type": FAMILY, "approver": role(env, "head"), "data": form(env)}
        obs = step(env, "approvalflow.submit_approval", **params)
        if obs.code == "no_answer" and env.world.count(Approval):
            found += 1
            assert say(env, "approvalflow.list_approvals").data["total"] == 1
    assert found > 0
