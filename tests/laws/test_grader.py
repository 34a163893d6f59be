"""Law: the grader does not depend on the expert: other right solutions win, near misses lose, one ending is right."""

from itertools import product
from typing import Any

import pytest

from companyos import agents
from companyos.assurance.twins import do
from companyos.company import Approval, Comment, Ticket
from companyos.company.apps.ticketdesk import CHANGED_MEANWHILE
from companyos.company.facts import MISSING, fact
from companyos.core.calls import NO_ANSWER, Call, Reply
from companyos.core.errors import BadTask
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import FAMILIES, ExpertStyle, family_of
from companyos.families.kit.case import Fact
from companyos.families.kit.citations import CitesNoOther, same_kind
from companyos.families.kit.family import cause_specs
from tests.laws import DOSES, NAMES, seeds, size


@pytest.mark.parametrize("name", NAMES)
def test_the_jittered_expert_always_wins(name: str) -> None:
    for seed in seeds(120, 1000, fresh=10, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        agents.play(env, agents.make("jittered", seed))
        assert env.success, (env.task_id, env.verdict)


@pytest.mark.parametrize("name", NAMES)
def test_the_jittered_expert_does_work_differently(name: str) -> None:
    plain, jittered = make(name, seed=11, chaos=0.5), make(name, seed=11, chaos=0.5)
    agents.play(plain, agents.make("expert", 0))
    ways = set()
    for seed in range(8):
        agents.play(jittered, agents.make("jittered", seed))
        ways.add(tuple(turn.call.tool for turn in jittered.turns))
    assert len(ways) == 8
    assert tuple(turn.call.tool for turn in plain.turns) not in ways


# -- near misses: right in all but one thing -----------------------------------------------------------------------------


def _before_the_end(env: CompanyEnv) -> tuple[CompanyEnv, Call]:
    """Play the expert's episode up to its last call, with budget to try other ends. Return it and that call."""
    done = env.fork()
    run_expert(done)
    assert done.success
    rest = env.fork()
    for turn in done.turns[:-1]:
        rest.step(turn.call)
    return rest.fresh_budget(), done.turns[-1].call


def _failed_goals(env: CompanyEnv, *calls: Call) -> list[str]:
    """End a fork of the episode with these calls. Return the missed goals, and `damage` if there is any."""
    trial = env.fork()
    for call in calls:
        while True:
            reply = trial.step(call).reply
            if reply.code == CHANGED_MEANWHILE:
                trial.step(Call("ticketdesk", "get_ticket", {"ticket_id": trial.setting.case.ticket_id}))
            elif reply.code != NO_ANSWER:
                break
        assert reply.ok, reply
    assert trial.done
    assert trial.verdict is not None
    assert trial.success == (not trial.verdict.damage and all(trial.verdict.goals.values()))
    missed = [goal for goal, holds in trial.verdict.goals.items() if not holds]
    return missed + ["damage"] * bool(trial.verdict.damage)


def _with(call: Call, **params: Any) -> Call:
    return Call(call.app, call.method, {**call.params, **params})


def _near_misses(env: CompanyEnv, last: Call) -> dict[str, list[Call]]:
    """Return, for each goal, calls that end the episode correctly except for this goal."""
    ticket_id = env.setting.case.ticket_id
    ticket = env.world.get(Ticket, ticket_id)
    evidence = last.params["evidence"]
    other = next(t for t in env.world.all(Ticket) if t.id != ticket_id)

    def cleared(field: str) -> list[Call]:
        return [Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": ""}), last]

    misses = {
        "Ended": [_with(last, reason="too_late" if last.params["reason"] == "not_due" else "not_due")],
        "Cites": [_with(last, evidence=evidence[1:])],
        "CitesNothingFalse": [_with(last, evidence=[*evidence, {"record": ticket_id, "field": "amount", "value": -1}])],
        "damage": [Call("ticketdesk", "comment", {"ticket_id": other.id, "text": "By the way."}), last],
        "SignedFor": cleared("approval"),
        "Fresh": [*[Call("ticketdesk", "wait", {"hours": 72})] * 10, last],  # long enough for any metric to become too old
    }
    for goal in env.setting.ending.goals:
        if isinstance(goal, CitesNoOther) and (rival := _a_rival(env, goal, evidence)):
            misses[goal.name] = [_with(last, evidence=[*evidence, rival])]
    for field in ("verified", "duplicate_of", "escalated_to", "waiting_on"):
        if getattr(ticket, field):
            misses[f"TicketIs:{field}"] = cleared(field)
    if env.setting.world.get(Ticket, ticket_id).assignee is None:  # otherwise clearing it is damage, too
        misses["TicketIs:assignee"] = cleared("assignee")
    for field, value in env.setting.ending.allowed:
        if field == "assignee" and value != ticket.assignee:
            assign = {"ticket_id": ticket_id, "field": field, "value": value}
            misses["HandedTo"] = [Call("ticketdesk", "update_ticket", assign), last]
    return misses


def _a_rival(env: CompanyEnv, goal: CitesNoOther, evidence: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a true citation that is a rival: one that the family names, or the same field of a similar record."""
    world, said = env.world, {(one["record"], one["field"]) for one in evidence}
    for record_id, field in goal.must_not_cite or sorted(said):
        decisive = world.lookup(record_id)
        assert decisive is not None
        if type(decisive) in (Approval, Comment):  # another approved request or answer may be cited instead
            continue
        for record in [decisive] if goal.must_not_cite else world.all(type(decisive)):
            value = fact(world, record, field)
            if value is MISSING or (record.id, field) in said or record.id == goal.ticket_id:
                continue
            if goal.must_not_cite or same_kind(record, decisive):
                return {"record": record.id, "field": field, "value": value}
    return None


@pytest.mark.parametrize("name", NAMES)
def test_each_goal_is_needed(name: str) -> None:
    shown: set[str] = set()
    wanted: set[str] = {"damage"}
    for seed in seeds(40, 300, name=name):
        env = make(name, seed=seed, chaos=0.5)
        rest, last = _before_the_end(env)
        goals = set(env.setting.ending.named_goals)
        wanted |= goals
        for goal, calls in _near_misses(rest, last).items():
            if goal in goals | {"damage"}:
                assert _failed_goals(rest, *calls) == [goal], (env.task_id, goal)
                shown.add(goal)
        for one in env.setting.ending.linked:
            assert _missed_by_citing_less(env, one.ticket_id) == [f"Linked:{one.name}"], env.task_id
        if _missed_by_trusting_old_figures(env) == ["Fresh"]:
            shown.add("Fresh")
    assert shown == wanted


def _missed_by_citing_less(env: CompanyEnv, ticket_id: str) -> list[str]:
    """Return the goals that the expert misses if it closes a linked ticket with less evidence."""
    solved, trial = env.fork(), env.fork()
    run_expert(solved)
    for turn in solved.turns:
        call = turn.call
        if call.method == "resolve_ticket" and call.params["ticket_id"] == ticket_id:
            call = _with(call, evidence=call.params["evidence"][1:])
        trial.step(call)
    assert trial.verdict is not None
    missed = [goal for goal, holds in trial.verdict.goals.items() if not holds]
    return missed + ["damage"] * bool(trial.verdict.damage)


def _missed_by_trusting_old_figures(env: CompanyEnv) -> list[str]:
    """Return the goals that an expert misses if it never refreshes a metric."""
    lazy = env.fork()
    program = family_of(lazy.setting.case.brief).expert(lazy.so_far(), ExpertStyle())
    call = next(program)
    while not lazy.done:
        lazy.step(call)
        reply = lazy.turns[-1].reply
        if call.method == "query_metric" and reply.ok:
            reply = Reply(True, "ok", {**reply.data, "age_days": 0})
        if not lazy.done:
            call = program.send(reply)
    assert lazy.verdict is not None
    missed = [goal for goal, holds in lazy.verdict.goals.items() if not holds]
    return missed + ["damage"] * bool(lazy.verdict.damage)


@pytest.mark.parametrize("name", NAMES)
def test_five_additional_citations_are_too_many(name: str) -> None:
    for seed in seeds(10, 60, name=name):
        rest, last = _before_the_end(make(name, seed=seed))
        ticket = rest.world.get(Ticket, rest.setting.case.ticket_id)
        more = [
            {"record": ticket.id, "field": field, "value": getattr(ticket, field)}
            for field in ("subject", "kind", "desk", "title", "requester")
        ]
        evidence = last.params["evidence"]
        assert _failed_goals(rest, _with(last, evidence=[*evidence, *more[:4]])) == []
        assert _failed_goals(rest, _with(last, evidence=[*evidence, *more])) == ["CitesNothingFalse"]


# -- the grid --------------------------------------------------------------------------------------------------------------

MOST_COMBINATIONS = 400  # of facts, for a task: a random sample if there are more


@pytest.mark.parametrize("name", NAMES)
def test_every_combination_of_facts_has_exactly_one_right_ending(name: str) -> None:
    facts = [cause for cause in cause_specs(FAMILIES[name].causes) if isinstance(cause.annotation, Fact)]
    endings = {ending.name: ending for ending in (make(name, seed=seed).setting.ending for seed in range(200))}
    for seed in range(size(1, 4, name)):
        base = make(name, seed=seed, chaos=0.0).task_id
        played = 0
        grid = list(product(*(cause.alternatives for cause in facts)))
        for values in Streams(base).at("grid").sample(grid, min(len(grid), MOST_COMBINATIONS)):
            try:
                env = make(do(base, **{cause.name: value for cause, value in zip(facts, values, strict=True)}))
            except BadTask:  # so many overrides make the id too long
                continue
            played += 1
            rest, last = _before_the_end(env)
            for ending in endings.values():
                tried = _with(last, resolution=ending.resolution, reason=ending.reason)
                right = ending.name == env.setting.ending.name
                assert (_failed_goals(rest, tried) == []) == right, (env.task_id, ending.name)
        assert played >= min(len(grid), MOST_COMBINATIONS) / 2
