"""The policies, briefs, form and audit of bug escalation.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, stale
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_policy

FORM = "bug_escalation"  # the id of the form, and the kind of the tickets


def add_bug_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one that sets the limits."""
    older = {name: value * 2 // 3 if name.startswith("limit") else value for name, value in terms.items()}
    add_policy(company, LIMITS, LIMITS_TEXT.format(**older), older, superseded=True)
    limits = add_policy(company, LIMITS, LIMITS_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return limits


LIMITS = "Bug escalation: limits"
LIMITS_TEXT = """A service's error rate, in errors per 10,000 calls, is the metric that its register entry names as
    error_rate_metric. The entry's tier sets its limit: {limit_tier_1} in tier 1, {limit_tier_2} in tier 2,
    {limit_tier_3} in tier 3. A rate that equals the limit is within it. A measurement whose age_days is above
    {max_age_days} does not count: have it refreshed and read it again."""
POLICIES = {
    "Bug escalation: culprit": """
        The reported service is the one whose register entry carries the ticket's reference. Begin there. While a service is
        above its limit, go on to the entry whose id stands in its depends_on. Stop at the first within its limit, or where
        depends_on is empty. The culprit is the last found above its limit; if the reported service is within its own,
        there is none. Services behind one within its limit do not count, nor do those beside this way.""",
    "Bug escalation: order of checks": """
        The first that applies decides. 1: there is no culprit: declined, not_reproducible. 2: another ticket, neither done
        nor cancelled, carries the culprit's reference: duplicate, same_request; set duplicate_of. 3: the culprit's
        operated_by is a firm, not in house: cannot_be_done, beyond_authority; set escalated_to to the Vendor Desk Lead.
        4: its status is maintenance: on_hold, not_due; set waiting_on to its on_call. 5: the bug is severe: get it signed,
        set approval: escalated, above_limit. 6: else completed, all_checks_passed.""",
    "Bug escalation: severity": """
        A bug is severe if the reported service's rate is more than twice its limit. If it is not, the bug is severe when
        many customers are affected, and only the requester knows that: ask in a comment to them on your own ticket. Their
        answer, again a comment, states customers as one or many. Ask only where the outcome hangs on it.""",
    "Bug escalation: signing": """
        A severe bug needs a bug_escalation request that names the culprit: service is its id, error_rate its fresh
        rate, runbook and pager are those of its entry. The CTO signs; while the CTO is away, the delegate with the
        CTO's authority; if both are, the delegate's delegate. Approvers hold it against the service that it names,
        not against others: what they have signed stands, right or wrong. A rejection says what it wants; if that is
        the manager's decision, escalate.""",
    "Bug escalation: verification and assignee": """
        Verify before closing, whatever the outcome: set verified to the reported service's entry. A ticket needs a
        priority first; if it has none, choose any. Clear blocked_by once the blocking ticket is done or cancelled;
        until then ask its assignee, in a comment on your own ticket. With all_checks_passed or above_limit, set
        assignee to the culprit's on_call, or to their delegate if they are away at that moment. With other outcomes
        leave it; an empty assignee becomes the Support Lead.""",
    "Bug escalation: evidence": """
        Cite record, field and value as they are now. not_reproducible: the reported service's metric value, and the policy's
        limit_tier of its tier. All others: the culprit's metric value, and with same_request the other ticket's reference
        and status; beyond_authority: the entry's operated_by; not_due: its status; all_checks_passed: customers, from the
        requester's comment; above_limit: the approval's status and decided_by, and what made it severe, the reported
        service's value or customers. Four more, true and unrelated (desk rules), are fine.""",
    "Bug escalation: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} came in as a bug escalation: {service} gives errors. I have not looked into where they come from. Please
    take it to its end the way our policies say, and resolve the ticket with the evidence. Thanks, {lead}""",
    """Good morning! Could you work the bug escalation {ticket}? Somebody has trouble with {service}. Whatever the outcome,
    follow the policies and close the ticket with the facts that decided it. {lead}""",
    """{ticket} is yours: a bug escalation, reported against {service}. Find out what is behind it, do what our policies call
    for and resolve it, citing what it rests on. Best, {lead}""",
)


def escalation_form() -> ApprovalType:
    """Return the form for a severe bug. The audit below checks most of its fields."""
    return ApprovalType(
        id=FORM,
        title="Bug escalation",
        required=("ticket_id", "subject", "reference", "service", "error_rate"),
        optional=("runbook", "pager"),
        decided_by="see the policy on signing; subject and reference as on the ticket, the rest of the culprit",
        offices=("CTO",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        attachment="runbook",
        audit=FORM,
    )


@audits(FORM)
def audit_escalation(form_data: dict[str, Any], ticket: dict[str, Any]) -> RequestCheck:
    """Compare a request with the service that it names. Approvers do not check whether it is the right service."""
    if not ticket["verified"]:
        return "not_verified", f"{ticket['id']} is not verified."
    reply = yield Call("datahub", "get_entry", {"entry_id": str(form_data["service"])})
    if not reply.ok or reply.data["kind"] != "service":
        return "wrong_service", "service names no service in the register."
    service = reply.data
    versions = (yield Call("datahub", "search_policies", {"query": LIMITS})).data["rows"]
    version_at_opening = max(
        (row for row in versions if row["since"] <= ticket["opened"]), key=lambda row: str(row["since"])
    )
    limits = (yield Call("datahub", "read_policy", {"policy_id": version_at_opening["id"]})).data
    rate = (yield Call("datahub", "query_metric", {"metric_name": service["error_rate_metric"]})).data
    if outdated := stale(rate, limits["max_age_days"], form_data):
        return outdated
    if not same(rate["value"], form_data["error_rate"]):
        return "mismatch", "error_rate is not what DataHub says."
    for field in ("runbook", "pager"):
        if field in form_data and not same(service[field], form_data[field]):
            return "mismatch", f"{field} is not what the register says."
    if rate["value"] <= limits[f"limit_tier_{service['tier']}"]:
        return "within_limit", "The service is within its limit."
    return None
