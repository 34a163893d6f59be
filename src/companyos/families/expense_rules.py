"""The policies, briefs, form and audit of expense reports.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.colleagues import RequestCheck, audits, stated
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_policy

FORM = "expense_report"  # the id of the form, and the kind of the tickets
# By how much the limits of the outdated version are higher than those in force.
_OUTDATED_EXCESS = {"meal_rate": 10, "hotel_rate": 25, "receipt_days": 30, "figure_days": 7}


def add_expense_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the limits."""
    title, text = LIMITS_POLICY
    older = {name: value + _OUTDATED_EXCESS[name] for name, value in terms.items()}
    add_policy(company, title, text.format(**older), older, superseded=True)
    limits = add_policy(company, title, text.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return limits


LIMITS_POLICY = (
    "Expense report: limits",
    """A meal: at most {meal_rate} for each guest who came, not for who was invited. How many came only the requester knows:
    ask in a comment to them on the ticket; the answer states guests. A hotel: at most {hotel_rate} for each night.
    Train and other: no limit. A receipt dated more than {receipt_days} days before the ticket was opened is too old. A
    budget measured more than {figure_days} days ago (age_days) does not count: refresh and read it again.""",
)
POLICIES = {
    "Expense report: verification": """
        Every ticket is verified before it is closed, whatever the outcome: find the report in the register that carries the
        ticket's reference, not just the same name, and set the ticket's field verified to its id. A ticket needs a priority
        first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once the blocking ticket is
        done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Expense report: receipts": """
        A report is the sum of its receipts, and each of them is judged by itself. Search the register for the
        report's reference, which the ticket carries: it stands in the name of every receipt of that report. A
        receipt's own reference is its number. Its category says which limit it has. The report names the metric of
        the budget that pays for it.""",
    "Expense report: order of checks": """
        The first that applies decides. 1, same_request: a receipt's number also stands on another report's receipt,
        whose ticket is not cancelled. 2, conflict_of_interest: a receipt's payee is one of us, by handle. 3,
        missing_information: a receipt's document is none. 4, too_late: a receipt is too old. 5, not_covered: receipts
        do not add up to the ticket's amount. 6, above_limit: the hotel, or else the meal, is above its limit. 7,
        no_budget: the fresh budget is below that amount. 8, all_checks_passed.""",
    "Expense report: outcomes": """
        same_request: duplicate; set duplicate_of to the other ticket. conflict_of_interest: escalated; set escalated_to to
        the Compliance Officer. missing_information: on_hold; set waiting_on to the requester. too_late, not_covered,
        above_limit: declined; set waiting_on to the requester, who may file anew. no_budget: cannot_be_done.
        all_checks_passed: get the report signed, set approval, then completed.""",
    "Expense report: signing": """
        A report is signed by the lowest office whose limit covers the ticket's amount: the head of the requester's
        department (Head of Marketing, Head of Operations, Head of Research), else the CFO. While a holder is away the
        delegate signs with the holder's authority; if both are, the delegate's delegate. A request's cost centre, and
        then the ticket's, must be the requester's own. A rejection says what it wants; if that is the manager's
        decision, escalate.""",
    "Expense report: evidence": """
        Cite record, field and value as they are now. same_request: the other receipt's reference, the other ticket's status.
        conflict_of_interest: the payee. missing_information: the document. too_late: the date; the policy's receipt_days.
        not_covered: the ticket's amount, the largest receipt's amount. above_limit: the receipt's amount; its nights or the
        answer's guests; the policy's rate. no_budget: the ticket's amount, the metric's value. all_checks_passed: the
        approval's status and decided_by, the metric's value, the answer's guests. Four more, true and unrelated (desk
        rules), are fine.""",
    "Expense report: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, you have the finance desk today. {ticket} is an expense report: {subject}. Please take it to its end the way our
    policies say, and resolve the ticket with the evidence. Thanks, {controller}""",
    """Good morning! Could you finish the expense report for {subject} ({ticket})? Whatever the outcome is, follow the
    policies and close the ticket with the facts that decided it. {controller}""",
    """{ticket} is yours: an expense report, {subject}. I have not looked into it. Check it against our policies, do what
    they call for and resolve it, citing what it rests on. Best, {controller}""",
)

APPROVAL_TYPE = ApprovalType(
    id=FORM,
    title="Expense report",
    required=("ticket_id", "subject", "reference", "amount", "cost_center", "guests", "budget_left"),
    optional=("itinerary", "project"),
    decided_by="see the policy on signing; values as on the ticket, in the register and in DataHub, guests as answered",
    offices=("Head of {department}", "CFO"),
    same_as_ticket={
        "subject": "subject",
        "reference": "reference",
        "amount": "amount",
        "cost_center": "cost_center",
    },
    same_as_entry={"itinerary": "itinerary", "project": "project"},
    measured="budget_left",
    attachment="itinerary",
    audit=FORM,
)


@audits(FORM)
def audit(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Check that the requester has stated this number of guests and that the budget is sufficient.

    Approvers do not check the receipts: that is the agent's work.
    """
    answers = yield from stated(ticket["id"], ticket["requester"], "guests")
    if str(form_data["guests"]) not in answers:
        return "not_stated", f"The requester has not stated these guests on {ticket['id']}."
    if int(form_data["budget_left"]) < ticket["amount"]:
        return "no_budget", "budget_left is below the amount."
    return None
