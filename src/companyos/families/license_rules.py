"""The policies, briefs, form and audit of licence renewal.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_policy

FORM = "license_renewal"  # the id of the form, and the kind of the tickets


def add_license_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the limits."""
    older = {
        "window_days": terms["window_days"] - 30,
        "minimum_share": terms["minimum_share"] - 15,
        "headroom": terms["headroom"] - 10,
    }
    add_policy(company, LIMITS, LIMITS_TEXT.format(**older), older, superseded=True)
    limits = add_policy(company, LIMITS, LIMITS_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return limits


LIMITS = "Licence renewal: figures and limits"
LIMITS_TEXT = """
    The metrics are named in the contract. Too early: days_metric above {window_days}. Notice missed: days_metric
    below the contract's notice_days. Hardly used: used_metric below {minimum_share} percent of the contract's seats.
    An offer covers the use if its seats reach used_metric plus {headroom} percent of it, unrounded. days_metric
    counts from the ticket's opening: take it as it is. A measurement whose age_days is above the metric's
    max_age_days (describe_metric) does not count: have it refreshed and read it again."""
POLICIES = {
    "Licence renewal: verification": """
        Every renewal ticket is verified before it is closed, whatever the outcome: find the register's contract that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's id. A
        ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once
        the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Licence renewal: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: too early: declined, not_due. 3: notice missed: escalated, too_late; set escalated_to to the
        Procurement Lead. 4: hardly used: declined, unused. 5: no offer will do: cannot_be_done, not_covered. 6:
        the budget is below the right offer's amount: cannot_be_done, no_budget. 7: else get it signed, set approval:
        completed, all_checks_passed.""",
    "Licence renewal: choice of offer": """
        Offers stand in the register under the product's name, kind offer; those count whose contract is the ticket's
        reference. An offer will do if it holds, covers the use and, where the contract's data_class is personal, has its
        data_agreement included. It holds if the ticket was opened at most valid_days days after it was issued; how late it
        is today does not matter. Of those that will do, the one with the fewest seats is right, whatever they cost.""",
    "Licence renewal: budget": """
        A renewal is paid by the requester's department. Its budget is that department's budget_left in DataHub; it must be
        fresh, like all figures, and reach the amount of the right offer. The amount on the ticket is what was paid last
        time: it decides nothing. Signers hold a request against the offer it names, not against the others: what they have
        signed stands, right or wrong.""",
    "Licence renewal: signing": """
        A request names the right offer's id, its seats and amount, as numbers, and the fresh used_metric. It is
        signed by the lowest office whose limit covers that amount: the Procurement Lead, else the CFO. While a holder
        is away the delegate signs with the holder's authority; if both are, the delegate's delegate. A request's cost
        centre, and then the ticket's, must be the requester's own. A rejection says what it wants; if that is the
        manager's decision, escalate.""",
    "Licence renewal: evidence": """
        Cite record, field and value as now. same_request: the other ticket's reference, status. not_due: days_metric's
        value, the policy's window_days. too_late: days_metric's value, the contract's notice_days. unused: used_metric's
        value, the contract's seats, the policy's minimum_share. not_covered: used_metric's value, the policy's headroom.
        no_budget: the budget metric's value, the right offer's amount, no other's. all_checks_passed: the approval's status,
        decided_by, used_metric's value. Four more, true and unrelated (desk rules), are fine.""",
    "Licence renewal: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, please take over {ticket}, a licence renewal: {product}. Bring it to its end the way our policies say, and resolve
    the ticket with the evidence. Thanks, {manager}""",
    """Good morning! {ticket} is about the licence renewal of {product}. I do not know yet whether we should sign anything.
    Follow the policies and close the ticket with the facts that decided it. {manager}""",
    """Could you see to the licence renewal of {product} today? The ticket is {ticket}. Whatever comes out, the policies
    decide, and I would like to see in the ticket what it rests on. Best, {manager}""",
)


# -- form and audit ----------------------------------------------------------------------------------------------------


def renewal_form() -> ApprovalType:
    """Return the form. Its amount is that of the offer, so it is not compared with the ticket's amount."""
    return ApprovalType(
        id=FORM,
        title="Licence renewal",
        required=("ticket_id", "subject", "reference", "offer", "seats", "amount", "used", "cost_center"),
        optional=("master_agreement", "supplier_no"),
        decided_by="see the policy on signing; values as on the ticket, in the register and in DataHub",
        offices=("Procurement Lead", "CFO"),
        same_as_ticket={"subject": "subject", "reference": "reference", "cost_center": "cost_center"},
        same_as_entry={"master_agreement": "master_agreement", "supplier_no": "supplier_no"},
        measured="used",
        attachment="master_agreement",
        audit=FORM,
    )


@audits(FORM)
def audit(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Compare a request with the offer that it names. Approvers do not check whether it is the right offer."""
    reply = yield Call("datahub", "get_entry", {"entry_id": str(form_data["offer"])})
    if not reply.ok or reply.data["kind"] != "offer" or reply.data["contract"] != ticket["reference"]:
        return "wrong_offer", "offer names no offer for this contract."
    for field in ("seats", "amount"):
        if not same(reply.data[field], form_data[field]):
            return "mismatch", f"{field} is not what the offer says."
    return None
