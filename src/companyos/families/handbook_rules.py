"""The policies, briefs, people, forms and audits of handbook updates.

The policies say everything that an agent has to know. Each has at most 80 words. `handbook_papers` adds the documents that
limit what sections may say.
"""

from typing import Any

from msgspec.structs import replace

from companyos.company import ApprovalType, Person, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, stated
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy, one_line

KIND = "handbook_update"  # the kind of the tickets
UPDATE_FORM = "handbook_update"
REVIEW_FORM = "legal_review"

# -- policies ----------------------------------------------------------------------------------------------------------


def add_handbook_policies(company: Backdrop, consultation: dict[str, int], notice: dict[str, int]) -> tuple[Policy, Policy]:
    """Add the policies of this family, and an outdated version of one of them.
    Return the policies on consultation and on notice.
    """
    title, text = CONSULTATION
    older = {name: value - 5 for name, value in consultation.items()}
    add_policy(company, title, one_line(text).format(**older), older, superseded=True)
    consultation_policy = add_policy(company, title, one_line(text).format(**consultation), consultation)
    title, text = NOTICE
    notice_policy = add_policy(company, title, one_line(text).format(**notice), notice)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return consultation_policy, notice_policy


CONSULTATION = (
    "Handbook update: consultation",
    """At least {minimum} percent of the staff concerned must have read the draft; the metric is named in the section's
    readers_metric. A measurement whose age_days is above {max_age_days} does not count, also on the day you close:
    have it refreshed and read it again. With fewer readers the ticket goes on hold: set waiting_on to the section's
    steward.""",
)
NOTICE = (
    "Handbook update: notice",
    """A change takes effect at least {notice_days} days after the day on which its ticket was opened, at least
    {notice_days_contractual} where the section's class is contractual. From when it shall hold only the requester
    knows: ask, in a comment to them on the ticket. Their answer, a comment in the ticket's history, states it as
    effective. It does not matter how much of that time has passed when you decide.""",
)
POLICIES = {
    "Handbook update: verification": """
        Every handbook ticket is verified before it is closed, whatever the outcome: find the register's section that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's
        id. A ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear
        blocked_by once the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on
        your own ticket.""",
    "Handbook update: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate,
        same_request; set duplicate_of. 2: the section's owner is not People: escalated, beyond_authority; set
        escalated_to. 3: the section's set_by is law: cannot_be_done, not_covered. 4: it already says what is
        proposed: declined, already_done. 5: the governing limit forbids it: declined, contradicts_policy. 6: too few
        readers: on_hold, below_minimum. 7: too little notice: declined, too_late. 8: else get it signed, set
        approval: completed, all_checks_passed.""",
    "Handbook update: proposals and limits": """
        What is proposed stands in the register, in an entry whose reference is the section's with a number behind it;
        only the one with status submitted counts. Limits stand in other policies: search those for the section's
        topic. Superseded ones never count. A document on one topic alone goes before one on several, whichever is
        later; among equals the later since goes first. Only the first governs. Its term most_ or least_ names the
        highest or lowest value allowed.""",
    "Handbook update: whose it is": """
        Sections that another department owns are its head's business: escalated_to is the Head of Marketing, Head of
        Operations or Head of Research, whichever department is the owner, whoever asked. What is declined or cannot be done
        goes back to whoever asked: set waiting_on to the requester.""",
    "Handbook update: signing": """
        The HR Lead signs handbook_update. Where the section's class is contractual, the Legal Counsel signs legal_review
        before that, and the id of that approved request goes in the field legal_review; Legal sees no other sections. While
        a holder is away the delegate signs; if both are, the delegate's delegate. Values are the submitted proposal's, the
        requester's effective date, the fresh readers. A rejection says what it wants; if that is the manager's decision,
        escalate. Link the handbook_update as approval.""",
    "Handbook update: evidence": """
        Cite record, field, value as they are now. same_request: the other ticket's reference, status. beyond_authority: the
        section's owner. not_covered: its set_by. already_done: its current, the proposal's proposed. contradicts_policy: the
        proposal's proposed, the governing document's most_ or least_ term, no other's. below_minimum: the metric's value,
        the policy's minimum. too_late: effective in the answer, the policy's notice_days or notice_days_contractual,
        whichever applied. all_checks_passed: status and decided_by of handbook_update, decided_by of legal_review, the
        governing term. Four more, true and unrelated (desk rules), are fine.""",
    "Handbook update: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, you have the people desk today. {ticket} asks for a handbook update: {section}. Please take it to its end the way
    our policies say, and resolve the ticket with the evidence. Thanks, {partner}""",
    """Good morning! Somebody wants {section} changed ({ticket}, a handbook update). Please check it against everything that
    binds us, do what follows from that and close the ticket with the facts that decided it. {partner}""",
    """{ticket} is yours: handbook update, {section}. I have not looked into it. Whatever the outcome is, follow the policies
    and resolve it, citing what it rests on. Best, {partner}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the people desk and the lawyers. Each of the two who sign has a delegate, who has a delegate as well."""
    for job_title, department, desk, manager, signing_limit, delegate in (
        ("HR Analyst", "People", "people", "HR Lead", None, None),
        ("HR Partner", "People", "people", "HR Lead", None, None),
        ("HR Generalist", "People", "people", "HR Lead", 1000, None),
        ("Deputy HR Lead", "People", "people", "HR Lead", 3000, "HR Generalist"),
        ("Legal Counsel", "Legal", "legal", "CEO", 5000, None),
        ("Contracts Lawyer", "Legal", "legal", "Legal Counsel", 1000, None),
        ("Deputy Legal Counsel", "Legal", "legal", "Legal Counsel", 3000, "Contracts Lawyer"),
    ):
        add_person(company, job_title, department, desk, manager, signing_limit, delegate)
    for job_title, deputy_title in (("HR Lead", "Deputy HR Lead"), ("Legal Counsel", "Deputy Legal Counsel")):
        holder = company.world.get(Person, company.staff[job_title])
        company.world.put_at_start(replace(holder, delegate=company.staff[deputy_title]))


def update_form(policy_id: str) -> ApprovalType:
    """Return the form that the HR Lead signs. The policy sets the minimum share of readers."""
    return ApprovalType(
        id=UPDATE_FORM,
        title="Handbook update",
        required=("ticket_id", "subject", "reference", "proposed", "effective", "readers"),
        optional=("legal_review", "minutes", "version"),  # minutes: the number of a meeting's minutes
        decided_by="the HR Lead; values as on the ticket, in the register, in DataHub and as the requester stated them",
        offices=("HR Lead",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"minutes": "minutes", "version": "version"},
        measured="readers",
        policy=policy_id,
        attachment="minutes",
        audit=UPDATE_FORM,
    )


def review_form() -> ApprovalType:
    """Return the form that the Legal Counsel signs."""
    return ApprovalType(
        id=REVIEW_FORM,
        title="Legal review",
        required=("ticket_id", "subject", "reference", "proposed"),
        optional=("minutes", "version"),
        decided_by="the Legal Counsel; values as on the ticket and in the register",
        offices=("Legal Counsel",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"minutes": "minutes", "version": "version"},
        attachment="minutes",
        about=KIND,  # the kind of its tickets, which is not the form's id
        audit=REVIEW_FORM,
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.

Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(UPDATE_FORM)
def audit_update(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check the submitted proposal, the date that the requester stated, and the legal review if one is needed."""
    section = (yield Call("datahub", "get_entry", {"entry_id": ticket["verified"]})).data
    rejection = yield from _wrong_proposal(form_data, section)
    if rejection:
        return rejection
    stated_dates = yield from stated(ticket["id"], ticket["requester"], "effective")
    if not any(same(stated_date, form_data["effective"]) for stated_date in stated_dates):
        return "not_stated", f"The requester has not stated this as effective on {ticket['id']}."
    if section["class"] == "contractual" or "legal_review" in form_data:
        reply = yield Call("approvalflow", "check_status", {"approval_id": str(form_data.get("legal_review"))})
        is_approved_review = reply.ok and (reply.data["type"], reply.data["status"]) == (REVIEW_FORM, "approved")
        if not is_approved_review or reply.data["data"]["ticket_id"] != ticket["id"]:
            return "not_reviewed", f"legal_review must name an approved {REVIEW_FORM} of {ticket['id']}."
    return None


@audits(REVIEW_FORM)
def audit_review(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check the submitted proposal, and that the section is contractual."""
    section = (yield Call("datahub", "get_entry", {"entry_id": ticket["verified"]})).data
    rejection = yield from _wrong_proposal(form_data, section)
    if rejection or section["class"] == "contractual":
        return rejection
    return "not_needed", "Legal reviews contractual sections only."


def _wrong_proposal(form_data: Fields, section: Fields) -> RequestCheck:
    """Return a rejection if the proposed number is not that of a submitted proposal for the section, else None."""
    listed = (yield Call("datahub", "search_register", {"query": section["reference"]})).data["rows"]
    for entry_id in [row["id"] for row in listed if row["status"] == "submitted"]:
        proposal = (yield Call("datahub", "get_entry", {"entry_id": entry_id})).data
        if same(proposal["proposed"], form_data["proposed"]):
            return None
    return "mismatch", "proposed is not what the register has as submitted."
