"""What `reward_watcher` and `submit_first` share: they prepare a ticket without checks, and know how others have ended."""

from collections import Counter
from collections.abc import Generator
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.adversaries.scripts import expert_solution
from companyos.agents.choices.candidates import Candidates
from companyos.agents.choices.evidence import evidence
from companyos.company import TOOLBOX, Entry
from companyos.company.programs import steered
from companyos.core.calls import Call, Procedure, Program, Reply, silent
from companyos.core.world import Record
from companyos.env.knowledge import Knowledge, ids_in
from companyos.env.observations import Observation
from companyos.families import FAMILIES, family_of
from companyos.families.kit import moves
from companyos.families.kit.family import EpisodeSoFar
from companyos.families.kit.moves import Move, Shown

OUTCOME_FIELDS = ("duplicate_of", "escalated_to", "waiting_on", "assignee")  # fields that record how a ticket ended
REQUESTER, TICKET = "requester", "ticket"  # what such a field can name besides the holder of an office
SOURCES = 150  # seeds of the validation split whose solutions are known
PATIENCE = 3  # waits for an answer
MOST_ENTRIES, MOST_FIGURES, MOST_POLICIES = 8, 4, 12  # limits on what is read

_GET_APPROVER = next(tool for tool in TOOLBOX if tool.method == "get_approver")


class FilledForm(msgspec.Struct, frozen=True):
    """A form with its data and the person to sign it."""

    form: str
    signer: str
    data: dict[str, Any]


class EndingPattern(msgspec.Struct, frozen=True):
    """How tickets of a family can end: resolution, reason, and the field that records the outcome."""

    resolution: str
    reason: str
    field: str = ""
    names: str = ""  # what the field holds: an office, `REQUESTER` or `TICKET`
    signed: bool = False


@lru_cache(maxsize=64)
def ending_patterns(family: str) -> tuple[EndingPattern, ...]:
    """Return how a family's tickets end on the validation split, the most frequent pattern first."""
    counts = Counter(_outcome(family, seed) for seed in range(SOURCES))
    return tuple(outcome for outcome, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))


def _outcome(family: str, seed: int) -> EndingPattern:
    won = expert_solution(family, seed, 0.0)
    closing = won.calls[-1].params
    ticket_id, field, named, asker = closing["ticket_id"], "", "", ""
    offices: dict[str, str] = {}
    for call, reply in zip(won.calls, won.replies, strict=True):
        if call.method == "get_approver" and reply.ok:
            offices[reply.data["id"]] = _plain(call.params["role"])
        elif call.method == "get_ticket" and call.params["ticket_id"] == ticket_id and reply.ok:
            asker = reply.data["requester"]
        elif (
            call.method == "update_ticket"
            and call.params["ticket_id"] == ticket_id
            and call.params["field"] in OUTCOME_FIELDS
        ):
            field, named = call.params["field"], call.params["value"]
    names = TICKET if named.startswith("T-") else REQUESTER if named == asker else offices.get(named, "")
    signed = any(call.method == "submit_approval" for call in won.calls)
    return EndingPattern(closing["resolution"], closing["reason"], field, names, signed)


@lru_cache(maxsize=64)
def citations(family: str) -> dict[str, tuple[tuple[type[Record], str], ...]]:
    """Return the kinds and fields that solutions of the validation split cite, by the reason for closing."""
    found: dict[str, Counter[tuple[tuple[type[Record], str], ...]]] = {}
    for seed in range(SOURCES):
        closing = expert_solution(family, seed, 0.0).calls[-1].params
        cited = ((next(ids_in(one["record"]), (0, 0, Record))[2], one["field"]) for one in closing["evidence"])
        found.setdefault(closing["reason"], Counter())[tuple(cited)] += 1
    return {reason: counts.most_common(1)[0][0] for reason, counts in found.items()}


def _plain(role: str) -> str:
    """Return an office with a placeholder for its department."""
    return f"{role.split(' of ')[0]} of {{department}}" if " of " in role else role


