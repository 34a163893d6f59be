"""Handbook update: may the handbook say this number, and has everybody signed who must?

What makes it hard: several documents limit the same topic with different numbers. Their kind, status and date decide which
one takes precedence, not the order in which a search shows them. Only the requester knows from which date the change shall
apply. Some sections need two signatures, and the second request must name the first.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Mind, Person, Policy, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.handbook_papers import (
    SPECIAL,
    TOPICS,
    HandbookPapers,
    add_documents,
    add_papers,
    allows,
    draw_rungs,
)
from companyos.families.handbook_rules import (
    BRIEFS,
    KIND,
    REVIEW_FORM,
    UPDATE_FORM,
    add_handbook_policies,
    hire,
    review_form,
    update_form,
)
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line, set_metric, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket
from companyos.families.kit.working import compare

# -- causes ------------------------------------------------------------------------------------------------------------

# The fields that decide which document takes precedence.
_PRECEDENCE_FIELDS = tuple(("Policy", name, field) for name in SPECIAL for field in ("status", "since"))


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this section, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.89, 0.11), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    foreign: Annotated[
        bool, Fact(odds=(0.89, 0.11), shown_in=(("Entry", "entry", "owner"),)), "another department owns the section"
    ]
    law: Annotated[
        bool, Fact(odds=(0.88, 0.12), shown_in=(("Entry", "entry", "set_by"),)), "the law sets what the section says"
    ]
    proposed: Annotated[
        Literal["same", "low", "mid", "high"],
        Fact(odds=(0.1, 0.3, 0.35, 0.25), shown_in=(("Entry", "proposal", "proposed"),)),
        "the proposed number: the present one, or below, between or near the limits of the three documents",
    ]
    governs: Annotated[
        Literal["general", "board", "council"],
        Fact(odds=(0.2, 0.4, 0.4), shown_in=_PRECEDENCE_FIELDS),
        "which document takes precedence, by kind, status and date",
    ]
    unread: Annotated[
        bool,
        Fact(odds=(0.8, 0.2), shown_in=(("Source", "readers", "value"), ("Metric", "readers", "value"))),
        "too few people have read the draft",
    ]
    notice: Annotated[
        Literal["short", "fair", "long"],
        Fact(odds=(0.1, 0.25, 0.65), shown_in=(("Mind", "requester", "knows"),)),
        "the days until the change shall apply, compared with the two notice periods; only the requester knows",
    ]
    binding: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "entry", "class"),)),
        "the section is part of contracts, so it needs more notice and a second signature",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    readers_stale: Annotated[bool, Trouble(dial="stale", target=("readers",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("readers",))]
    lead_away: Annotated[bool, Trouble(dial="absence", target=("lead",))]
    lead_deputy_away: Annotated[bool, Trouble(dial="absence", target=("lead_deputy",))]
    counsel_away: Annotated[bool, Trouble(dial="absence", target=("counsel",))]
    counsel_deputy_away: Annotated[bool, Trouble(dial="absence", target=("counsel_deputy",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(
            dial="rejections", target=("lead", "lead_deputy", "lead_third", "counsel", "counsel_deputy", "counsel_third")
        ),
    ]
    version_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=version"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department, other_department = draw.sample(DEPARTMENTS, 2)
    requester = world.get(Person, staff[f"{department} Associate"])
    consultation = {"minimum": draw.pick((60, 65, 70, 75)), "max_age_days": draw.between(7, 14)}
    notice_days = draw.pick((14, 21, 28))
    notice = {"notice_days": notice_days, "notice_days_contractual": notice_days + draw.pick((14, 21, 28))}
    consultation_policy, notice_policy = add_handbook_policies(company, consultation, notice)
    world.put_at_start(update_form(consultation_policy.id))
    world.put_at_start(review_form())
    topic, rungs = draw.pick(TOPICS), draw_rungs(draw)
    documents = add_documents(company, streams.at("documents"), topic, rungs, causes.governs)
    owner, section_class = other_department if causes.foreign else "People", "contractual" if causes.binding else "ordinary"
    section_details = {"owner": owner, "class": section_class, "set_by": "law" if causes.law else "company"}
    papers = add_papers(company, draw, topic, rungs, section_details, causes.proposed)
    readers = papers.section.details["readers_metric"]
    _set_readers(world, readers, consultation, causes)
    # The records and people of the case: ids by role. `lead_third` signs if `lead` and `lead_deputy` are away.
    roles = documents | {
        "requester": requester.id,
        "entry": papers.section.id,  # what the ticket is about
        "proposal": papers.proposal.id,
        "readers": readers,
        "steward": papers.section.details["steward"],
        "form": UPDATE_FORM,
        "policy": consultation_policy.id,
        "notice": notice_policy.id,
        "owner_head": staff[f"Head of {other_department}"],
        "lead": staff["HR Lead"],
        "lead_deputy": staff["Deputy HR Lead"],
        "lead_third": staff["HR Generalist"],
        "counsel": staff["Legal Counsel"],
        "counsel_deputy": staff["Deputy Legal Counsel"],
        "counsel_third": staff["Contracts Lawyer"],
    }
    roles |= _add_tickets(company, draw, papers, requester, causes)
    _tell_requester(world, roles, notice, causes)
    partner = world.get(Person, staff["HR Partner"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], section=papers.section.name, partner=partner.name)
    return Case(roles["ticket"], staff["HR Analyst"], brief, roles)


def _set_readers(world: World, metric: str, terms: dict[str, int], causes: Causes) -> None:
    """Set the share of readers to a value below the minimum or above it, as the cause `unread` says."""
    band = (25, terms["minimum"] - 1) if causes.unread else (terms["minimum"], 97)
    value = world.streams.at("readers", str(causes.unread)).between(*band)
    set_metric(world, metric, value, terms["max_age_days"])


def _tell_requester(world: World, roles: dict[str, str], terms: dict[str, int], causes: Causes) -> None:
    """Let the requester know from which date the change shall apply. No record has this date."""
    ordinary, contractual = terms["notice_days"], terms["notice_days_contractual"]
    band = {"short": (3, ordinary - 1), "fair": (ordinary, contractual - 1), "long": (contractual, 120)}[causes.notice]
    days = world.streams.at("notice", causes.notice).between(*band)
    effective = stamp(world.get(Ticket, roles["ticket"]).opened + days * DAY)[:10]
    tell(world, roles["requester"], roles["ticket"], {"effective": effective})


def _add_tickets(company: Backdrop, draw: Draw, papers: HandbookPapers, requester: Person, causes: Causes) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same section, a decoy and a blocker. Return their ids by role."""
    section, _, namesake, decoy_section = papers
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Change: {section.name}",
        kind=KIND,
        desk="people",
        assignee=company.staff["HR Analyst"],
        subject=section.name,
        reference=section.reference,
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Change: {namesake.name}",
        subject=namesake.name,
        reference=section.reference if causes.duplicate else namesake.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["HR Partner"],
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="bug_escalation",
        title=f"Change: {decoy_section.name}",
        subject=decoy_section.name,
        reference=decoy_section.reference,
    )


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case)
    section, proposal, readers = roles["entry"], roles["proposal"], roles["readers"]
    to_requester = ("waiting_on", roles["requester"])
    if causes.duplicate:
        facts: CitedFacts = ((roles["earlier"], "reference"), (roles["earlier"], "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", roles["earlier"]))
    if causes.foreign:
        sets = ("escalated_to", roles["owner_head"])
        return ending("escalated", "beyond_authority", decider="head", facts=((section, "owner"),), sets=sets)
    if causes.law:
        return ending("cannot_be_done", "not_covered", decider="desk", facts=((section, "set_by"),), sets=to_requester)
    if causes.proposed == "same":
        facts = ((section, "current"), (proposal, "proposed"))
        return ending("declined", "already_done", decider="desk", facts=facts, sets=to_requester)
    document = world.get(Policy, roles[causes.governs])
    (term,) = world.get(Policy, roles["board"]).terms  # a document on a single topic has a single term
    must_not_cite = tuple((roles[name], term) for name in ("general", *SPECIAL) if name != causes.governs)
    if not allows(term, document.terms[term], int(world.get(Entry, proposal).details["proposed"])):
        facts = ((proposal, "proposed"), (document.id, term))
        return ending(
            "declined", "contradicts_policy", decider="desk", facts=facts, sets=to_requester, must_not_cite=must_not_cite
        )
    if causes.unread:
        facts, sets = ((readers, "value"), (roles["policy"], "minimum")), ("waiting_on", roles["steward"])
        return ending("on_hold", "below_minimum", decider="desk", facts=facts, sets=sets, must_be_fresh=(readers,))
    if causes.notice == "short" or (causes.notice == "fair" and causes.binding):
        notice_term = "notice_days_contractual" if causes.binding else "notice_days"
        facts = ((ANSWER + roles["requester"], "effective"), (roles["notice"], notice_term))
        return ending("declined", "too_late", decider="desk", facts=facts, sets=to_requester, must_be_fresh=(readers,))
    update_request, review_request = f"{SIGNED_REQUEST}:{UPDATE_FORM}", f"{SIGNED_REQUEST}:{REVIEW_FORM}"
    facts = ((update_request, "status"), (update_request, "decided_by"), (document.id, term))
    proposed_value = ("proposed", world.get(Entry, proposal).details["proposed"])
    effective_date = ("effective", world.get(Mind, roles["requester"]).knows[case.ticket_id]["effective"])
    signatures: tuple[Signature, ...] = (Signature(UPDATE_FORM, (proposed_value, effective_date)),)
    decider = "HR Lead"
    if causes.binding:
        facts += ((review_request, "decided_by"),)
        signatures = (Signature(REVIEW_FORM, (proposed_value,)), *signatures)
        decider = "Legal Counsel and HR Lead"
    complete = ending(
        "completed",
        "all_checks_passed",
        decider=decider,
        facts=facts,
        must_be_fresh=(readers,),
        must_not_cite=must_not_cite,
        signed=signatures,
    )
    # Approved requests are not damage, whatever their values; but only those with these values reach the goal.
    return replace(complete, signatures=tuple(Signature(signature.form) for signature in signatures))


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.
# `compare` and the functions of `working` also write down what the expert compares, as working lines.


class HandbookNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Handbook update"

    section: moves.Shown
    proposal: moves.Shown

    def answer(self) -> moves.Move[moves.Shown]:
        """Return the requester's comment that states from which date the change shall apply."""
        text = "From which date shall the change hold?"
        return (yield from moves.ask_person(self.ticket["id"], self.ticket["requester"], "effective", text))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "handbook")
    query = " ".join(ticket["subject"].split()[:2]) if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    filed = {(row["reference"].split("/")[0], row["kind"], row["status"]): row["id"] for row in listed}
    section_id = filed[ticket["reference"], "section", "published"]
    section = yield from moves.read("datahub.get_entry", entry_id=section_id)
    submitted_id = filed[ticket["reference"], "proposal", "submitted"]
    proposal = yield from moves.read("datahub.get_entry", entry_id=submitted_id)
    notes = HandbookNotes(ticket, policies, approved, style, section, proposal)
    yield from notes.read_rule("order of checks")
    yield from casework.prepare(ticket, section["id"], style)
    if style.chooses("ask before it is needed"):
        yield from notes.answer()
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (section, "reference"))


def _decide(notes: HandbookNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, section, proposal = notes.ticket, notes.section, notes.proposal
    duplicate = yield from casework.mark_duplicate(ticket, aloud=True)
    if duplicate is not None:
        return duplicate
    if (yield from compare(("owner", section["owner"]), "!=", "People", "not ours", "ours")):
        yield from notes.read_rule("whose it is")
        head = yield from moves.read("datahub.get_approver", role=f"Head of {section['owner']}")
        yield from notes.record("escalated_to", head["id"])
        return "escalated", "beyond_authority", moves.cite((section, "owner"))
    if (yield from compare(("set_by", section["set_by"]), "==", "law", "cannot be changed", "ours to change")):
        yield from notes.send_back()
        return "cannot_be_done", "not_covered", moves.cite((section, "set_by"))
    proposed = ("proposed", proposal["proposed"])
    if (yield from compare(proposed, "==", ("current", section["current"]), "already so", "a change")):
        yield from notes.send_back()
        return "declined", "already_done", moves.cite((section, "current"), (proposal, "proposed"))
    yield from notes.read_rule("proposals and limits")
    document, term = yield from _governing_document(section["topic"], ticket["opened"], notes.style)
    allowed = allows(term, document[term], int(proposal["proposed"]))
    limit = (term.split("_")[0], document[term])
    yield from working.weigh(("proposed", int(proposal["proposed"])), limit, "allowed" if allowed else "not allowed")
    if not allowed:
        yield from notes.send_back()
        return "declined", "contradicts_policy", moves.cite((proposal, "proposed"), (document, term))
    consultation = yield from notes.read_rule("consultation")
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=section["readers_metric"])
    readers = yield from moves.fresh_reading(section["readers_metric"])
    minimum = ("minimum", consultation["minimum"])
    if (yield from compare(("readers", readers["value"]), "<", minimum, "too few", "enough")):
        yield from notes.record("waiting_on", section["steward"])
        return "on_hold", "below_minimum", moves.cite((readers, "value"), (consultation, "minimum"))
    notice = yield from notes.read_rule("notice")
    answer = yield from notes.answer()
    notice_term = "notice_days_contractual" if section["class"] == "contractual" else "notice_days"
    yield from working.note(("class", section["class"]), f"{notice_term} {notice[notice_term]}")
    days_ahead = yield from working.days(ticket["opened"], answer["effective"])
    if (yield from compare(("days", days_ahead), "<", ("notice", notice[notice_term]), "too late", "in time")):
        yield from notes.send_back()
        yield from _fresh_readers(readers, consultation, answer["at"])
        return "declined", "too_late", moves.cite((answer, "effective"), (notice, notice_term))
    return (yield from _get_signed(notes, readers, consultation, answer, moves.cite((document, term))))


