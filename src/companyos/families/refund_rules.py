"""The policies, briefs, people, forms and audits of refund disputes.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from datetime import date
from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy

KIND = "refund_dispute"  # the kind of the tickets
FULL = "full_refund"
GOODWILL = "goodwill_refund"
# By form: the policy's term that sets the period, the job title of the signer, and the field of the payment with the amount.
LIMITS = {FULL: "return_days", GOODWILL: "goodwill_days"}
SIGNERS = {FULL: "Care Lead", GOODWILL: "CFO"}
AMOUNTS = {FULL: "paid", GOODWILL: "goods"}

# -- policies ----------------------------------------------------------------------------------------------------------


def add_refund_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one on misuse."""
    older = terms | {"limit": terms["limit"] - 12}
    add_policy(company, MISUSE, MISUSE_TEXT.format(**older), older, superseded=True)
    misuse = add_policy(company, MISUSE, MISUSE_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return misuse


def add_terms_of_sale(company: Backdrop, terms: dict[str, int], superseded: bool) -> Policy:
    """Add a version of the terms of sale."""
    return add_policy(company, TERMS_OF_SALE, TERMS_TEXT.format(**terms), terms, superseded)


TERMS_OF_SALE = "Refund dispute: terms of sale"
TERMS_TEXT = """
    What we promise our customers. Goods that are handed to the carrier within {return_days} days of delivery are refunded
    in full. Within {goodwill_days} days of delivery the goods alone, without shipping, are refunded as a goodwill. After
    that nothing is."""
MISUSE = "Refund dispute: misuse"
MISUSE_TEXT = """
    How many percent of a customer's orders were refunded is the metric that the order's register entry names as
    refund_rate_metric. Above {limit} it is a matter for the Compliance Officer; exactly {limit} is not. A flag in a
    customer's file decides nothing. A measurement whose age_days is above {max_age_days} does not count, also on the day
    you close: have it refreshed and read it again."""
POLICIES = {
    "Refund dispute: verification": """
        Every dispute is verified before it is closed, whatever the outcome: find the register's order that carries the
        ticket's reference, not another of the same customer, and set the ticket's field verified to that entry's id. A
        ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once
        the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Refund dispute: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the refund is paid: declined, already_done. 3: misuse: escalated, above_limit; escalated_to the
        Compliance Officer. 4: not returned: on_hold, missing_information. 5: beyond goodwill_days: declined, too_late.
        6: goodwill is owed, but used up: declined, not_covered. 7: channel not ours: cannot_be_done, beyond_authority;
        escalated_to the Treasurer. 8: else get it signed: completed, all_checks_passed. At 2, 4, 5, 6: waiting_on the
        requester.""",
    "Refund dispute: whose word counts": """
        What happened to an order stands in the register under its reference with something behind it. The carrier's scans
        go before anybody's word: goods were delivered on the date of the scan delivered, and returned on that of the
        scan return if its status is scanned; announced is a printed label, no return. The ledger goes before shop,
        customer file and contacts: money moved as it says where its status is booked; what is reversed never
        happened.""",
    "Refund dispute: which terms apply": """
        An order is judged by the terms of sale that were in force on the day it was ordered: the version whose since
        is the latest not after that day, superseded by now or not. Days run from the delivery to the return, one date less
        the other; as many as the term says are within it. When the claim was made does not matter.""",
    "Refund dispute: amounts and channels": """
        Within return_days it is a full refund, of what the ledger's payment names as paid; else a goodwill refund, of what
        it names as goods. A customer gets goodwill once, ever: it is used up if the ledger has one booked under the
        customer's reference. We can pay back card, transfer and wallet, by the ledger's channel; what a marketplace or an
        instalment bank took is theirs to return. The ticket's amount is what the customer wants.""",
    "Refund dispute: signing": """
        The Care Lead signs full_refund, the CFO goodwill_refund; while away the delegate, if both are, the delegate's
        delegate. terms is the id of the version that applies, amount a number, delivered and returned the scans' dates,
        refund_rate the fresh metric; the cost centre, and then the ticket's, the requester's own. Signers hold a
        request against the terms it names alone: what is signed is paid. A rejection says what it wants;
        if that is the manager's decision, escalate. Set approval.""",
    "Refund dispute: evidence": """
        Cite record, field, value as now. same_request: the other ticket's reference, status. already_done: status of the
        ledger's refund. above_limit: the metric's value, the policy's limit. missing_information: the scan return's status.
        too_late: date of both scans, goodwill_days. not_covered: the ledger goodwill's status, return_days.
        beyond_authority: the ledger's channel, not the order's. all_checks_passed: the approval's status, decided_by; the
        days term that it rests on. Terms: only of the version that applies. Four more, true and unrelated (desk rules), are
        fine.""",
    "Refund dispute: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} is a refund dispute: {customer} wants money back and says that everything was in time. Please take it to
    its end the way our policies say, and resolve the ticket with the evidence. Thanks, {lead}""",
    """Good morning! The refund dispute {ticket} is yours. {customer} tells it one way, our records another. Follow the
    policies and close the ticket with the facts that decided it. {lead}""",
    """Could you settle the refund dispute with {customer}? It is {ticket}, and I have not looked into it. Whatever comes
    out, the policies decide, and the ticket should say what it rests on. Best, {lead}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the customer care desk, and two delegates of its lead."""
    for job_title, manager, signing_limit, delegate in (
        ("Care Supervisor", "CFO", 1000, None),
        ("Deputy Care Lead", "CFO", 3000, "Care Supervisor"),
        ("Care Lead", "CFO", 5000, "Deputy Care Lead"),
        ("Care Agent", "Care Lead", None, None),
    ):
        add_person(company, job_title, "Customer Care", "care", manager, signing_limit, delegate)


def refund_form(form: str, title: str) -> ApprovalType:
    """Return the form for a full or a goodwill refund. The audits below check most of its fields."""
    signer = SIGNERS[form]
    return ApprovalType(
        id=form,
        title=title,
        required=(
            "ticket_id",
            "subject",
            "reference",
            "cost_center",
            "amount",
            "terms",
            "delivered",
            "returned",
            "refund_rate",
        ),
        optional=("invoice", "parcel"),
        decided_by=f"the {signer}; values as on the ticket, in the register, in DataHub and in the terms of sale",
        offices=(signer,),
        same_as_ticket={"subject": "subject", "reference": "reference", "cost_center": "cost_center"},
        same_as_entry={"invoice": "invoice", "parcel": "parcel"},
        measured="refund_rate",
        attachment="invoice",
        audit=form,
        about=KIND,  # the kind of its tickets, which is not the form's id
    )


@audits(FULL)
def audit_full_refund(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Check a full refund."""
    return (yield from _wrong_refund(FULL, form_data, ticket))


@audits(GOODWILL)
def audit_goodwill_refund(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Check a goodwill refund, which is for the goods without shipping."""
    return (yield from _wrong_refund(GOODWILL, form_data, ticket))


def _wrong_refund(form: str, form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Return the rejection if a request contradicts the records or the terms that it names, else None.

    Approvers do not check if these terms apply.
    """
    listed = (yield Call("datahub", "search_register", {"query": ticket["reference"]})).data["rows"]
    entries = {}
    for row in listed:
        if row["kind"] in ("ledger", "scan"):
            entries[row["name"]] = (yield Call("datahub", "get_entry", {"entry_id": row["id"]})).data
    for field, name, entry_field in (
        ("amount", "Payment", AMOUNTS[form]),
        ("delivered", "Scan: delivered", "date"),
        ("returned", "Scan: return", "date"),
    ):
        if name not in entries or not same(entries[name][entry_field], form_data[field]):
            return "mismatch", f"{field} is not what the records say."
    reply = yield Call("datahub", "read_policy", {"policy_id": str(form_data["terms"])})
    if not reply.ok or reply.data["title"] != TERMS_OF_SALE:
        return "wrong_terms", "terms names no version of our terms of sale."
    term = LIMITS[form]
    time_kept = date.fromisoformat(form_data["returned"]) - date.fromisoformat(form_data["delivered"])
    if time_kept.days > reply.data[term]:
        return "beyond_term", f"This took longer than the {term} of the version that terms names."
    return None