class Scout:
    """The knowledge of such an agent about its ticket, and the programs that it can run on it."""

    def __init__(self, obs: Observation) -> None:
        self.family = family_of(obs.task)
        self.told = Knowledge(obs.task)
        self.so_far = EpisodeSoFar(obs.task, obs.now)
        self.ticket_id = moves.ticket_in(self.so_far)
        self.ticket: Shown = {}
        self.asker: Shown = {}

    def hearing(self, procedure: Procedure) -> Program:
        """Run a procedure and remember every reply."""

        def steer(call: Call) -> Generator[Call, Reply, Reply]:
            reply = yield call
            self.told.hear(reply)
            return reply

        return steered(silent(procedure), steer)

    def prepare(self) -> Procedure:
        """Read the ticket and register entries with its reference, verify, unblock, refresh metrics, and read policies."""
        self.ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=self.ticket_id)
        self.asker = yield from moves.read("datahub.get_person", person_id=self.ticket["requester"])
        listed = yield from moves.search_entries(self.ticket["reference"])
        for row in listed[:MOST_ENTRIES]:
            yield from moves.ask("datahub.get_entry", entry_id=row["id"])
        for entry_id in list(self.told.known(Entry))[:MOST_ENTRIES]:
            if (entry_id, "status") not in self.told.facts:
                yield from moves.ask("datahub.get_entry", entry_id=entry_id)
        exact = [row["id"] for row in listed if row["reference"] == self.ticket["reference"]]
        for entry_id in exact[:1]:
            yield from moves.verify(self.ticket, entry_id)
        yield from moves.unblock(self.ticket)
        if self.ticket["cost_center"] != self.asker["cost_center"]:
            yield from self.record("cost_center", self.asker["cost_center"])
        named = dict.fromkeys(value for (_, field), value in self.told.facts.items() if field.endswith("_metric"))
        for metric in list(named)[:MOST_FIGURES]:
            yield from moves.fresh_reading(metric)
        yield from self._open_policies()

    def _open_policies(self) -> Procedure:
        """Read the family's policies in force: they say what to cite and which offices sign."""
        found = yield from moves.policies_about(self.family.phrase.split()[0], self.ticket["opened"])
        for policy_id in list(found.values())[:MOST_POLICIES]:
            yield from moves.ask("datahub.read_policy", policy_id=policy_id)

    def holder(self, office: str) -> Move[Shown]:
        """Return the holder of an office. `{department}` stands for the requester's department."""
        role = office.format(department=self.asker["department"])
        reply = yield from moves.ask("datahub.get_approver", role=role)
        return reply.data if reply.ok else {}

    def requests(self) -> Move[list[FilledForm]]:
        """Return the forms that fit the ticket, filled in from what was read, for each possible signer, lowest office first.

        Ask the requester once for values that a form needs and that nothing has shown.
        """
        kind = self.ticket["kind"]
        listed = yield from moves.rows("approvalflow.list_approval_types")
        forms = [row["id"] for row in listed if row["id"] == kind] or [
            row["id"] for row in listed if row["id"] not in FAMILIES
        ]
        missing = dict.fromkeys(field for form in forms for field in self._missing(form))
        if missing:
            text = f"Could you tell me, please: {', '.join(missing)}?"
            yield from moves.ask("ticketdesk.comment", ticket_id=self.ticket_id, text=text, to=self.ticket["requester"])
        for _ in range(PATIENCE):
            if any(self._missing(form) for form in forms):
                yield from moves.ask("ticketdesk.wait", hours=24)
                yield from moves.ask("ticketdesk.get_history", ticket_id=self.ticket_id)
        signers = yield from self._signers()
        filled = {form: self.filled(form) for form in forms if not self._missing(form)}
        return [FilledForm(form, signer, data) for form, data in filled.items() for signer in signers]

    def decided(self, request: FilledForm) -> Move[Shown]:
        """Submit a form and return the decision. Meet objections: give more evidence, or escalate to the superior."""
        data = request.data
        while True:
            found = yield from moves.decision((yield from moves.submit(request.form, request.signer, data)))
            if found["code"] == "needs_superior":
                yield from moves.ask("approvalflow.escalate", approval_id=found["id"], reason="At the approver's wish.")
                found = yield from moves.decision(found["id"])
            whole = Candidates(self.told).form(request.form, whole=True)
            if found["code"] != "needs_evidence" or data == whole | data:
                return found
            data = whole | data

    def filled(self, form: str) -> Shown:
        """Fill in a form with facts and metrics of the same name. The cost centre is the requester's."""
        read = {record.split(".")[0]: value for (record, field), value in self.told.facts.items() if field == "value"}
        figures = {field: read[field] for field in self.told.forms.get(form, ()) if field in read}
        known = Candidates(self.told).form(form, whole=False) | figures
        return known | {field: self.asker[field] for field in ("cost_center",) if field in known}

    def _missing(self, form: str) -> list[str]:
        known = self.filled(form)
        return [field for field in self.told.forms.get(form, ()) if field not in known]

    def _signers(self) -> Move[list[str]]:
        """Return who signs today for the head of the requester's department and for other offices that policies name."""
        said = [way["role"] for way in Candidates(self.told).every(_GET_APPROVER)]
        found: dict[str, None] = {}
        for role in (f"Head of {self.asker['department']}", *(role for role in said if not role.startswith("Head of"))):
            holder = yield from self.holder(role)
            if holder:
                found[(yield from moves.signer(holder))["id"]] = None
        return list(found)

    def record(self, field: str, value: str) -> Move[Reply]:
        return (yield from moves.set_field(self.ticket_id, field, value))

    def close(self, outcome: EndingPattern) -> Procedure:
        """Close the ticket with this ending. Cite what policies ask for and what other solutions cited, if it was read."""
        yield from moves.ask("ticketdesk.get_ticket", ticket_id=self.ticket_id)
        cited = self._evidence(outcome.reason)
        closing = {"resolution": outcome.resolution, "reason": outcome.reason, "evidence": cited}
        yield from moves.ask("ticketdesk.resolve_ticket", ticket_id=self.ticket_id, **closing)

    def _evidence(self, reason: str) -> list[Shown]:
        """Cite the fields that other solutions cite for this reason, from the record that policies name or the last read."""
        asked = {one["field"]: one for one in evidence(self.told, self.ticket_id, reason)}
        cited = []
        for kind, field in citations(self.family.name).get(reason, ()):
            shown = [record for record in self.told.known(kind) if (record, field) in self.told.facts]
            record = asked[field]["record"] if field in asked else shown[-1] if shown else None
            if record is not None:
                cited.append({"record": record, "field": field, "value": self.told.facts[record, field]})
        return cited

    def named(self, outcome: EndingPattern) -> Move[list[str]]:
        """Return the ids that the outcome field could hold here."""
        if outcome.names == REQUESTER:
            return [self.ticket["requester"]]
        if outcome.names == TICKET:
            rows = yield from moves.rows("ticketdesk.search_tickets", query=self.ticket["reference"])
            return [row["id"] for row in rows if row["id"] != self.ticket_id and row["status"] != "cancelled"]
        if not outcome.names:
            return []
        holder = yield from self.holder(outcome.names)
        return [holder["id"]] if holder else []
