"""The policies, briefs, people and form of the quarter close.

Together with the policies of the queued tickets' families they say everything that an agent has to know. Each has at most
80 words.
"""

from companyos.company import ApprovalType, Policy
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy

FORM = "quarter_close"  # the id of the form, and the kind of the tickets
LIMITS = "Quarter close: limits"


def hire(company: Backdrop) -> None:
    """Add the close desk: its manager and its analyst."""
    add_person(company, "Close Manager", "Finance", "close", "CFO")
    add_person(company, "Close Analyst", "Finance", "close", "Close Manager")


def add_close_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the limits."""
    older = {name: value + 3 for name, value in terms.items()}
    older["signatures"] = 4  # a constant, so that the outdated version does not depend on the cause `signatures`
    add_policy(company, LIMITS, LIMITS_TEXT.format(**older), older, superseded=True)
    limits = add_policy(company, LIMITS, LIMITS_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return limits


def close_form() -> ApprovalType:
    """Return the form that the CFO signs."""
    return ApprovalType(
        id=FORM,
        title="Quarter close",
        required=("ticket_id", "subject", "reference", "unreconciled"),
        optional=("ledger", "period"),
        decided_by="the CFO; values as on the ticket, in the register and in DataHub",
        offices=("CFO",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"ledger": "ledger", "period": "period"},
        measured="unreconciled",
        attachment="ledger",
    )


LIMITS_TEXT = """
    The CFO signs for at most {signatures} of the tickets of a close, those due first, beside the close itself. A ticket for
    which the CFO would have to sign beyond that gets no request: on_hold, above_limit; cite its item's status and this
    policy's signatures. At most {most_late} items may have been due before the close ticket was opened. The fresh figure of
    what is unreconciled, the metric that the close's entry names, may be {tolerance} at most."""

POLICIES = {
    "Quarter close: queue": """
        Under the close's reference the register has an entry of kind close, and its items of kind close_item. Each names a
        ticket that is given to you, too, and its status says when that is due. Due before the close ticket was opened:
        on_hold, too_late. Due after the entry's cut_off: on_hold, not_due. Both cite the item's status and need nothing
        else. All others end as the policies of their own kind say, but for the CFO's limit.""",
    "Quarter close: order of checks": """
        Close it when all its tickets are resolved. The first that applies decides. 1: one ended escalated: escalated,
        beyond_authority; set escalated_to to the CFO. 2: one met the CFO's limit: cannot_be_done, above_limit. 3: too much
        is unreconciled: declined, not_covered; set waiting_on to the requester. 4: more items were late than may be:
        on_hold, too_late; set waiting_on to the requester. 5: else have it signed, set approval: completed,
        all_checks_passed.""",
    "Quarter close: verification and signing": """
        The close ticket is verified before it is closed, whatever the outcome: set verified to the id of the entry of kind
        close. It needs a priority first; if it has none, choose any. What is blocked cannot be closed: clear blocked_by once
        the blocking ticket is done or cancelled; until then ask its assignee, in a comment on the blocked ticket. The CFO
        signs; while away, the delegate, or theirs. A rejection says what it wants.""",
    "Quarter close: evidence": """
        Cite record, field and value as they are now. beyond_authority: the resolution of the escalated ticket due first.
        above_limit: the reason of the ticket that met the limit, due first, and the policy's signatures. not_covered: the
        metric's value and the policy's tolerance. too_late: the status of the late item due last, and the policy's
        most_late. all_checks_passed: the approval's status and decided_by, and the metric's value. Four more, true and
        unrelated (desk rules), are fine.""",
    "Quarter close: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, the quarter close is yours: {ticket}, {close}. Work off what hangs on it, each the way our policies say, then
    resolve the close itself with the evidence. Thanks, {manager}""",
    """Good morning! {ticket} is the quarter close of the {close}. Please see to everything that is linked to it and then end
    it as the policies have it, citing what decided. {manager}""",
    """Could you take {ticket} to its end? It is our quarter close ({close}). Whatever becomes of the tickets that belong to
    it, follow the policies and close with the facts. Best, {manager}""",
)
