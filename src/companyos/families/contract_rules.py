"""The policies, briefs, people, forms and audits of contract renewal.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from companyos.company import ApprovalType, Person, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, history
from companyos.core.calls import Call, Reply
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy

KIND = "contract_renewal"  # the kind of the tickets
RENEWAL_FORM = "contract_renewal"
NOTICE_FORM = "contract_notice"

# -- policies ----------------------------------------------------------------------------------------------------------


def add_contract_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one on usage."""
    older = {name: value - 15 for name, value in terms.items()}
    add_policy(company, USAGE, USAGE_TEXT.format(**older), older, superseded=True)
    usage = add_policy(company, USAGE, USAGE_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return usage


USAGE = "Contract renewal: usage"
USAGE_TEXT = """
    A contract is used if its usage_metric, in percent of what was ordered, reaches {minimum_usage}. A measurement whose
    age_days is above the metric's max_age_days (describe_metric) does not count, and not on the day you close either:
    have it refreshed and read it again. A contract is wanted if it is used and Finance has committed at least the next
    term's amount. For one that is not used, Finance need not be asked."""
POLICIES = {
    "Contract renewal: verification": """
        Every renewal ticket is verified before it is closed, whatever the outcome: find the register's contract that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's id. A
        ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once
        the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Contract renewal: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate,
        same_request; set duplicate_of. 2: its framework ends before renews_on: cannot_be_done, not_covered. 3: not
        wanted, notice too late: escalated, too_late. 4: not used: have notice signed: declined, unused. 5: used, not
        wanted: have notice signed: declined, no_budget. 6: data_annex_ends before renews_on: on_hold, document_expired.
        7: the amount is above the CFO's limit: escalated, beyond_authority. 8: else have the renewal signed: completed,
        all_checks_passed.""",
    "Contract renewal: terms and notice": """
        A contract renews by itself on renews_on unless notice is given. Its notice_days and its amount for the next term
        hold unless an amendment binds: then that one's hold instead. Amendments carry the contract's reference with a
        number behind it; drafts never bind. A signed one binds if it was countersigned at most open_days days after
        sent_on. Notice is in time if the ticket was opened at least notice_days days before renews_on; how late it is
        today does not matter.""",
    "Contract renewal: departments": """
        Legal speaks before Finance. The Contracts Lawyer states when a signed amendment was countersigned; after that
        the Budget Officer states what is committed for the next term, in EUR. Ask each in a comment to them on your own
        ticket; the answer is a comment in its history. Field to set: not_covered: waiting_on, requester;
        document_expired: waiting_on, Compliance Officer; beyond_authority: escalated_to, CEO; too_late: escalated_to,
        the Head of Marketing, Head of Operations or Head of Research, by the requester's department.""",
    "Contract renewal: signing": """
        Renewal: contract_renewal, by the lowest office whose limit covers the amount: Procurement Lead, else CFO. Notice:
        contract_notice, by the Legal Counsel. terms is the id of the contract or amendment whose terms hold. While a
        holder is away the delegate signs; if both are, the delegate's delegate. A renewal's cost centre, and the
        ticket's, must be the requester's own. Signers look only at the paper named; what they signed stands. If one wants
        the manager's decision, escalate. Set approval.""",
    "Contract renewal: evidence": """
        Cite record, field, value as now. same_request: the other ticket's reference, status. not_covered: the framework's
        ends, renews_on. document_expired: data_annex_ends, renews_on. beyond_authority: the amount that holds, the CFO's
        limit. too_late: renews_on, the notice_days that holds, Legal's countersigned. unused: the metric's value, the
        policy's minimum_usage, the approval's status. no_budget, all_checks_passed: the amount that holds, Finance's
        committed, the approval's status, decided_by. Terms that do not hold, never. Four more, true and unrelated (desk
        rules), are fine.""",
    "Contract renewal: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} is a contract renewal: {contract}. I do not know whether we want to keep it, or can still get out. Please
    take it to its end the way our policies say, and resolve the ticket with the evidence. Thanks, {manager}""",
    """Good morning! The contract renewal of {contract} is on your desk ({ticket}). Legal and Finance have a say, you know
    the order. Follow the policies and close the ticket with the facts that decided it. {manager}""",
    """Could you see to {ticket}? It is the contract renewal of {contract}. Whatever comes out, the policies decide, and I
    would like to see in the ticket what it rests on. Best, {manager}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------

LAWYER, OFFICER = "Contracts Lawyer", "Budget Officer"
STATEMENTS = {LAWYER: "countersigned", OFFICER: "committed"}  # by job title: the fact that this person states on the ticket


def hire(company: Backdrop) -> None:
    """Add the contracts desk, the lawyers and the Budget Officer. Those who sign have delegates, who have delegates."""
    for job_title, department, desk, manager, signing_limit, delegate in (
        ("Contracts Analyst", "Procurement", "contracts", "Procurement Lead", None, None),
        ("Contracts Manager", "Procurement", "contracts", "Procurement Lead", 1000, None),
        ("Deputy Procurement Lead", "Procurement", "procurement", "Procurement Lead", 3000, "Contracts Manager"),
        ("Legal Counsel", "Legal", "legal", "CEO", 5000, None),
        (LAWYER, "Legal", "legal", "Legal Counsel", None, None),
        ("Associate Counsel", "Legal", "legal", "Legal Counsel", 1000, None),
        ("Deputy Legal Counsel", "Legal", "legal", "Legal Counsel", 3000, "Associate Counsel"),
        (OFFICER, "Finance", "finance", "Finance Controller", None, None),
    ):
        add_person(company, job_title, department, desk, manager, signing_limit, delegate)
    for job_title in ("Procurement Lead", "Legal Counsel"):
        holder = company.world.get(Person, company.staff[job_title])
        company.world.put_at_start(replace(holder, delegate=company.staff[f"Deputy {job_title}"]))


def renewal_form() -> ApprovalType:
    """Return the form for a renewal. Its amount is that of the terms, so it is not compared with the ticket's amount."""
    return ApprovalType(
        id=RENEWAL_FORM,
        title="Contract renewal",
        required=("ticket_id", "subject", "reference", "terms", "amount", "usage", "cost_center"),
        optional=("file_no", "supplier_no"),
        decided_by="see the policy on signing; values as on the ticket, in the register and in DataHub",
        offices=("Procurement Lead", "CFO"),
        same_as_ticket={"subject": "subject", "reference": "reference", "cost_center": "cost_center"},
        same_as_entry={"file_no": "file_no", "supplier_no": "supplier_no"},
        measured="usage",
        attachment="file_no",
        audit=RENEWAL_FORM,
    )


def notice_form() -> ApprovalType:
    """Return the form for a notice, which the Legal Counsel signs."""
    return ApprovalType(
        id=NOTICE_FORM,
        title="Notice on a contract",
        required=("ticket_id", "subject", "reference", "terms", "notice_days", "renews_on"),
        optional=("file_no",),
        decided_by="the Legal Counsel; values as on the ticket and in the register",
        offices=("Legal Counsel",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"file_no": "file_no", "renews_on": "renews_on"},
        attachment="file_no",
        about=KIND,  # the kind of its tickets, which is not the form's id
        audit=NOTICE_FORM,
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.

Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(RENEWAL_FORM)
def audit_renewal(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check that both departments have stated their facts, and that the amount is that of the terms."""
    return (yield from _unstated(ticket, LAWYER, OFFICER)) or (yield from _wrong_terms(form_data, ticket, "amount"))


@audits(NOTICE_FORM)
def audit_notice(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check that Legal has stated its fact, and that the notice period is that of the terms. Nobody checks the dates."""
    return (yield from _unstated(ticket, LAWYER)) or (yield from _wrong_terms(form_data, ticket, "notice_days"))


def _unstated(ticket: Fields, *job_titles: str) -> RequestCheck:
    """Return a rejection if one of the people with these job titles has not stated their fact on the ticket, else None."""
    for job_title in job_titles:
        person_id = (yield Call("datahub", "get_approver", {"role": job_title})).data["id"]
        if (person_id, STATEMENTS[job_title]) not in (yield from _stated(ticket)):
            return "not_stated", f"The {job_title} has not stated {STATEMENTS[job_title]} on {ticket['id']}."
    return None


def _stated(ticket: Fields) -> Generator[Call, Reply, set[tuple[str, str]]]:
    """Return the statements in the comments on a ticket: author and name of each."""
    return {(event["author"], name) for event in (yield from history(ticket["id"])) for name in event}


def _wrong_terms(form_data: Fields, ticket: Fields, field: str) -> RequestCheck:
    """Return a rejection if `terms` names no paper of the contract, or if this field differs from that paper, else None."""
    reply = yield Call("datahub", "get_entry", {"entry_id": str(form_data["terms"])})
    if not reply.ok or reply.data["reference"].split("/")[0] != ticket["reference"]:
        return "wrong_terms", "terms names no paper of this contract."
    if not same(reply.data[field], form_data[field]):
        return "mismatch", f"{field} is not what the paper says that terms names."
    return None
