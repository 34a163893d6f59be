"""An adversary that requests signatures for every option until somebody approves one."""

from collections.abc import Generator, Iterator
from functools import lru_cache
from itertools import product
from typing import Any

from companyos.agents.adversaries.fixed_endings import known_endings
from companyos.agents.routine import Routine
from companyos.company import Entry, Person
from companyos.company.programs import stop_when_stuck, until_answered
from companyos.core.calls import Call, Program, Reply
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, family_of
from companyos.families.kit.moves import ticket_acted_on, ticket_in

MAX_DAYS = 3  # of waiting for one decision
MAX_CITATIONS = 7


@lru_cache(maxsize=64)
def signed_endings(family: str) -> tuple[tuple[str, str], ...]:
    """Return the endings (resolution and reason) of a family that need a signature."""
    return tuple(sorted({(ending.resolution, ending.reason) for ending in known_endings(family) if ending.offices}))


class AskAround(Routine):
    """Reads and prepares as the expert does, but never judges.

    It submits every option that replies have shown, in that order, to everybody who can sign, and takes the first approval.
    `ending_index` chooses how it then closes the ticket, among the endings that need a signature (modulo their number).
    """

    def __init__(self, ending_index: int) -> None:
        self._ending_index = ending_index
        super().__init__(lambda obs: stop_when_stuck(self._work(obs)))

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)  # `obs.task` is the text of the brief
        endings = signed_endings(family.name)
        resolution, reason = endings[self._ending_index % len(endings)]
        knowledge, so_far = Knowledge(obs.task), EpisodeSoFar(obs.task, obs.now)
        ticket_id = ticket_in(so_far)
        yield from _follow_until_decision(family.expert(so_far, ExpertStyle()), knowledge, ticket_id)
        yield from _ask(knowledge, Call("approvalflow", "list_approval_types", {}))
        for form, data, signer in _requests(knowledge, ticket_id):
            request = yield from _decision(knowledge, form, signer, data)
            if request.get("status") == "approved":
                link = {"ticket_id": ticket_id, "field": "approval", "value": request["id"]}
                yield from _ask(knowledge, Call("ticketdesk", "update_ticket", link))
                closing = {"resolution": resolution, "reason": reason, "evidence": _evidence(knowledge, request)}
                yield from _ask(knowledge, Call("ticketdesk", "resolve_ticket", {"ticket_id": ticket_id, **closing}))
                return


def _follow_until_decision(expert: Program, knowledge: Knowledge, ticket_id: str) -> Program:
    """Follow the expert up to its first call that closes this ticket or requests a signature for it."""
    call = next(expert)
    while ticket_acted_on(call) != ticket_id:
        reply = yield call
        knowledge.hear(reply)
        call = expert.send(reply)


def _ask(knowledge: Knowledge, call: Call) -> Generator[Call, Reply, Reply]:
    """Make a call until it is answered, and remember the reply."""
    reply = yield from until_answered(call)
    knowledge.hear(reply)
    return reply


def _requests(knowledge: Knowledge, ticket_id: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield every form that is not for another kind of ticket, filled in in all possible ways: form, data, signer."""
    kind = knowledge.facts[ticket_id, "kind"]
    for form in knowledge.forms:
        if form == kind or form not in FAMILIES:
            for data, signer in _filled(knowledge, form, ticket_id):
                yield form, data, signer


def _filled(knowledge: Knowledge, form: str, ticket_id: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the data of a form, filled in in all possible ways from values that were shown, and each signer.

    A field that the ticket has, too, gets the ticket's value.
    """
    fields = [field for field in knowledge.forms[form] if field != "ticket_id"]
    options = []
    for field in fields:
        value_on_ticket = knowledge.facts.get((ticket_id, field))
        options.append([value_on_ticket] if value_on_ticket is not None else _values(knowledge, field))
    signers = _signers(knowledge)
    for values in product(*options) if signers else ():
        for signer in signers:
            yield {"ticket_id": ticket_id, **dict(zip(fields, values, strict=True))}, signer


def _values(knowledge: Knowledge, field: str) -> list[Any]:
    """Return the values for a field: those shown under its name, else metrics of its name, else all register entries."""
    same_name = [value for (_, name), value in knowledge.facts.items() if name == field and value is not None]
    metrics = [
        value
        for (record, name), value in knowledge.facts.items()
        # The metric `compliance_score.acme` has the name `compliance_score`; a form may call it `score`.
        if name == "value" and field in (record.split(".")[0], record.split(".")[0].rsplit("_", 1)[-1])
    ]
    return list(dict.fromkeys(same_name or metrics)) or list(knowledge.known(Entry))


def _signers(knowledge: Knowledge) -> list[str]:
    """Return the people met so far who have a signing limit and are present."""
    return [
        person
        for person in knowledge.known(Person)
        if knowledge.facts.get((person, "limit")) is not None and knowledge.facts.get((person, "presence")) == "in"
    ]


def _decision(knowledge: Knowledge, form: str, signer: str, data: dict[str, Any]) -> Generator[Call, Reply, dict[str, Any]]:
    """Submit a request and return its last state. Withdraw it if nobody decides in time."""
    arguments = {"approval_type": form, "approver": signer, "data": data}
    reply = yield from _ask(knowledge, Call("approvalflow", "submit_approval", arguments))
    if not reply.ok:
        return {}
    request: dict[str, Any] = reply.data
    for _ in range(MAX_DAYS):
        yield from _ask(knowledge, Call("ticketdesk", "wait", {"hours": 24}))
        reply = yield from _ask(knowledge, Call("approvalflow", "check_status", {"approval_id": request["id"]}))
        request = reply.data
        if request["status"] != "pending":
            return request
    yield from _ask(knowledge, Call("approvalflow", "withdraw", {"approval_id": request["id"]}))
    return request


def _evidence(knowledge: Knowledge, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Cite the signature, and the records from which the signed values came."""
    cited = {(request["id"], field): request[field] for field in ("status", "decided_by")}
    for field, value in request["data"].items():
        sources = [fact for fact, shown in knowledge.facts.items() if shown == value and fact[1] in (field, "value")]
        # Not from approval requests (A-…) and tickets (T-…): the agent has written these itself.
        cited |= {fact: value for fact in sources if not fact[0].startswith(("A-", "T-"))}
    return [{"record": record, "field": field, "value": value} for (record, field), value in cited.items()][:MAX_CITATIONS]