def _governing_document(topic: str, opened: str, style: ExpertStyle) -> moves.Move[tuple[moves.Shown, str]]:
    """Return the document that takes precedence on a topic, and the name of the term that limits the topic."""
    policy_ids = yield from moves.policies_about(topic, opened)
    documents = []
    for policy_id in style.order("documents", list(policy_ids.values())):
        yield from working.note(("in force", *policy_ids.values()), f"read {policy_id}")
        documents.append((yield from moves.read("datahub.read_policy", policy_id=policy_id)))
    limit_term = next(term for term in documents[0] if term.endswith(f"_{topic}"))
    special = [document for document in documents if len(_limits_in(document)) == 1]
    governing = max(special or documents, key=lambda document: str(document["since"]))
    on_topic_alone = ("on this alone", *(document["id"] for document in special or [{"id": "none"}]))
    yield from working.note(on_topic_alone, f"{governing['id']}, since {moves.day(governing['since'])}")
    return governing, limit_term


def _limits_in(document: moves.Shown) -> list[str]:
    """Return the names of the terms of a document that are limits, such as `most_remote_days`."""
    return [term for term in document if term.startswith(("most_", "least_"))]


def _get_signed(
    notes: HandbookNotes,
    readers: moves.Shown,
    consultation: moves.Shown,
    answer: moves.Shown,
    evidence: list[moves.Shown],
) -> moves.Move[Decision]:
    """Get the signature of the HR Lead; for a contractual section, first that of the Legal Counsel. Return the decision."""
    ticket, section = notes.ticket, notes.section
    yield from notes.read_rule("signing")
    form_data = {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "proposed": notes.proposal["proposed"],
        "effective": answer["effective"],
        "readers": readers["value"],
        "version": section["version"],
        "minutes": section["minutes"],
    }
    extra_fields: tuple[str, ...] = ()
    if (yield from compare(("class", section["class"]), "==", "contractual", "two signatures", "one signature")):
        review = yield from _signed(notes, REVIEW_FORM, "Legal Counsel", form_data)
        evidence += moves.cite((review, "decided_by"))
        form_data[REVIEW_FORM], extra_fields = review["id"], (REVIEW_FORM,)
        readers = yield from _fresh_readers(readers, consultation, review["decided_at"])
    request = yield from _signed(notes, UPDATE_FORM, "HR Lead", form_data, extra_fields)
    yield from notes.record("approval", request["id"])
    yield from _fresh_readers(readers, consultation, request["decided_at"])
    return "completed", "all_checks_passed", moves.cite((request, "status"), (request, "decided_by")) + evidence


def _signed(
    notes: HandbookNotes, form: str, job_title: str, form_data: moves.Shown, extra_fields: tuple[str, ...] = ()
) -> moves.Move[moves.Shown]:
    """Return the approved request of a form, which the person with this job title signs. It also has the `extra_fields`."""
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
        return request
    approver = yield from moves.read("datahub.get_approver", role=job_title)
    return (
        yield from moves.get_signed(
            form, approver, form_data, metric=notes.section["readers_metric"], extra_fields=extra_fields
        )
    )


def _fresh_readers(readers: moves.Shown, consultation: moves.Shown, today: str) -> moves.Move[moves.Shown]:
    """Return the reading, or a new one if it has become too old during a wait."""
    if (yield from moves.grew_old(readers, today, consultation["max_age_days"])):
        return (yield from moves.fresh_reading(readers["id"]))
    return readers


FAMILY = Family(
    name="handbook_update",
    phrase="handbook update",
    causes=Causes,
    actor="HR Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 60, 25: 88, 50: 118, 75: 142, 100: 168},
)
