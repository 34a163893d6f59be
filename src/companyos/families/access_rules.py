"""The policies, briefs, people, forms and audit of access requests.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from functools import partial
from typing import Any

from msgspec.structs import replace

from companyos.company import ApprovalType, Person, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, stated
from companyos.core.calls import Call
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy

KIND = "access_request"  # the kind of the tickets
OWNER_FORM = "access_request"
REVIEW_FORM = "access_review"
AUDIT = "access_request"  # the audit of both forms
OWNERS = ("CTO", "HR Lead", "Procurement Lead")  # job titles; each of these people can own a system

# -- policies ----------------------------------------------------------------------------------------------------------


def add_access_policies(company: Backdrop, terms: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one on accounts."""
    older = {name: value + 30 for name, value in terms.items()}
    add_policy(company, ACCOUNTS, ACCOUNTS_TEXT.format(**older), older, superseded=True)
    accounts = add_policy(company, ACCOUNTS, ACCOUNTS_TEXT.format(**terms), terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return accounts


ACCOUNTS = "Access request: accounts"
ACCOUNTS_TEXT = """
    The application names the account. It is idle if its idle_metric, the days since the last sign-in, is above {most_idle}.
    A measurement whose age_days is above the metric's max_age_days (describe_metric) does not count, and not on the day
    you close either: have it refreshed and read it again. An engagement or a training is over if its date, engaged_until
    or trained_until, lies before the day on which the ticket was opened; how late it is today does not matter."""
POLICIES = {
    "Access request: verification": """
        Every access ticket is verified before it is closed, whatever the outcome: find the register's application that
        carries the ticket's reference, not just one for a similar system, and set the ticket's field verified to that
        entry's id. A ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear
        blocked_by once the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your
        own ticket.""",
    "Access request: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the engagement is over: declined, too_late. 3: the account is idle: declined, unused. 4: no
        role covers the need: cannot_be_done, not_covered. 5: what is held covers it: declined, already_done. 6: the right
        role clashes with what is held: escalated, conflict_of_interest. 7: it requires training, which is over: on_hold,
        document_expired. 8: else have the right role signed: completed, all_checks_passed.""",
    "Access request: the right role": """
        Roles carry the system's reference with a number behind it. A role has its own permissions and all those of the
        role in its inherits, and so on. What is needed only the requester knows: ask in a comment to
        them on the ticket; the answer states need. A role covers it if it alone has every permission in it. Of those that
        do, the one with the fewest permissions, inherited ones counted, is right. What was asked_for decides nothing.""",
    "Access request: what is held": """
        An account holds its role, the role that its group grants, and every role that these inherit, and so on. The
        need is covered if the roles held have it together. Two roles exclude each other if either names the other under
        excludes. The right role clashes with what is held if it, or any role that it inherits, excludes one that is held.
        Permissions alone never clash.""",
    "Access request: signing": """
        The system's owner signs access_request. Where that owner is, in the directory, the requester's own manager,
        nobody may sign for their own people: then the Risk Officer signs access_review instead. role is the right role's
        id, need as the requester stated it. While a holder is away the delegate signs; if both are, the delegate's
        delegate. Signers do not weigh roles against each other: what they signed stands, right or wrong. If one wants the
        manager's decision, escalate. Set approval.""",
    "Access request: evidence": """
        Set waiting_on to the requester when declined or cannot_be_done, to the HR Lead when on_hold; escalated_to to the
        Risk Officer. Cite, as now: same_request: the other's reference, status; too_late: engaged_until; unused: the
        metric's value, the policy's most_idle; not_covered: need; already_done: need, the group's grants;
        conflict_of_interest: the excludes that applies, the grants; document_expired: trained_until, the right role's
        training; all_checks_passed: need, that role's own permissions, approval's status, decided_by. Never another role's.
        Four more, true and unrelated (desk rules), are fine.""",
    "Access request: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} is an access request for {system}. I have not looked at what is asked for, nor whether it is too much.
    Please take it to its end the way our policies say, and resolve the ticket with the evidence. Thanks, {manager}""",
    """Good morning! Somebody wants into {system}: {ticket}, an access request. Nobody gets more than the work takes. Follow
    the policies and close the ticket with the facts that decided it. {manager}""",
    """{ticket} is yours, an access request for {system}. Whatever comes out, the policies decide, and I would like to see in
    the ticket what it rests on. Best, {manager}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the access desk and the Risk Officer. Everybody who may sign gets a delegate, who has a delegate as well."""
    for job_title, department, desk, manager, signing_limit, delegate in (
        ("Access Manager", "Security", "access", "CTO", None, None),
        ("Access Analyst", "Security", "access", "Access Manager", None, None),
        ("Risk Officer", "Compliance", "compliance", "CEO", 5000, None),
    ):
        add_person(company, job_title, department, desk, manager, signing_limit, delegate)
    for job_title in (*OWNERS, "Risk Officer"):
        holder, aide = company.world.get(Person, company.staff[job_title]), f"Aide to the {job_title}"
        add_colleague = partial(add_person, company, department=holder.department, desk=holder.desk, manager=job_title)
        add_colleague(aide, signing_limit=1000)
        deputy = add_colleague(f"Deputy {job_title}", signing_limit=3000, delegate=aide)
        company.world.put_at_start(replace(holder, delegate=deputy.id))


def owner_form(job_title: str) -> ApprovalType:
    """Return the form that the owner of the system, who has this job title, signs."""
    return _form(OWNER_FORM, "Access request", "the system's owner", job_title)


def review_form() -> ApprovalType:
    """Return the form that the Risk Officer signs instead of the owner."""
    return _form(REVIEW_FORM, "Access request, signed independently", "the Risk Officer", "Risk Officer")


def _form(form_id: str, title: str, signer_text: str, job_title: str) -> ApprovalType:
    """Return a form that the person with this job title signs. `signer_text` is how agents are told who that is."""
    return ApprovalType(
        id=form_id,
        title=title,
        required=("ticket_id", "subject", "reference", "account", "role", "need"),
        optional=("mandate", "case_no"),
        decided_by=f"{signer_text}; values as on the ticket, in the application and as the requester stated them",
        offices=(job_title,),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"account": "account", "mandate": "mandate", "case_no": "case_no"},
        attachment="mandate",
        about=KIND,  # the kind of its tickets, which is not the id of the review form
        audit=AUDIT,
    )


Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(AUDIT)
def audit_access(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check that the role belongs to the system and the need is as stated. Approvers do not check if the role is right."""
    application = (yield Call("datahub", "get_entry", {"entry_id": ticket["verified"]})).data
    system = (yield Call("datahub", "get_entry", {"entry_id": application["system"]})).data
    reply = yield Call("datahub", "get_entry", {"entry_id": str(form_data["role"])})
    if not reply.ok or reply.data["reference"].split("/")[0] != system["reference"] or reply.data["kind"] != "role":
        return "wrong_role", "role is no role of the system."
    if not any(same(need, form_data["need"]) for need in (yield from stated(ticket["id"], ticket["requester"], "need"))):
        return "not_stated", f"The requester has not stated this need on {ticket['id']}."
    return None
