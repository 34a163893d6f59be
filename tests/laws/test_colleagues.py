"""Law: colleagues answer every request and every comment."""

import pytest
from msgspec.structs import replace

from companyos.company import TOOLBOX, Approval, ApprovalType, Message, Metric, Person, Ticket
from companyos.core.calls import Call
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.company import SEEDS_PER_COMPANY
from tests.laws import NAMES, seeds


def _requests(env: CompanyEnv) -> list[dict[str, object]]:
    """Return requests of every form for every open ticket of its kind, with right values and with meaningless ones."""
    solved = env.fork()
    run_expert(solved)
    right = {a.type: dict(a.data) for a in solved.world.all(Approval)}
    found: list[dict[str, object]] = []
    for form in env.world.all(ApprovalType):
        for ticket in env.world.all(Ticket):
            if ticket.kind == (form.about or form.id) and ticket.status in ("open", "in_progress"):
                same = {here: getattr(ticket, there) or 1 for here, there in form.same_as_ticket.items()}
                for known in (right.get(form.id, {}), {}):
                    filled = {field: known.get(field, 1) for field in form.required}
                    found.append({"approval_type": form.id, "data": {**filled, **same, "ticket_id": ticket.id}})
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_request_is_decided_without_a_crash(name: str) -> None:
    decided, signs = set(), False
    for seed in seeds(6, 20):
        env = make(name, seed=seed * SEEDS_PER_COMPANY, size="small")  # signing limits differ between companies
        actor = env.setting.case.actor
        signs |= _has_a_form(env)
        for request in _requests(env):
            own = env.world.get(ApprovalType, str(request["approval_type"])).offices
            for office in dict.fromkeys(("CFO", "CTO", "HR Lead", "Procurement Lead", *own)):
                world = env.world.fork()
                approver = next((p.id for p in world.all(Person) if p.role == office), None)
                if approver is None:  # `Head of {department}`: the requester's department
                    continue
                call = Call("approvalflow", "submit_approval", {**request, "approver": approver})
                assert TOOLBOX.call(world, actor, call).ok
                world.advance(10 * DAY)
                decided |= {(a.status, a.code) for a in world.all(Approval)}
    assert all(status in ("approved", "rejected") for status, _ in decided)
    assert len(decided) > (3 if signs else 2)  # a family without a form has only the requests of other desks


@pytest.mark.parametrize("name", NAMES)
def test_every_comment_is_answered(name: str) -> None:
    env = make(name, seed=1)
    world, case = env.world, env.setting.case
    others = [person.id for person in world.all(Person) if person.id != case.actor]
    for person in others:
        params = {"ticket_id": case.ticket_id, "text": "Hello?", "to": person}
        assert TOOLBOX.call(world, case.actor, Call("ticketdesk", "comment", params)).ok
    world.advance(10 * DAY)
    assert {m.sender for m in world.all(Message) if m.to == case.actor and m.topic == "comment"} == set(others)


def _has_a_form(env: CompanyEnv) -> bool:
    """Return whether there is a form for tickets of the brief's kind."""
    kind = env.world.get(Ticket, env.setting.case.ticket_id).kind
    return any((form.about or form.id) == kind for form in env.world.all(ApprovalType))


def _asks(env: CompanyEnv) -> tuple[CompanyEnv, Call] | None:
    """Return the episode before the expert's first request for a signature, and that call, or None if there is none."""
    solved, before = env.fork(), env.fork()
    run_expert(solved)
    for turn in solved.turns:
        if turn.call.method == "submit_approval":
            return before, turn.call
        before.step(turn.call)
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_that_becomes_too_old_while_a_request_waits_does_not_count_against_it(name: str) -> None:
    asked, signs = 0, False
    for seed in seeds(40, 200, name=name):
        env = make(name, seed=seed)
        signs |= _has_a_form(env)
        found = _asks(env)
        if found is None:
            continue
        world, actor = found[0].world, found[0].setting.case.actor
        for metric in list(world.all(Metric)):
            last_minute = world.now - (metric.max_age_days + 1) * DAY + 1  # the metric is still fresh then
            world.put_at_start(replace(metric, measured_at=last_minute))
        request = TOOLBOX.call(world, actor, found[1])
        assert request.ok
        world.advance(10 * DAY)
        assert world.get(Approval, request.data["id"]).status == "approved", (found[0].task_id, request)
        asked += 1
    assert bool(asked) == signs
