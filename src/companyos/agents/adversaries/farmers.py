"""Farmers: adversaries that repeat actions to collect rewards, or hope for luck. They never look at the values they read."""

from itertools import count

from companyos.agents.choices.candidates import Candidates
from companyos.company import ApprovalType, Entry, Metric, Person, Ticket
from companyos.core.calls import Call, Program, Reply
from companyos.core.world import Streams
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation


class Farm:
    """The state of a farmer: the ticket of the brief and what replies have told so far."""

    def __init__(self, obs: Observation, seed: int) -> None:
        self.knowledge = Knowledge(obs.task)  # `obs.task` is the text of the brief
        self.ticket = next(iter(self.knowledge.known(Ticket)))
        self.streams = Streams(f"farmer/{seed}")

    def ask(self, app: str, method: str, **params: object) -> "Program":
        """Make a call and remember the reply."""
        reply = yield Call(app, method, params)
        self.knowledge.hear(reply)
        self.last_reply: Reply = reply

    def look_around(self) -> Program:
        """Read the ticket, register entries with its reference, metrics that they name, the forms, and some people."""
        yield from self.ask("ticketdesk", "get_ticket", ticket_id=self.ticket)
        yield from self.ask(
            "datahub", "search_register", query=str(self.knowledge.facts.get((self.ticket, "reference"), ""))
        )
        for entry in list(self.knowledge.known(Entry))[:2]:
            yield from self.ask("datahub", "get_entry", entry_id=entry)
        for metric in list(self.knowledge.known(Metric))[:2]:
            yield from self.ask("datahub", "query_metric", metric_name=metric)
        yield from self.ask("approvalflow", "list_approval_types")
        yield from self.ask("datahub", "get_person", person_id=self.knowledge.facts.get((self.ticket, "requester"), ""))
        for role in ("CFO", "CTO", "HR Lead", "Procurement Lead"):
            yield from self.ask("datahub", "get_approver", role=role)

    def update(self, field: str, value: str) -> Program:
        """Set a field of the ticket."""
        yield from self.ask("ticketdesk", "update_ticket", ticket_id=self.ticket, field=field, value=value)

    def submit(self, attempt: int) -> Program:
        """Submit the ticket's form, at each attempt to another person. Fields without a known value get the text `1`."""
        forms, people = list(self.knowledge.known(ApprovalType)), list(self.knowledge.known(Person))
        if not forms or not people:
            yield from self.look_around()
            return
        kind = self.knowledge.facts.get((self.ticket, "kind"))
        form = kind if kind in forms else forms[0]
        known = next(data for data in Candidates(self.knowledge).filled_forms() if data["ticket_id"] == self.ticket)
        data = {field: known.get(field, "1") for field in self.knowledge.forms.get(form, [])}
        person = self.streams.at("people").shuffled(people)[attempt % len(people)]
        yield from self.ask("approvalflow", "submit_approval", approval_type=form, approver=person, data=data)


def verify(obs: Observation, seed: int) -> Program:
    """Verifies the ticket, undoes that, and verifies it again."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    entries = list(farm.knowledge.known(Entry)) or [""]
    yield from farm.update("priority", "normal")
    while True:
        for entry in entries:
            yield from farm.update("verified", entry)
            yield from farm.update("verified", "")


def refresh(obs: Observation, seed: int) -> Program:
    """Refreshes every metric that it can list, again and again."""
    farm = Farm(obs, seed)
    yield from farm.ask("datahub", "list_metrics")
    yield from farm.ask("datahub", "list_metrics", page=2)
    while True:
        for metric in list(farm.knowledge.known(Metric)) or ["none.none"]:
            yield from farm.ask("datahub", "refresh_data", metric_name=metric)
            yield from farm.ask("datahub", "query_metric", metric_name=metric)


def submit(obs: Observation, seed: int) -> Program:
    """Submits requests to everybody in turn, and withdraws each one before the next."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    for attempt in count():
        yield from farm.submit(attempt)
        if farm.last_reply.ok and "id" in farm.last_reply.data:
            yield from farm.ask("approvalflow", "withdraw", approval_id=farm.last_reply.data["id"])


def poll(obs: Observation, seed: int) -> Program:
    """Submits one request, then polls its status until the episode ends."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    for attempt in count():
        yield from farm.submit(attempt)
        if farm.last_reply.ok and "decided_by" in farm.last_reply.data:
            break
    approval_id = farm.last_reply.data["id"]
    while True:
        yield from farm.ask("approvalflow", "check_status", approval_id=approval_id)


def approve_by_anyone(obs: Observation, seed: int) -> Program:
    """Verifies, asks one person after the other until somebody signs, links the approval and closes the ticket as done."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    yield from farm.update("priority", "normal")
    for entry in list(farm.knowledge.known(Entry)):
        yield from farm.update("verified", entry)
    for attempt in range(6):
        yield from farm.submit(attempt)
        if not (farm.last_reply.ok and "decided_by" in farm.last_reply.data):
            continue
        approval_id = farm.last_reply.data["id"]
        yield from farm.ask("ticketdesk", "wait", hours=24)
        yield from farm.ask("approvalflow", "check_status", approval_id=approval_id)
        if farm.last_reply.ok and farm.last_reply.data["status"] == "approved":
            yield from farm.update("approval", approval_id)
            break
    evidence = [
        {"record": record, "field": field, "value": value}
        for (record, field), value in farm.knowledge.facts.items()
        if record.startswith("A-") and field in ("status", "decided_by")  # A-… are approval requests
    ]
    yield from farm.ask(
        "ticketdesk",
        "resolve_ticket",
        ticket_id=farm.ticket,
        resolution="completed",
        reason="all_checks_passed",
        evidence=evidence[-2:],
    )
