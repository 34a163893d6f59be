"""The expert of vendor onboarding: it reads the rules, makes the checks that they ask for, and does what they order."""

from typing import Any

from companyos.core.calls import Procedure
from companyos.core.errors import Stuck
from companyos.families.kit import casework, moves, working
from companyos.families.kit.family import EpisodeSoFar, ExpertStyle
from companyos.families.kit.moves import Move, Shown
from companyos.families.kit.study import Papers, found_out, study
from companyos.families.vendor_onboarding.causes import FORM, SECOND_FORM
from companyos.families.vendor_onboarding.rules import COSTS, RULES
from companyos.rules import Amends, Limit, Question, Ruling, VersionDay, decide, figure
from companyos.rules.conditions import Value


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the rules order, from the start or after earlier turns of somebody else."""
    ticket, approved = yield from casework.take_over(so_far)
    yield from casework.set_in_progress(ticket, style)
    papers = yield from study(ticket, RULES, style)
    query = " ".join(ticket["subject"].split()[:2]) if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    entry_id = yield from moves.entry_of(ticket, listed)
    entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    yield from casework.prepare(ticket, entry["id"], style)
    if style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=entry["score_metric"])
    desk = _Desk(ticket, entry, papers, so_far.now)
    ruling = yield from found_out(decide(papers.book, COSTS), desk.find_out)
    yield from working.note((ruling.check, ruling.then.resolution), ruling.then.reason)
    yield from desk.carry_out(ruling, approved)
    decision = ruling.then.resolution, ruling.then.reason, (yield from desk.evidence(ruling))
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (entry, "reference"))


class _Desk:
    """The work on one ticket: what has been found out so far, and the acts that a ruling orders."""

    def __init__(self, ticket: Shown, entry: Shown, papers: Papers, now: str) -> None:
        self.ticket, self.entry, self.papers = ticket, entry, papers
        self.today = now.split()[1]
        self.other: Shown | None = None  # another ticket with the same reference
        self.request: Shown = {}  # the signed request
        self._score: Shown | None = None
        self._requester: Shown | None = None
        self._offices: dict[str, Shown] = {}

    # -- facts ---------------------------------------------------------------------------------------------------------

    def find_out(self, question: Question) -> Move[Value]:
        """Answer a question of the rules, and write the answer down."""
        value = yield from self._answer(question)
        if question.fact == "edition":
            paper = self.papers.versions_with(Limit, question.how[0])[int(value)]
            yield from working.note(("in force then", question.how[0]), paper["id"])
        else:
            yield from working.note((question.fact, *question.how[1:]), str(value).lower())
        return value

    def _answer(self, question: Question) -> Move[Value]:
        ticket, entry = self.ticket, self.entry
        match question.fact:
            case "same_not_cancelled" | "same_open":
                return (yield from self._has_same_ticket(question.fact))
            case "owner":
                return (yield from self._owner())
            case "today":
                return self.today
            case "opened":
                return moves.day(ticket["opened"])
            case "memo_day":
                return moves.day(self.papers.versions_with(Amends)[0]["since"])
            case "score":
                return int((yield from self.score())["value"])
            case "amount":
                return int(ticket["amount"])
            case "framework":
                return bool(entry["framework"] == "yes")
            case "insurance_until" | "applied_on" | "data_class":
                return str(entry[question.fact])
            case "edition":
                limit, day = question.how
                return self.papers.edition(limit, str((yield from self._answer(Question(day)))))
            case "covers":
                return (yield from self._covers(question.how[1]))
        raise Stuck(f"no way to find out {question}")

    def _has_same_ticket(self, fact: str) -> Move[bool]:
        ended = moves.FINISHED if fact == "same_open" else ("cancelled",)
        self.other = yield from moves.other_live_ticket(self.ticket, self.ticket["reference"], ended)
        return self.other is not None

    def _owner(self) -> Move[str]:
        owner, requester = self.entry["owner"], (yield from self.requester())
        if (yield from working.compare(("owner", owner), "==", requester["id"], "requester", "not the requester")):
            return "requester"
        manager = ("manager", requester["manager"])
        is_manager = yield from working.compare(("owner", owner), "==", manager, "the manager", "neither")
        return "manager" if is_manager else "no"

    def _covers(self, office: str) -> Move[bool]:
        """Return whether the limit of an office covers the amount."""
        yield from self.requester()  # whose department has the head
        yield from working.note(("amount", self.ticket["amount"]), f"does {office} cover it")
        holder = yield from self.office(office)
        return (yield from moves.covers(holder, self.ticket["amount"]))

    def score(self) -> Move[Shown]:
        """Return a fresh reading of the compliance score."""
        if self._score is None:
            self._score = yield from moves.fresh_reading(self.entry["score_metric"])
        return self._score

    def requester(self) -> Move[Shown]:
        if self._requester is None:
            self._requester = yield from moves.read("datahub.get_person", person_id=self.ticket["requester"])
        assert self._requester is not None
        return self._requester

    def office(self, name: str) -> Move[Shown]:
        """Return the holder of an office that a rule names."""
        if name not in self._offices:
            role = f"Head of {(yield from self.requester())['department']}" if name == "Head" else name
            self._offices[name] = yield from moves.read("datahub.get_approver", role=role)
        return self._offices[name]

    # -- acts ----------------------------------------------------------------------------------------------------------

    def carry_out(self, ruling: Ruling, approved: dict[str, str]) -> Move[None]:
        """Set the field that records the outcome, or get the forms signed. `approved` are earlier requests, by form."""
        then = ruling.then
        if then.field:
            whom = yield from self._whom(then.whom)
            yield from working.note((then.field, whom), then.reason)
            yield from moves.set_field(self.ticket["id"], then.field, whom)
        if not ruling.signers:
            return
        plan = f"signed by {' and '.join(ruling.signers)}"
        yield from working.note(plan, "needed")
        for office in ruling.signers:
            yield from self.office(office)
        requester = yield from self.requester()
        yield from moves.correct_cost_center(self.ticket, requester)
        data = self._form_data(requester, (yield from self.score())["value"])
        for form, office in zip((FORM, SECOND_FORM), ruling.signers, strict=False):
            if form in approved:
                self.request = yield from moves.read("approvalflow.check_status", approval_id=approved[form])
            else:
                holder = yield from self.office(office)
                metric = self.entry["score_metric"]
                self.request = yield from moves.get_signed(form, holder, data, metric, plan=plan)
            data |= {"first": self.request["id"]}
        yield from moves.set_field(self.ticket["id"], "approval", self.request["id"])
        self._score = yield from moves.fresh_reading(self.entry["score_metric"])  # it may have become too old

    def _whom(self, name: str) -> Move[str]:
        if name == "requester":
            return str(self.ticket["requester"])
        if name == "other":
            assert self.other is not None
            return str(self.other["id"])
        return str((yield from self.office(name))["id"])

    def _form_data(self, requester: Shown, score: int) -> Shown:
        """Return a value for each field that the forms may ask for."""
        ticket, entry = self.ticket, self.entry
        return {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "amount": ticket["amount"],
            "cost_center": requester["cost_center"],
            "score": score,
            "certificate": entry["certificate"],
            "contract": entry["contract"],
        }

    # -- evidence ------------------------------------------------------------------------------------------------------

    def evidence(self, ruling: Ruling) -> Move[list[Shown]]:
        """Return the citations that a ruling asks for."""
        evidence: list[Shown] = []
        for name in ruling.cites:
            evidence += moves.cite((yield from self._citation(name)))
        return evidence

    def _citation(self, name: str) -> Move[tuple[Shown, str]]:
        """Return the record and the field of a fact to cite."""
        match name:
            case "other_reference" | "other_status":
                assert self.other is not None
                return self.other, name.removeprefix("other_")
            case "owner" | "insurance_until" | "certificate" | "data_class":
                return self.entry, name
            case "requester" | "amount":
                return self.ticket, name
            case "score":
                return (yield from self.score()), "value"
            case "minimum":
                return (yield from self._minimum())
            case "limit":
                return (yield from self.office("CFO")), "limit"
            case "status" | "decided_by":
                return self.request, name
        raise Stuck(f"no way to cite {name}")

    def _minimum(self) -> Move[tuple[Any, str]]:
        """Return the paper that sets the minimum score of this case, and the name of the figure there."""
        book = self.papers.book
        applied = yield from found_out(figure(book, "minimum"), self._answer)
        edition = yield from self._answer(Question("edition", ("minimum", book.get(VersionDay, "minimum").day)))
        candidates = [self.papers.versions_with(Limit, "minimum")[int(edition)]]
        candidates += self.papers.versions_with(Amends) if book.all(Amends) else []
        for paper in candidates:
            for name, value in paper.items():
                if name.startswith("minimum") and value == applied:
                    return paper, name
        raise Stuck(f"no paper sets the minimum {applied}")
