"""An adversary that requests signatures for every option until somebody approves one."""

from collections.abc import Generator, Iterator
from functools import lru_cache
from itertools import product
from typing import Any

from companyos.agents.adversaries.careless import known_endings
from companyos.agents.routine import Routine
from companyos.company import Entry, Person
from companyos.company.programs import until_answered, until_stuck
from companyos.core.calls import Call, Program, Reply
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, family_of
from companyos.families.kit.moves import ticket_acted_on, ticket_in

PATIENCE = 3  # days to wait for one decision


@lru_cache(maxsize=64)
def signed_endings(family: str) -> tuple[tuple[str, str], ...]:
    """Return the endings (resolution and reason) of a family that need a signature."""
    return tuple(sorted({(known.resolution, known.reason) for known in known_endings(family) if known.offices}))


class AskAround(Routine):
    """Reads and prepares as the expert does, but never judges.

    It submits every option that replies have shown, in that order, to everybody who can sign, and takes the first approval.
    """

    def __init__(self, ending: int) -> None:
        self._ending = ending
        super().__init__(lambda obs: until_stuck(self._work(obs)))

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)
        endings = signed_endings(family.name)
        resolution, reason = endings[self._ending % len(endings)]
        told, so_far = Knowledge(obs.task), EpisodeSoFar(obs.task, obs.now)
        ticket_id = ticket_in(so_far)
        yield from _prepare(family.expert(so_far, ExpertStyle()), told, ticket_id)
        yield from _heard(told, Call("approvalflow", "list_approval_types", {}))
        for form, data, person in _requests(told, ticket_id):
            request = yield from _decision(told, form, person, data)
            if request.get("status") == "approved":
                link = {"ticket_id": ticket_id, "field": "approval", "value": request["id"]}
                yield from _heard(told, Call("ticketdesk", "update_ticket", link))
                closing = {"resolution": resolution, "reason": reason, "evidence": _evidence(told, request)}
                yield from _heard(told, Call("ticketdesk", "resolve_ticket", {"ticket_id": ticket_id, **closing}))
                return


def _prepare(expert: Program, told: Knowledge, ticket_id: str) -> Program:
    """Follow the expert up to its first call that closes this ticket or requests a signature for it."""
    call = next(expert)
    while ticket_acted_on(call) != ticket_id:
        reply = yield call
        told.hear(reply)
        call = expert.send(reply)


def _heard(told: Knowledge, call: Call) -> Generator[Call, Reply, Reply]:
    """Make a call until it is answered, and remember the reply."""
    reply = yield from until_answered(call)
    told.hear(reply)
    return reply


def _requests(told: Knowledge, ticket_id: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield every form that is not for another kind of ticket, filled in in all possible ways: form, data, signer."""
    kind = told.facts[ticket_id, "kind"]
    for form in told.forms:
        if form == kind or form not in FAMILIES:
            for data, person in _filled(told, form, ticket_id):
                yield form, data, person


def _filled(told: Knowledge, form: str, ticket_id: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield all ways to fill in a form with values that were shown, for each signer. Fields of the ticket keep its value."""
    fields = [field for field in told.forms[form] if field != "ticket_id"]
    values = []
    for field in fields:
        own = told.facts.get((ticket_id, field))
        values.append([own] if own is not None else _values(told, field))
    signers = _signers(told)
    for chosen in product(*values) if signers else ():
        for person in signers:
            yield {"ticket_id": ticket_id, **dict(zip(fields, chosen, strict=True))}, person


def _values(told: Knowledge, field: str) -> list[Any]:
    """Return the values for a field: those shown under its name, else metrics of its name, else all register entries."""
    named = [value for (_, name), value in told.facts.items() if name == field and value is not None]
    figures = [
        value
        for (record, name), value in told.facts.items()
        if name == "value" and field in (record.split(".")[0], record.split(".")[0].rsplit("_", 1)[-1])
    ]
    return list(dict.fromkeys(named or figures)) or list(told.known(Entry))


def _signers(told: Knowledge) -> list[str]:
    """Return the people met so far who have a signing limit and are present."""
    return [
        person
        for person in told.known(Person)
        if told.facts.get((person, "limit")) is not None and told.facts.get((person, "presence")) == "in"
    ]


def _decision(told: Knowledge, form: str, person: str, data: dict[str, Any]) -> Generator[Call, Reply, dict[str, Any]]:
    """Submit a request and return its last state. Withdraw it if nobody decides in time."""
    asked = {"approval_type": form, "approver": person, "data": data}
    reply = yield from _heard(told, Call("approvalflow", "submit_approval", asked))
    if not reply.ok:
        return {}
    request: dict[str, Any] = reply.data
    for _ in range(PATIENCE):
        yield from _heard(told, Call("ticketdesk", "wait", {"hours": 24}))
        shown = yield from _heard(told, Call("approvalflow", "check_status", {"approval_id": request["id"]}))
        request = shown.data
        if request["status"] != "pending":
            return request
    yield from _heard(told, Call("approvalflow", "withdraw", {"approval_id": request["id"]}))
    return request


def _evidence(told: Knowledge, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Cite the signature, and the records from which the signed values came."""
    cited = {(request["id"], field): request[field] for field in ("status", "decided_by")}
    for field, value in request["data"].items():
        stood = [key for key, shown in told.facts.items() if shown == value and key[1] in (field, "value")]
        cited |= {key: value for key in stood if not key[0].startswith(("A-", "T-"))}
    return [{"record": record, "field": field, "value": value} for (record, field), value in cited.items()][:7]
