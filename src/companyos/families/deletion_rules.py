"""The policies, briefs, people, form and audit of data deletion.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from companyos.company import ApprovalType, Person, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, stated
from companyos.core.calls import Call, Reply
from companyos.families.deletion_holdings import CATEGORIES, KIND
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy, one_line

FORM = KIND  # the only form of this family
LEGAL, STEWARD, OFFICER = "Legal Counsel", "Data Steward", "Data Protection Officer"  # job titles

# -- policies ----------------------------------------------------------------------------------------------------------


def add_deletion_policies(company: Backdrop, identity_terms: dict[str, int], keep_days: dict[str, int]) -> Policy:
    """Add the policies of this family, and an outdated version of one of them. Return the one on identity."""
    title, text = RETENTION
    older = {name: days * 2 // 3 for name, days in keep_days.items()}
    add_policy(company, title, text, older, superseded=True)
    add_policy(company, title, text, keep_days)
    title, text = IDENTITY
    identity_policy = add_policy(company, title, one_line(text).format(**identity_terms), identity_terms)
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return identity_policy


RETENTION = (
    "Data deletion: retention",
    """What we hold on a customer stands in the register as holdings, their references the customer's with a number behind
    it. Each is judged by its ground. consent: it goes. contract: it stays while its status is running, and
    goes once that is ended. law: it stays until the keep_days of its category have passed, counted from last_entry to
    the day on which the ticket was opened. Nothing else of it counts. What Legal's hold names stays, too.""",
)
IDENTITY = (
    "Data deletion: whose data, whose identity",
    """The customer's agreement is the reference of an entry in the register. If that entry's controller is a firm and not
    ourselves, the data are not ours: only that firm may delete them. The customer's identity_metric says how well the
    papers match: from {proven_from} on identity is proven, from {doubt_from} on in doubt, below that refuted. A
    measurement whose age_days is above {max_age_days} does not count, also on the day you close: refresh it, read it
    again.""",
)
POLICIES = {
    "Data deletion: verification": """
        Every deletion ticket is verified before it is closed, whatever the outcome: find the register's customer that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's
        id. A ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear
        blocked_by once the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on
        your own ticket.""",
    "Data deletion: order of checks": """
        The first that applies decides. Another ticket, not cancelled, has the same reference: duplicate,
        same_request; set duplicate_of. The data are not ours: cannot_be_done, not_covered. Identity in doubt:
        on_hold, missing_information. For not_covered and missing_information set waiting_on to the requester.
        Identity refuted: declined, below_minimum. Legal's hold is all: declined, contradicts_policy. Every holding
        stays: declined, not_due. Copies out of reach: escalated, beyond_authority. Else get it signed, set
        approval: completed; all_checks_passed if every holding goes, not_due if some stay.""",
    "Data deletion: hand-overs": """
        Two others have to speak, in comments on the ticket; ask them there, in a comment to them. First the Legal Counsel
        states hold: none, all, or the one category that it covers. Then the Data Steward, silent until Legal has spoken,
        states copies, where copies live, and reachable. If that is no, they are out of reach and the regulator has to
        hear of it: set escalated_to to the Compliance Officer. With contradicts_policy set waiting_on to the Legal
        Counsel.""",
    "Data deletion: signing": """
        The Data Protection Officer signs data_deletion; while away, the delegate; if both are, the delegate's delegate. It
        says the fresh identity, copies as the steward stated it, and for each of the customer's holdings, under its
        category, delete or keep. The officer sees that both have spoken and no holding is left out; which may go is your
        work. What is signed is gone for good. A rejection says what it wants; if that is the manager's decision,
        escalate.""",
    "Data deletion: evidence": """
        Cite record, field and value as they are now. same_request: the other ticket's reference, status. not_covered: the
        customer's agreement, the controller of that entry. missing_information: the metric's value, the policy's
        proven_from. below_minimum: the metric's value, the policy's doubt_from. contradicts_policy: hold, in Legal's
        comment. beyond_authority: copies, reachable, in the steward's. all_checks_passed: the approval's status, decided_by,
        hold, copies. not_due: see the policy on what stays. Four more, true and unrelated (desk rules), are fine.""",
    "Data deletion: evidence of what stays": """
        With not_due cite, for each holding that stays, the one thing that keeps it: if its ground is law, its last_entry; if
        its ground is contract, its status; if its ground would let it go, hold in Legal's comment. Cite no other ground,
        status or last_entry of the customer's holdings. If the rest was signed for, cite the approval's status and
        decided_by, too.""",
    "Data deletion: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, you have the privacy desk today. {ticket} is a data deletion: {customer} wants to be forgotten. Please take it to
    its end the way our policies say, and resolve the ticket with the evidence. Thanks, {manager}""",
    """Good morning! {customer} has asked us to erase everything ({ticket}, a data deletion). I do not know what we may
    erase. Follow the policies and close the ticket with the facts that decided it. {manager}""",
    """Please see to {ticket}, the data deletion for {customer}. What is gone is gone, so look twice. Whatever comes out, the
    policies decide, and I would like to see in the ticket what it rests on. Best, {manager}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------


def hire(company: Backdrop) -> None:
    """Add the privacy desk, the Data Protection Officer with two delegates, the Legal Counsel and the Data Steward."""
    for job_title, department, desk, manager, signing_limit, delegate in (
        (OFFICER, "Compliance", "privacy", "CEO", 5000, None),
        ("Privacy Manager", "Compliance", "privacy", OFFICER, 1000, None),
        ("Privacy Analyst", "Compliance", "privacy", "Privacy Manager", None, None),
        (f"Deputy {OFFICER}", "Compliance", "privacy", OFFICER, 3000, "Privacy Manager"),
        (LEGAL, "Legal", "legal", "CEO", 5000, None),
        (STEWARD, "Engineering", "engineering", "CTO", None, None),
    ):
        add_person(company, job_title, department, desk, manager, signing_limit, delegate)
    officer = company.world.get(Person, company.staff[OFFICER])
    company.world.put_at_start(replace(officer, delegate=company.staff[f"Deputy {OFFICER}"]))


def deletion_form() -> ApprovalType:
    """Return the form. It says `delete` or `keep` for each category."""
    return ApprovalType(
        id=FORM,
        title="Data deletion",
        required=("ticket_id", "subject", "reference", "identity", "copies"),
        optional=(*CATEGORIES, "letter", "case_file"),
        decided_by="the Data Protection Officer; values as on the ticket, in the register, in DataHub and as stated there",
        offices=(OFFICER,),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"letter": "letter", "case_file": "case_file"},
        measured="identity",
        attachment="letter",
        audit=FORM,
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.

Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(FORM)
def audit(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check that both departments have stated their facts and that no holding is missing.

    Approvers do not check the legal grounds.
    """
    if not (yield from _stated(ticket, LEGAL, "hold")):
        return "not_stated", f"The {LEGAL} has not stated hold on {ticket['id']}."
    if not any(same(place, form_data["copies"]) for place in (yield from _stated(ticket, STEWARD, "copies"))):
        return "not_stated", f"The {STEWARD} has not stated these copies on {ticket['id']}."
    listed = (yield Call("datahub", "search_register", {"query": ticket["reference"]})).data["rows"]
    for entry_id in [row["id"] for row in listed if row["kind"] == "holding"]:
        category = (yield Call("datahub", "get_entry", {"entry_id": entry_id})).data["category"]
        if form_data.get(category) not in ("delete", "keep"):
            return "left_out", f"A request says delete or keep for each of the customer's holdings; {category} is left out."
    if "delete" not in form_data.values():
        return "nothing_to_do", "Where nothing is to be deleted there is nothing to sign."
    return None


def _stated(ticket: Fields, job_title: str, name: str) -> Generator[Call, Reply, list[str]]:
    """Return what the person with this job title has stated under this name on a ticket."""
    author = (yield Call("datahub", "get_approver", {"role": job_title})).data["id"]
    return (yield from stated(ticket["id"], author, name))
