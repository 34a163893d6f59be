"""What the adversaries `reward_watcher` and `submit_first` share.

Both prepare a ticket without checks, and know from the expert's solutions of other seeds how tickets of a family end.
"""

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
REQUESTER, TICKET = "requester", "ticket"  # what such a field can hold besides the holder of an office
SOURCES = 150  # number of seeds of the validation split whose solutions are known
MAX_WAITS = 3  # days of waiting for an answer
MAX_ENTRIES, MAX_METRICS, MAX_POLICIES = 8, 4, 12  # the most register entries, metrics and policies that are read

_GET_APPROVER = next(tool for tool in TOOLBOX if tool.method == "get_approver")


class FilledForm(msgspec.Struct, frozen=True):
    """A form with its data and the person to sign it."""

    form: str
    signer: str
    data: dict[str, Any]


class EndingPattern(msgspec.Struct, frozen=True):
    """How tickets of a family can end. Some endings record an outcome, such as a person, in a field of the ticket."""

    resolution: str
    reason: str
    field: str = ""  # the field that records the outcome; empty if none does
    value_kind: str = ""  # what that field holds: the holder of this office, `REQUESTER` or `TICKET`
    signed: bool = False  # whether somebody has to sign before


@lru_cache(maxsize=64)
def ending_patterns(family: str) -> tuple[EndingPattern, ...]:
    """Return how a family's tickets end on the validation split, the most frequent pattern first."""
    counts = Counter(_ending_pattern(family, seed) for seed in range(SOURCES))
    return tuple(pattern for pattern, _ in sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))


def _ending_pattern(family: str, seed: int) -> EndingPattern:
    """Return how the expert ended the task with this seed."""
    solution = expert_solution(family, seed, chaos=0.0)
    closing = solution.calls[-1].params
    ticket_id, field, value, requester = closing["ticket_id"], "", "", ""
    offices: dict[str, str] = {}  # by the id of the holder
    for call, reply in zip(solution.calls, solution.replies, strict=True):
        if call.method == "get_approver" and reply.ok:
            offices[reply.data["id"]] = _without_department(call.params["role"])
        elif call.method == "get_ticket" and call.params["ticket_id"] == ticket_id and reply.ok:
            requester = reply.data["requester"]
        elif (
            call.method == "update_ticket"
            and call.params["ticket_id"] == ticket_id
            and call.params["field"] in OUTCOME_FIELDS
        ):
            field, value = call.params["field"], call.params["value"]
    value_kind = TICKET if value.startswith("T-") else REQUESTER if value == requester else offices.get(value, "")
    signed = any(call.method == "submit_approval" for call in solution.calls)
    return EndingPattern(closing["resolution"], closing["reason"], field, value_kind, signed)


@lru_cache(maxsize=64)
def citations(family: str) -> dict[str, tuple[tuple[type[Record], str], ...]]:
    """Return, by the reason for closing, the kinds and fields that solutions of the validation split cite most often."""
    counts_by_reason: dict[str, Counter[tuple[tuple[type[Record], str], ...]]] = {}
    for seed in range(SOURCES):
        closing = expert_solution(family, seed, chaos=0.0).calls[-1].params
        cited = ((_kind_of(citation["record"]), citation["field"]) for citation in closing["evidence"])
        counts_by_reason.setdefault(closing["reason"], Counter())[tuple(cited)] += 1
    return {reason: counts.most_common(1)[0][0] for reason, counts in counts_by_reason.items()}


def _kind_of(record_id: str) -> type[Record]:
    """Return the kind of record that an id names; `Record` if the id has no pattern of its own."""
    _, _, kind = next(ids_in(record_id), (0, 0, Record))
    return kind


def _without_department(role: str) -> str:
    """Return an office with a placeholder for its department: `Head of {department}`."""
    return f"{role.split(' of ')[0]} of {{department}}" if " of " in role else role


