"""The policies and briefs of vendor onboarding.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from companyos.company import Policy
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_policy


def add_vendor_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the minimum."""
    title, text = SCORE_POLICY
    older = {name: value - 5 for name, value in terms.items()}
    add_policy(company, title, text.format(**older), older, superseded=True)
    minimum_policy = add_policy(company, title, text.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return minimum_policy


SCORE_POLICY = (
    "Vendor onboarding: minimum score",
    """A vendor's compliance score, the metric named in its register entry, must be at least {minimum}; at least
    {minimum_personal} when the entry's data_class is personal. A measurement whose age_days is above {max_age_days}
    does not count: have it refreshed and read it again.""",
)
POLICIES = {
    "Vendor onboarding: verification": """
        Every vendor ticket is verified before it is closed, whatever the outcome: find the register entry that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's
        id. A ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear
        blocked_by once the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on
        your own ticket.""",
    "Vendor onboarding: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the register's owner is the requester, by handle: escalated, conflict_of_interest; set
        escalated_to to the Compliance Officer. 3: insurance_until lies before today: on_hold, document_expired; set
        waiting_on to the requester. 4: fresh score below the minimum: declined, below_minimum. 5: nobody may sign the
        amount: cannot_be_done, beyond_authority. 6: else get it signed, set approval: completed, all_checks_passed.""",
    "Vendor onboarding: signing": """
        A request is signed by the lowest office whose limit covers the ticket's amount: the head of the requester's
        department (Head of Marketing, Head of Operations, Head of Research), else the CFO; above that nobody. While a
        holder is away the delegate signs with the holder's authority; if both are, the delegate's delegate. A
        request's cost centre, and then the ticket's, must be the requester's own. A rejection says what it wants; if
        that is the manager's decision, escalate.""",
    "Vendor onboarding: evidence": """
        Cite record, field and value as they are now. same_request: the other ticket's reference and status.
        conflict_of_interest: the entry's owner. document_expired: the entry's insurance_until. below_minimum: the metric's
        value, and the policy's minimum or minimum_personal, whichever applied. beyond_authority: the ticket's amount, and
        the limit of the person who is CFO. all_checks_passed: the approval's status and decided_by, and the metric's value.
        Four more, true and unrelated (desk rules), are fine.""",
    "Vendor onboarding: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, you have the vendor desk today. {ticket} asks for a vendor onboarding: {vendor}. Please take it to its end the way
    our policies say, and resolve the ticket with the evidence. Thanks, {lead}""",
    """Good morning! Could you finish the vendor onboarding of {vendor} ({ticket})? Whatever the outcome is, follow the
    policies and close the ticket with the facts that decided it. {lead}""",
    """{ticket} is yours: vendor onboarding, {vendor}. I have not looked into it. Check it against our policies, do what they
    call for and resolve it, citing what it rests on. Best, {lead}""",
)
