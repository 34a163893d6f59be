"""Law: a rejection names the wrong field or the broken rule, but reveals no values, and no rule to a wrong request."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance.twins import twins_with_other_ending
from companyos.company import TOOLBOX, Approval, Ticket
from companyos.company.colleagues import RULINGS
from companyos.core.calls import Call
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from tests.laws import NAMES, seeds

IDS = r"\b[TAEP]-\d+\b|[a-z_]+\.[a-z0-9_]+"  # ids of tickets, requests, entries, policies and metrics
Params = dict[str, Any]


def right_requests(tasks: list[str]) -> list[Params]:
    """Return what the experts of these tasks submit: one request of each form and set of fields."""
    found: dict[tuple[str, ...], Params] = {}
    for task in tasks:
        env = make(task)
        run_expert(env)
        for turn in env.turns:
            if turn.call.method == "submit_approval":
                found[turn.call.params["approval_type"], *sorted(turn.call.params["data"])] = turn.call.params
    return list(found.values())


def spoilt(request: Params) -> list[Params]:
    """Return the request with one wrong value, for each field in turn except the ticket."""
    data = request["data"]
    # A review that does not exist is rejected as `not_reviewed` in every case.
    fields = [field for field in data if field not in ("ticket_id", "legal_review")]
    return [{**request, "data": {**data, field: "no such thing"}} for field in fields]


def rejections(env: CompanyEnv, request: Params) -> set[tuple[str, str]]:
    """Return the codes and texts with which a request is rejected."""
    world, case = env.world.fork(), env.setting.case
    world.put(replace(world.get(Ticket, case.ticket_id), verified=case.roles["entry"]))
    asked = TOOLBOX.call(world, case.actor, Call("approvalflow", "submit_approval", request))
    world.advance(10 * DAY)
    decided = world.get(Approval, asked.data["id"]) if asked.ok else None
    return {(decided.code, decided.reason)} if decided and decided.status == "rejected" else set()


@pytest.mark.parametrize("name", NAMES)
def test_a_request_with_a_wrong_value_never_tells_how_the_case_stands(name: str) -> None:
    wrong, right = set(), set()
    for seed in seeds(2, 20, name=name):
        task = make(name, seed=seed).task_id
        tasks = [task, *(other for _, other in twins_with_other_ending(task))]
        requests = right_requests(tasks)
        for env in map(make, tasks):
            for request in requests:
                right |= rejections(env, request)
                for one in spoilt(request):
                    wrong |= rejections(env, one)
    print(f"{name}: as submitted {sorted({code for code, _ in right})}, spoilt {sorted({code for code, _ in wrong})}")
    assert not {code for code, _ in wrong} & {*RULINGS, "beyond_authority"}
    assert not [reason for _, reason in wrong | right if re.search(r"\d", re.sub(IDS, "", reason))]
