"""The policies, briefs, people, forms and audits of budget transfers.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, stale
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy, one_line

KIND = "budget_transfer"  # the kind of the tickets
GIVING, TAKING = "budget_giving", "budget_taking"  # the forms that the owners of the two lines sign, in this order
# The values of the form's field `cleared_by`: `OWNERS` if the owners sign alone, or the job title of the person who signs
# first. `CLEARANCES` has that person's form.
OWNERS = "owners"
CLEARANCES = {"Finance Controller": "budget_clearance", "CFO": "budget_exception"}

# -- policies ----------------------------------------------------------------------------------------------------------


def add_budget_policies(company: Backdrop, limits: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the limits."""
    title, text = LIMITS
    older = {name: limit * 7 // 5 for name, limit in limits.items()}
    add_policy(company, title, one_line(text).format(**older), older, superseded=True)
    limits_policy = add_policy(company, title, one_line(text).format(**limits), limits)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return limits_policy


LIMITS = (
    "Budget transfer: limits",
    """Limits go by the quarter's sum: this transfer's amount plus those of all others between the same two lines in the same
    quarter, whichever way the money went (nothing is netted), whatever their status, unless withdrawn. They stand in the
    register, kind transfer; their names carry the quarter and both lines. Up to {limit_owners} the owners sign alone; up to
    {limit_controller} the Finance Controller clears it first; up to {limit_cfo} the CFO instead. Beyond that the CEO
    decides: set escalated_to.""",
)
POLICIES = {
    "Budget transfer: verification": """
        Every transfer ticket is verified before it is closed, whatever the outcome: find the register's transfer that
        carries the ticket's reference and set the ticket's field verified to that entry's id. A ticket needs a priority
        first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once the blocking ticket is
        done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Budget transfer: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the giving line's status is dissolved: cannot_be_done, not_covered. 3: the lines' cost_type
        differs: declined, contradicts_policy. 4: the books are closed: declined, too_late. 5: they are paused: on_hold,
        not_due. 6: too little is available: declined, no_budget. 7: the sum is beyond all limits: escalated, above_limit.
        8: else get it signed, set approval: completed, all_checks_passed.""",
    "Budget transfer: lines and books": """
        The transfer's entry names the giving and the receiving line by their references; lines of similar names are others.
        The books that count are those of the giving line's ledger for the transfer's quarter: kind books, the quarter is
        their reference. What is paused waits for the keeper of those books: set waiting_on. What is declined or cannot be
        done goes back to whoever asked: set waiting_on to the requester.""",
    "Budget transfer: what is available": """
        Money that is spent, committed or earmarked does not move. Available is the giving line's budget, less its earmarked,
        less spent_metric, less committed_metric; the line names both metrics. It must reach the amount on the ticket. Each
        metric has a max_age_days of its own (describe_metric): a measurement whose age_days is above it does not count,
        also on the day you close: have it refreshed and read it again.""",
    "Budget transfer: signing": """
        Where the limits ask for it, the Finance Controller first signs budget_clearance, or the CFO budget_exception;
        never both, none unasked. Then the giving line's owner signs budget_giving: spent and committed are the fresh
        metrics; cleared_by is owners, Finance Controller or CFO, whoever the limits call for; clearance is the id of
        Finance's signed request, if any. Last the receiving line's owner signs budget_taking; giving is the id of the
        signed budget_giving. Link budget_taking as approval. What is signed stands.""",
    "Budget transfer: signers": """
        A line's owner is an office. While an office's holder is away, the delegate signs; if both are, the delegate's
        delegate. Signers hold a request against what it names: the transfer's entry, the metrics, the signature before.
        They do not count the quarter. euros is the ticket's amount; giver and receiver are
        references. A request's cost centre, and then the ticket's, must be the requester's own. A rejection says what it
        wants; if that is the manager's decision, escalate.""",
    "Budget transfer: evidence": """
        Cite record, field and value as they are now. same_request: the other ticket's reference, status. not_covered: the
        line's status. contradicts_policy: cost_type of both lines. too_late, not_due: those books' status, no others'.
        no_budget: the line's budget, earmarked, both metrics' value. above_limit: the policy's limit_cfo, amount of each
        other transfer that counts, of none that does not. all_checks_passed: status and decided_by of the linked approval,
        decided_by of those before it. Four more, true and unrelated (desk rules), are fine.""",
    "Budget transfer: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, please take over {ticket}, a budget transfer: {receiver} asks {giver} for money. Bring it to its end the way our
    policies say, and resolve the ticket with the evidence. Thanks, {manager}""",
    """Good morning! {ticket} wants money moved from {giver} to {receiver}. It is a budget transfer like others, and small; I
    have not checked anything. Follow the policies and close the ticket with the facts that decided it. {manager}""",
    """Could you see to the budget transfer in {ticket} today, {giver} to {receiver}? Whatever comes out, the policies
    decide, and I would like to see in the ticket what it rests on. Best, {manager}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the budget desk and a second keeper of books."""
    for job_title, manager in (
        ("Budget Manager", "CFO"),
        ("Budget Analyst", "Budget Manager"),
        ("Ledger Clerk", "Treasurer"),
    ):
        add_person(company, job_title, "Finance", "finance", manager)


_SHARED_FIELDS = ("ticket_id", "subject", "reference", "euros", "giver", "receiver")
# Fields of the forms that must equal a field of the ticket, or of the transfer's entry in the register.
_AS_ON_TICKET = {"subject": "subject", "reference": "reference", "euros": "amount"}
_AS_IN_REGISTER = {"giver": "giver", "receiver": "receiver", "memo": "memo", "project": "project"}


def transfer_forms(giving: str) -> tuple[ApprovalType, ...]:
    """Return the four forms. `giving` is the department that gives the money; the requester's department receives it."""
    return (
        ApprovalType(
            id=GIVING,
            title="Budget transfer: giving",
            required=(*_SHARED_FIELDS, "spent", "committed", "cleared_by"),
            optional=("clearance", "memo", "project"),
            decided_by="the giving line's owner; values as on the ticket, in the register, DataHub and ApprovalFlow",
            offices=(f"Head of {giving}",),
            same_as_ticket=_AS_ON_TICKET,
            same_as_entry=_AS_IN_REGISTER,
            attachment="memo",
            audit=GIVING,
            about=KIND,  # the kind of its tickets, which is not the form's id
        ),
        ApprovalType(
            id=TAKING,
            title="Budget transfer: taking",
            required=(*_SHARED_FIELDS, "giving", "cost_center"),
            optional=("memo", "project"),
            decided_by="the receiving line's owner; values as on the ticket, in the register and in ApprovalFlow",
            offices=("Head of {department}",),
            same_as_ticket=_AS_ON_TICKET | {"cost_center": "cost_center"},
            same_as_entry=_AS_IN_REGISTER,
            attachment="memo",
            audit=TAKING,
            about=KIND,  # the kind of its tickets, which is not the form's id
        ),
        *(
            ApprovalType(
                id=form,
                title=f"Budget transfer: clearance by the {job_title}",
                required=_SHARED_FIELDS,
                optional=(),
                decided_by=f"the {job_title}; values as on the ticket and in the register",
                offices=(job_title,),
                same_as_ticket=_AS_ON_TICKET,
                same_as_entry=_AS_IN_REGISTER,
                about=KIND,  # the kind of its tickets, which is not the form's id
            )
            for job_title, form in CLEARANCES.items()
        ),
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.

Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(GIVING)
def audit_giving(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check the figures and the clearance that a request names. Approvers do not check if these suffice."""
    cleared_by = str(form_data["cleared_by"])
    if cleared_by in CLEARANCES:
        rejection = yield from _signature_before("clearance", CLEARANCES[cleared_by], form_data, ticket)
        if rejection:
            return rejection
    elif cleared_by != OWNERS or "clearance" in form_data:
        return "mismatch", f"cleared_by is {OWNERS}, or the office whose signed request clearance names."
    listed = (yield Call("datahub", "search_register", {"query": str(form_data["giver"])})).data["rows"]
    line_id = next(row["id"] for row in listed if same(row["reference"], form_data["giver"]))
    line = (yield Call("datahub", "get_entry", {"entry_id": line_id})).data
    for figure in ("spent", "committed"):
        metric_name = {"metric_name": line[f"{figure}_metric"]}
        max_age_days = (yield Call("datahub", "describe_metric", metric_name)).data["max_age_days"]
        metric = (yield Call("datahub", "query_metric", metric_name)).data
        if outdated := stale(metric, max_age_days, form_data):
            return outdated
        if not same(metric["value"], form_data[figure]):
            return "mismatch", f"{figure} is not what DataHub says."
    return None


@audits(TAKING)
def audit_taking(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check that the giver has signed."""
    return (yield from _signature_before("giving", GIVING, form_data, ticket))


def _signature_before(field: str, form: str, form_data: Fields, ticket: Fields) -> RequestCheck:
    """Return a rejection unless this field of a request names an approved request of the form `form` for the ticket."""
    reply = yield Call("approvalflow", "check_status", {"approval_id": str(form_data.get(field))})
    is_approved = reply.ok and (reply.data["type"], reply.data["status"]) == (form, "approved")
    if not is_approved or reply.data["data"]["ticket_id"] != ticket["id"]:
        return "out_of_order", f"{field} must name an approved {form} of {ticket['id']}."
    return None