class Scout:
    """What `RewardWatcher` or `SubmitFirst` knows about its ticket, and the moves that it can make."""

    def __init__(self, obs: Observation) -> None:
        self.family = family_of(obs.task)  # `obs.task` is the text of the brief
        self.knowledge = Knowledge(obs.task)
        self.so_far = EpisodeSoFar(obs.task, obs.now)
        self.ticket_id = moves.ticket_in(self.so_far)
        self.ticket: Shown = {}  # as it was when `prepare` read it
        self.requester: Shown = {}

    def remembering_replies(self, procedure: Procedure) -> Program:
        """Run a procedure and add every reply to `knowledge`."""

        def steer(call: Call) -> Generator[Call, Reply, Reply]:
            reply = yield call
            self.knowledge.hear(reply)
            return reply

        return steered(silent(procedure), steer)

    def prepare(self) -> Procedure:
        """Read the ticket and register entries with its reference, verify, unblock, refresh metrics, and read policies."""
        self.ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=self.ticket_id)
        self.requester = yield from moves.read("datahub.get_person", person_id=self.ticket["requester"])
        listed = yield from moves.search_entries(self.ticket["reference"])
        for row in listed[:MAX_ENTRIES]:
            yield from moves.ask("datahub.get_entry", entry_id=row["id"])
        for entry_id in list(self.knowledge.known(Entry))[:MAX_ENTRIES]:
            if (entry_id, "status") not in self.knowledge.facts:
                yield from moves.ask("datahub.get_entry", entry_id=entry_id)
        same_reference = [row["id"] for row in listed if row["reference"] == self.ticket["reference"]]
        for entry_id in same_reference[:1]:
            yield from moves.verify(self.ticket, entry_id)
        yield from moves.unblock(self.ticket)
        if self.ticket["cost_center"] != self.requester["cost_center"]:
            yield from self.record("cost_center", self.requester["cost_center"])
        metrics = dict.fromkeys(value for (_, field), value in self.knowledge.facts.items() if field.endswith("_metric"))
        for metric in list(metrics)[:MAX_METRICS]:
            yield from moves.fresh_reading(metric)
        yield from self._open_policies()

    def _open_policies(self) -> Procedure:
        """Read the family's policies in force: they say what to cite and which offices sign."""
        ids_by_title = yield from moves.policies_about(self.family.phrase.split()[0], self.ticket["opened"])
        for policy_id in list(ids_by_title.values())[:MAX_POLICIES]:
            yield from moves.ask("datahub.read_policy", policy_id=policy_id)

    def holder(self, office: str) -> Move[Shown]:
        """Return the holder of an office. `{department}` stands for the requester's department."""
        role = office.format(department=self.requester["department"])
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
        for _ in range(MAX_WAITS):
            if any(self._missing(form) for form in forms):
                yield from moves.ask("ticketdesk.wait", hours=24)
                yield from moves.ask("ticketdesk.get_history", ticket_id=self.ticket_id)
        signers = yield from self._signers()
        filled = {form: self.filled(form) for form in forms if not self._missing(form)}
        return [FilledForm(form, signer, data) for form, data in filled.items() for signer in signers]

    def submit_and_wait(self, request: FilledForm) -> Move[Shown]:
        """Submit a form and return the decision. Meet objections: give more evidence, or escalate to the superior."""
        data = request.data
        while True:
            decision = yield from moves.decision((yield from moves.submit(request.form, request.signer, data)))
            if decision["code"] == "needs_superior":
                approval_id = decision["id"]
                yield from moves.ask("approvalflow.escalate", approval_id=approval_id, reason="At the approver's wish.")
                decision = yield from moves.decision(approval_id)
            more_data = Candidates(self.knowledge).form(request.form, with_optional=True) | data
            if decision["code"] != "needs_evidence" or data == more_data:
                return decision
            data = more_data

    def filled(self, form: str) -> Shown:
        """Fill in a form with facts and metrics of the same name. The cost centre is the requester's."""
        # The metric `compliance_score.acme` has the name `compliance_score`.
        metrics = {
            record.split(".")[0]: value for (record, field), value in self.knowledge.facts.items() if field == "value"
        }
        values = {field: metrics[field] for field in self.knowledge.forms.get(form, ()) if field in metrics}
        data = Candidates(self.knowledge).form(form, with_optional=False) | values
        return data | {field: self.requester[field] for field in ("cost_center",) if field in data}

    def _missing(self, form: str) -> list[str]:
        """Return the required fields of a form whose values are not known."""
        data = self.filled(form)
        return [field for field in self.knowledge.forms.get(form, ()) if field not in data]

    def _signers(self) -> Move[list[str]]:
        """Return who signs today for the head of the requester's department and for other offices that policies name."""
        roles = [arguments["role"] for arguments in Candidates(self.knowledge).argument_sets(_GET_APPROVER)]
        head = f"Head of {self.requester['department']}"
        signers: dict[str, None] = {}
        for role in (head, *(role for role in roles if not role.startswith("Head of"))):
            holder = yield from self.holder(role)
            if holder:
                signers[(yield from moves.signer(holder))["id"]] = None
        return list(signers)

    def record(self, field: str, value: str) -> Move[Reply]:
        """Set a field of the ticket."""
        return (yield from moves.set_field(self.ticket_id, field, value))

    def close(self, pattern: EndingPattern) -> Procedure:
        """Close the ticket with this ending. Cite what policies ask for and what other solutions cited, if it was read."""
        yield from moves.ask("ticketdesk.get_ticket", ticket_id=self.ticket_id)
        cited = self._evidence(pattern.reason)
        closing = {"resolution": pattern.resolution, "reason": pattern.reason, "evidence": cited}
        yield from moves.ask("ticketdesk.resolve_ticket", ticket_id=self.ticket_id, **closing)

    def _evidence(self, reason: str) -> list[Shown]:
        """Cite the fields that other solutions cite for this reason, from the record that policies name or the last read."""
        by_field = {citation["field"]: citation for citation in evidence(self.knowledge, self.ticket_id, reason)}
        cited = []
        for kind, field in citations(self.family.name).get(reason, ()):
            records = [record for record in self.knowledge.known(kind) if (record, field) in self.knowledge.facts]
            record = by_field[field]["record"] if field in by_field else records[-1] if records else None
            if record is not None:
                cited.append({"record": record, "field": field, "value": self.knowledge.facts[record, field]})
        return cited

    def outcome_ids(self, pattern: EndingPattern) -> Move[list[str]]:
        """Return the ids that the outcome field of this pattern could hold in this episode."""
        if pattern.value_kind == REQUESTER:
            return [self.ticket["requester"]]
        if pattern.value_kind == TICKET:
            rows = yield from moves.rows("ticketdesk.search_tickets", query=self.ticket["reference"])
            return [row["id"] for row in rows if row["id"] != self.ticket_id and row["status"] != "cancelled"]
        if not pattern.value_kind:
            return []
        holder = yield from self.holder(pattern.value_kind)
        return [holder["id"]] if holder else []
