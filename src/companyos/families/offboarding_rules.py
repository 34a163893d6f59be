"""The policies, briefs, people, forms and audits of employee offboarding.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from typing import Any

from msgspec.structs import replace

from companyos.company import ApprovalType, Person, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, history
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy

KIND = "employee_offboarding"  # the kind of the tickets
CLOSURE = "account_closure"
SUSPENSION = "account_suspension"

# The facts that are stated on the ticket, and by whom. Each person answers only after those before them in this list.
STATEMENTS = {"held": "Legal Counsel", "owed": "Payroll Accountant", "shared": "IT Administrator"}

# -- policies ----------------------------------------------------------------------------------------------------------


def add_offboarding_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one on money."""
    older = terms | {"withhold_percent": terms["withhold_percent"] + 20}
    add_policy(company, MONEY, MONEY_TEXT.format(**older), older, superseded=True)
    money = add_policy(company, MONEY, MONEY_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return money


MONEY = "Employee offboarding: money owed"
MONEY_TEXT = """
    What a leaver still owes us, in EUR, is taken from their final pay, of which at most {withhold_percent} percent may be
    withheld. Final pay is the metric that the employee's register entry names as final_pay_metric. A measurement whose
    age_days is above {max_age_days} does not count, also on the day you close: have it refreshed and read it again. Above
    that share the debt is not covered; exactly that share is."""
POLICIES = {
    "Employee offboarding: verification": """
        Every offboarding ticket is verified before it is closed, whatever the outcome: find the register's employee who
        carries the ticket's reference, not just the same name, and set the ticket's field verified to that entry's id. A
        ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once
        the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Employee offboarding: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate,
        same_request; set duplicate_of. 2: notice withdrawn: declined, not_due; waiting_on the requester. 3: legal hold:
        get a suspension signed: on_hold, contradicts_policy; waiting_on the Legal Counsel. 4: debt not covered:
        escalated, above_limit; escalated_to the Finance Controller. 5: shared account, no heir: cannot_be_done,
        not_covered; escalated_to the Compliance Officer. 6: an heir: on_hold, not_due; waiting_on the heir. 7: else get
        the closure signed: completed, all_checks_passed.""",
    "Employee offboarding: notices": """
        Papers about an employee stand in the register under the employee's reference with something behind it. Of the
        notices there, kind notice, only the one given last counts, whatever its number and whatever happened to the others:
        if its status is withdrawn, the person stays.""",
    "Employee offboarding: statements": """
        Three things stand in no record; ask for each in a comment to that person on your own ticket. The Legal Counsel
        states held, the Payroll Accountant owed, the IT Administrator shared, in this order: whoever comes later says
        nothing before those ahead have stated theirs. Their answers are comments in the ticket's history. Whom you need not
        ask because an earlier check has decided, leave in peace.""",
    "Employee offboarding: legal holds": """
        held is none, or the reference of what is under legal hold. An employee's: it goes for that person alone, not for
        a namesake. A project's: it goes for everybody who was on it on held_from, stated with it, or later. Who was on
        what until when stands in the register's assignments, filed under the employee's reference; until is open for
        those still on it.
        Whoever is under hold keeps every account and mailbox: they are suspended, never closed.""",
    "Employee offboarding: shared accounts": """
        shared is none, or the register id of an account that the leaver has in hand. Whoever issued
        it allows nobody but those whose references stand in its holders. The heir is the holder, other than the leaver,
        whose own register entry has status employed and names the handle; the directory may still list people who left.
        Until the heir has taken it over, nothing is closed; without one it can be neither handed over nor closed.""",
    "Employee offboarding: signing": """
        The CTO signs account_closure and account_suspension; while away the delegate, if both are, the delegate's
        delegate. held, owed, shared are repeated as stated; final_pay is the fresh metric; the cost centre, and then the
        ticket's, the requester's own. Signers see that statements stand; what they mean is your work. A closure, once
        signed, erases everything for good. A rejection says what it wants; if that is the manager's decision,
        escalate. Set approval to the request.""",
    "Employee offboarding: evidence": """
        Cite record, field, value as now. same_request: the other ticket's reference, status. not_due: the last notice's
        status, no other's; or shared, the heir's status. contradicts_policy: held; for a project also until of that
        assignment, no other's. above_limit: owed, the metric's value. not_covered: shared, the account's holders, status of
        each other holder. all_checks_passed: the approval's status, decided_by; held, shared. held, owed, shared are in the
        comments that state them. Four more, true and unrelated (desk rules), are fine.""",
    "Employee offboarding: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} is an employee offboarding: {leaver}. Legal, Finance and IT have not heard of it yet. Please take it to
    its end the way our policies say, and resolve the ticket with the evidence. Thanks, {partner}""",
    """Good morning! {leaver} is to leave us; the employee offboarding is {ticket}. Mind that some of it cannot be undone.
    Follow the policies and close the ticket with the facts that decided it. {partner}""",
    """Could you see to the employee offboarding of {leaver}? It is {ticket}, and I have not looked into it. Whatever comes
    out, the policies decide, and the ticket should say what it rests on. Best, {partner}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the people desk, the three people who state facts, and the delegates of the CTO."""
    for job_title, department, desk, manager, signing_limit, delegate in (
        ("Offboarding Coordinator", "People", "people", "HR Lead", None, None),
        ("People Partner", "People", "people", "HR Lead", None, None),
        ("Legal Counsel", "Legal", "legal", "CEO", None, None),
        ("Payroll Accountant", "Finance", "finance", "Finance Controller", None, None),
        ("IT Duty Manager", "IT", "it", "CTO", 1000, None),
        ("IT Lead", "IT", "it", "CTO", 3000, "IT Duty Manager"),
        ("IT Administrator", "IT", "it", "IT Lead", None, None),
    ):
        add_person(company, job_title, department, desk, manager, signing_limit, delegate)
    cto = company.world.get(Person, company.staff["CTO"])
    company.world.put_at_start(replace(cto, delegate=company.staff["IT Lead"]))


def closure_form() -> ApprovalType:
    """Return the form for a closure, which cannot be undone once it is signed."""
    return ApprovalType(
        id=CLOSURE,
        title="Closure of all accounts",
        required=("ticket_id", "subject", "reference", "cost_center", "held", "owed", "shared", "final_pay"),
        optional=("badge", "letter"),
        decided_by="the CTO; values as on the ticket, in the register, in DataHub and as stated on the ticket",
        offices=("CTO",),
        same_as_ticket={"subject": "subject", "reference": "reference", "cost_center": "cost_center"},
        same_as_entry={"badge": "badge", "letter": "letter"},
        measured="final_pay",
        attachment="letter",
        audit=CLOSURE,
        about=KIND,  # the kind of its tickets, which is not the form's id
    )


def suspension_form() -> ApprovalType:
    """Return the form for a suspension, which keeps all accounts but blocks them."""
    return ApprovalType(
        id=SUSPENSION,
        title="Suspension of all accounts",
        required=("ticket_id", "subject", "reference", "cost_center", "held"),
        optional=("badge", "letter"),
        decided_by="the CTO; values as on the ticket, in the register and as stated on the ticket",
        offices=("CTO",),
        same_as_ticket={"subject": "subject", "reference": "reference", "cost_center": "cost_center"},
        same_as_entry={"badge": "badge", "letter": "letter"},
        attachment="letter",
        audit=SUSPENSION,
        about=KIND,  # the kind of its tickets, which is not the form's id
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.


@audits(CLOSURE)
def audit_closure(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Check that all three facts are as stated. Approvers do not check if the facts allow a closure."""
    return (yield from _not_stated(form_data, ticket, tuple(STATEMENTS)))


@audits(SUSPENSION)
def audit_suspension(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Check that the fact is as Legal stated it."""
    return (yield from _not_stated(form_data, ticket, ("held",)))


def _not_stated(form_data: dict[str, Any], ticket: dict[str, Any], names: tuple[str, ...]) -> RequestCheck:
    """Return a rejection if one of these facts in the request is not as stated on the ticket, else None."""
    events = yield from history(ticket["id"])
    for name in names:
        author = (yield Call("datahub", "get_approver", {"role": STATEMENTS[name]})).data["id"]
        if not any(event["author"] == author and same(event.get(name), form_data[name]) for event in events):
            return "not_stated", f"{author} has not stated this as {name} on {ticket['id']}."
    return None
