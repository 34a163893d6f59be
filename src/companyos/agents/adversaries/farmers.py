"""Farmers: adversaries that repeat actions to collect rewards, or hope for luck. They never look at the values they read."""

from companyos.agents.choices.candidates import Candidates
from companyos.company import ApprovalType, Entry, Metric, Person, Ticket
from companyos.core.calls import Call, Program, Reply
from companyos.core.world import Streams
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation


class Farm:
    """The state of a farmer: the ticket of the brief and what replies have told so far."""

    def __init__(self, obs: Observation, seed: int) -> None:
        self.told = Knowledge(obs.task)
        self.ticket = next(iter(self.told.known(Ticket)))
        self.streams = Streams(f"farmer/{seed}")

    def ask(self, app: str, method: str, **params: object) -> "Program":
        """Make a call and remember the reply."""
        reply = yield Call(app, method, params)
        self.told.hear(reply)
        self.last: Reply = reply

    def look_around(self) -> Program:
        """Read the ticket, register entries with its reference, metrics that they name, the forms, and some people."""
        yield from self.ask("ticketdesk", "get_ticket", ticket_id=self.ticket)
        yield from self.ask("datahub", "search_register", query=str(self.told.facts.get((self.ticket, "reference"), "")))
        for entry in list(self.told.known(Entry))[:2]:
            yield from self.ask("datahub", "get_entry", entry_id=entry)
        for metric in list(self.told.known(Metric))[:2]:
            yield from self.ask("datahub", "query_metric", metric_name=metric)
        yield from self.ask("approvalflow", "list_approval_types")
        yield from self.ask("datahub", "get_person", person_id=self.told.facts.get((self.ticket, "requester"), ""))
        for role in ("CFO", "CTO", "HR Lead", "Procurement Lead"):
            yield from self.ask("datahub", "get_approver", role=role)

    def update(self, field: str, value: str) -> Program:
        yield from self.ask("ticketdesk", "update_ticket", ticket_id=self.ticket, field=field, value=value)

    def submit(self, number: int) -> Program:
        """Submit the ticket's form to another person each time. Fields without a known value get the text `1`."""
        forms, people = list(self.told.known(ApprovalType)), list(self.told.known(Person))
        if not forms or not people:
            yield from self.look_around()
            return
        kind = self.told.facts.get((self.ticket, "kind"))
        form = kind if kind in forms else forms[0]
        known = next(data for data in Candidates(self.told).forms() if data["ticket_id"] == self.ticket)
        data = {field: known.get(field, "1") for field in self.told.forms.get(form, [])}
        person = self.streams.at("people").shuffled(people)[number % len(people)]
        yield from self.ask("approvalflow", "submit_approval", approval_type=form, approver=person, data=data)


def verify(obs: Observation, seed: int) -> Program:
    """Verifies the ticket, undoes that, and verifies it again."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    entries = list(farm.told.known(Entry)) or [""]
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
        for metric in list(farm.told.known(Metric)) or ["none.none"]:
            yield from farm.ask("datahub", "refresh_data", metric_name=metric)
            yield from farm.ask("datahub", "query_metric", metric_name=metric)


def submit(obs: Observation, seed: int) -> Program:
    """Submits requests to everybody in turn, and withdraws each one before the next."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    number = 0
    while True:
        yield from farm.submit(number)
        if farm.last.ok and "id" in farm.last.data:
            yield from farm.ask("approvalflow", "withdraw", approval_id=farm.last.data["id"])
        number += 1


def poll(obs: Observation, seed: int) -> Program:
    """Submits one request, then polls its status until the episode ends."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    number = 0
    while True:
        yield from farm.submit(number)
        number += 1
        if farm.last.ok and "decided_by" in farm.last.data:
            break
    request = farm.last.data["id"]
    while True:
        yield from farm.ask("approvalflow", "check_status", approval_id=request)


def approve_by_anyone(obs: Observation, seed: int) -> Program:
    """Verifies, asks one person after the other until somebody signs, links the approval and closes the ticket as done."""
    farm = Farm(obs, seed)
    yield from farm.look_around()
    yield from farm.update("priority", "normal")
    for entry in list(farm.told.known(Entry)):
        yield from farm.update("verified", entry)
    for number in range(6):
        yield from farm.submit(number)
        if not (farm.last.ok and "decided_by" in farm.last.data):
            continue
        request = farm.last.data["id"]
        yield from farm.ask("ticketdesk", "wait", hours=24)
        yield from farm.ask("approvalflow", "check_status", approval_id=request)
        if farm.last.ok and farm.last.data["status"] == "approved":
            yield from farm.update("approval", request)
            break
    evidence = [
        {"record": record, "field": field, "value": value}
        for (record, field), value in farm.told.facts.items()
        if record.startswith("A-") and field in ("status", "decided_by")
    ]
    yield from farm.ask(
        "ticketdesk",
        "resolve_ticket",
        ticket_id=farm.ticket,
        resolution="completed",
        reason="all_checks_passed",
        evidence=evidence[-2:],
    )
