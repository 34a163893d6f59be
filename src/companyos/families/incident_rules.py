"""The policies, briefs, people, form and audit of incident response.

The policies say everything that an agent has to know. Each has at most 80 words.
"""

from collections.abc import Generator
from functools import partial
from typing import Any

from companyos.company import ApprovalType, Policy
from companyos.company.apps.ticketdesk import same
from companyos.company.colleagues import RequestCheck, audits, history, stale
from companyos.core.calls import Call, Reply
from companyos.core.world import Draw
from companyos.families.kit.backdrop import DESK_RULES, Backdrop, add_person, add_policy, one_line

FORM = "incident_response"  # the id of the form, and the kind of the tickets
FIRST, SECOND = WATCHES = ("First", "Second")  # the shifts (watches) of a night; each has its own commander
ROLL_BACK, DECLARE = ACTS = ("roll_back", "declare")  # what a request asks for: the form's field `act`
SEVERITIES = ("sev_1", "sev_2", "sev_3")
WITHHELD = "withheld"  # what Communications states if there is no wording yet
# The figures that set the severity. Key: the service's entry names the metric as `key_metric`. Value: the form's field.
FIGURES = {"errors": "error_rate", "customers": "customers", "minutes": "minutes"}

# -- policies ----------------------------------------------------------------------------------------------------------

Terms = dict[str, int]  # the numbers that policies set; a name that ends in `_1` is a condition of sev_1, and so on


def draw_terms(draw: Draw) -> Terms:
    """Draw all numbers that the policies set."""
    customers_2 = draw.pick((40, 50, 60, 80))
    return {
        "errors_1": draw.pick((150, 200, 250)),
        "customers_1": customers_2 * draw.between(4, 6),
        "customers_2": customers_2,
        "minutes_2": draw.pick((15, 20, 25, 30)),
        "max_age_days": draw.between(3, 5),
        "self_check": draw.pick((85, 88, 90, 92)),
        "window_minutes": draw.pick((30, 45, 60)),
        "change_minutes": draw.pick((120, 180, 240)),
        "respond_1": draw.pick((10, 12, 15)),
        "respond_2": draw.pick((30, 40, 45)),
        "respond_3": draw.pick((90, 120)),
    }


def add_incident_policies(company: Backdrop, terms: Terms) -> dict[str, Policy]:
    """Add the policies of this family, and an outdated version of one of them.
    Return the policies that set numbers, by title.
    """
    older = {name: value * 3 // 2 for name, value in terms.items()}
    add_policy(company, *_with_terms("Incident response: severity", older), superseded=True)
    policies = {title: add_policy(company, *_with_terms(title, terms)) for title in POLICIES_WITH_NUMBERS}
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    return policies


def _with_terms(title: str, terms: Terms) -> tuple[str, str, Terms]:
    """Return the title of a policy, its text with the numbers filled in, and its own terms."""
    names, text = POLICIES_WITH_NUMBERS[title]
    own_terms = {name: terms[name] for name in names}
    return title, one_line(text).format(**own_terms), own_terms


# The policies that set numbers: their terms and texts.
POLICIES_WITH_NUMBERS = {
    "Incident response: severity": (
        ("errors_1", "customers_1", "customers_2", "minutes_2", "max_age_days"),
        """A service's entry names errors_metric, customers_metric and minutes_metric. sev_1: at least {errors_1} errors per
        10,000 calls and at least {customers_1} customers. sev_2: at least {customers_2} customers and at least
        {minutes_2} minutes. sev_3: everything else. The first row of which all conditions hold governs, whatever the alarm
        has as claimed. A measurement whose age_days is above {max_age_days} does not count, also on the day you close:
        have it refreshed and read it again.""",
    ),
    "Incident response: alarms and probes": (
        ("self_check",),
        """The ticket's alarm is the register entry that carries its reference; it names the service and the probe that
        raised it. The probe's entry names its self_check_metric, a percentage; while that is below {self_check}, its
        alarms are artefacts. How old a measurement may be stands in the policy on severity. Of an alarm, onset is when
        trouble began, detected when the probe noticed, acknowledged when somebody took it up.""",
    ),
    "Incident response: correlation": (
        ("window_minutes",),
        """Upstream of a service are the entries in its depends_on, those in theirs, and so on. Search the register for
        Alarm. Another ticket, neither done nor cancelled, is the parent if it carries our own alarm; else if it carries
        that of a service upstream whose onset lies before ours, by {window_minutes} minutes at most. Of several upstream
        the one furthest from our service is the parent. When they were detected does not matter.""",
    ),
    "Incident response: suppliers and changes": (
        ("change_minutes",),
        """The outage of the service's own supplier (outage_since in that entry) explains an alarm if it began before the
        onset. A deployment to the service itself does if it was deployed before the onset, by {change_minutes} minutes at
        most, and its build is the one that runs. Deployments are found in the register by the service's name; which build
        runs only the service's on_call knows.""",
    ),
    "Incident response: clock and notice": (
        ("respond_1", "respond_2", "respond_3"),
        """The clock runs from detected to acknowledged, as the alarm has them; what has passed since does not count. It is
        kept if that took at most {respond_1} minutes for sev_1, {respond_2} for sev_2, {respond_3} for sev_3. An incident
        that is to be declared needs a notice to customers if it is sev_1, or if it is sev_2 and its clock was not kept.
        No other needs one.""",
    ),
}
POLICIES = {
    "Incident response: order of checks": """
        The first that applies decides. 1: the service's custody is not in house: cannot_be_done, not_covered. 2:
        the alarm is an artefact: declined, not_reproducible. 3: there is a parent: duplicate, same_request; set
        duplicate_of. 4: the supplier's outage explains it: escalated, beyond_authority. 5: a deployment explains
        it: completed, all_checks_passed. 6: it is sev_3: on_hold, not_due. 7: a notice is due and withheld:
        on_hold, missing_information. 8: else escalated, above_limit; escalated_to stays empty. For 5 and 8 get it
        signed and set approval.""",
    "Incident response: whom it goes to": """
        not_covered: what was handed over is the client's; nobody here touches it or has anything signed for it: set
        escalated_to to the Customer Care Lead. beyond_authority: set escalated_to to the supplier's managed_by. not_due:
        set waiting_on to the service's on_call. missing_information: set waiting_on to the Communications Lead. A service
        that we run has custody: in house.""",
    "Incident response: hand-overs": """
        Ask in comments on your own ticket, in this order; answers are comments in its history. Engineering first: the
        service's on_call states build. Where a notice is due, Communications next: the Communications Lead states
        wording, a number or withheld, and says nothing before the build is stated. Every request needs the build.""",
    "Incident response: signing": """
        An incident_response request says act, severity, watch, and the fresh figures as error_rate, customers and minutes;
        build is what the on_call stated. To roll a deployment back, act is roll_back, deployment its entry, and there is
        no wording. Else act is declare, without deployment; wording is what Communications stated if a notice is due and
        is left out if none is. timeline and bridge are the alarm's. Approvers hold a request against what it names: what
        they have signed stands.""",
    "Incident response: command": """
        The service's roster has a hand_over: before it the First Commander had the watch, from that minute on the Second
        Commander. Whoever had it when the alarm was detected keeps the incident and signs, whoever has it today; watch
        says First or Second. While they are away the delegate signs; if both are, the delegate's delegate. A rejection
        says what it wants; if that is the manager's decision, escalate.""",
    "Incident response: verification": """
        Every ticket is verified before it is closed, whatever the outcome: set verified to the alarm's entry. A ticket
        needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once the
        blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Incident response: evidence": """
        Cite record, field, value as they are now. not_covered: the service's custody. not_reproducible: the self check's
        value, the policy's self_check. same_request: the parent's reference, status. beyond_authority: the supplier's
        outage_since, the alarm's onset. all_checks_passed: the deployment's deployed, the comment's build, the approval's
        status, decided_by. not_due: the three metrics' values. missing_information: those, the comment's wording.
        above_limit: approval's status, decided_by, values of errors and customers. No rival ticket, supplier or deployment.
        Four more, true and unrelated (desk rules), are fine.""",
    "Incident response: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, {ticket} is an incident response: an alarm on {service} went off in the night, and people are getting loud. I have
    not looked into it. Please take it to its end the way our policies say, and resolve the ticket with the evidence.
    Thanks, {lead}""",
    """Good morning! Could you coordinate the incident response on {ticket}? It is about {service}. Whatever it turns out to
    be, follow the policies and close the ticket with the facts that decided it. {lead}""",
    """{ticket} is yours: incident response, {service}. Find out what the night's alarm is worth, do what our policies call
    for and resolve it, citing what it rests on. Best, {lead}""",
)

# -- people and forms --------------------------------------------------------------------------------------------------

ENGINEERS = ("Edge Engineer", "Core Engineer", "Storage Engineer")  # job titles; each is on call for some services


def hire(company: Backdrop) -> None:
    """Add the incident desk, the commanders and their delegates, the engineers on call, and the other departments."""
    add_to_engineering = partial(add_person, company, department="Engineering", desk="engineering", manager="CTO")
    add_to_engineering("Service Lead")
    add_to_engineering("Incident Coordinator")
    add_to_engineering("Duty Manager", signing_limit=1000)
    add_to_engineering("Command Deputy", signing_limit=1000, delegate="Duty Manager")
    for watch in WATCHES:
        add_to_engineering(f"{watch} Commander", signing_limit=3000, delegate="Command Deputy")
    for job_title in ENGINEERS:
        add_to_engineering(job_title, manager="Service Lead")
    add_person(company, "Communications Lead", "Communications", "communications", "CEO")
    add_person(company, "Customer Care Lead", "Customer Care", "care", "CEO")


def incident_form() -> ApprovalType:
    """Return the form that the commander signs. The audit below checks most of its fields."""
    return ApprovalType(
        id=FORM,
        title="Incident response",
        required=("ticket_id", "subject", "reference", "act", "severity", "watch", "build", *FIGURES.values()),
        optional=("deployment", "wording", "timeline", "bridge"),
        decided_by="the commander of the watch that it names; see the policies on command and signing",
        offices=("{watch} Commander",),
        same_as_ticket={"subject": "subject", "reference": "reference"},
        same_as_entry={"timeline": "timeline", "bridge": "bridge"},
        attachment="timeline",
        audit=FORM,
    )


# -- audits: what approvers check besides the form ---------------------------------------------------------------------
# An audit yields calls, gets their replies, and returns why it rejects a request (code and text), or None.

Fields = dict[str, Any]  # a form or a record: its fields by name


@audits(FORM)
def audit_incident(form_data: Fields, ticket: Fields) -> RequestCheck:
    """Check the figures, statements and deployment that a request names. Approvers do not check if these are right."""
    for field, valid_values in (("act", ACTS), ("severity", SEVERITIES)):
        if form_data[field] not in valid_values:
            return "mismatch", f"{field} is none of the words that the form takes."
    alarm = (yield Call("datahub", "get_entry", {"entry_id": ticket["verified"]})).data
    service = (yield Call("datahub", "get_entry", {"entry_id": alarm["service"]})).data
    rejection = (yield from _wrong_figures(form_data, ticket, service)) or (
        yield from _not_stated(form_data, ticket, service)
    )
    return rejection or (yield from _wrong_deployment(form_data, service))


def _wrong_figures(form_data: Fields, ticket: Fields, service: Fields) -> RequestCheck:
    """Return a rejection if a figure in a request is too old or is not what DataHub says, else None."""
    title = "Incident response: severity"
    listed = (yield Call("datahub", "search_policies", {"query": title})).data["rows"]
    versions = [row for row in listed if row["title"] == title and row["since"] <= ticket["opened"]]
    version_at_opening = max(versions, key=lambda row: str(row["since"]))
    max_age_days = (yield Call("datahub", "read_policy", {"policy_id": version_at_opening["id"]})).data["max_age_days"]
    for figure, field in FIGURES.items():
        metric = (yield Call("datahub", "query_metric", {"metric_name": service[f"{figure}_metric"]})).data
        if outdated := stale(metric, max_age_days, form_data):
            return outdated
        if not same(metric["value"], form_data[field]):
            return "mismatch", f"{field} is not what DataHub says."
    return None


def _not_stated(form_data: Fields, ticket: Fields, service: Fields) -> RequestCheck:
    """Return a rejection if the build or the wording in a request was not stated on the ticket, else None."""
    statements = yield from _statements(ticket["id"])
    if (service["on_call"], "build", str(form_data["build"])) not in statements:
        return "not_stated", f"{service['on_call']} has not stated this build on {ticket['id']}."
    if "wording" in form_data:
        lead = (yield Call("datahub", "get_approver", {"role": "Communications Lead"})).data["id"]
        if form_data["wording"] == WITHHELD or (lead, "wording", str(form_data["wording"])) not in statements:
            return "not_stated", f"Communications has not released this wording on {ticket['id']}."
    return None


def _wrong_deployment(form_data: Fields, service: Fields) -> RequestCheck:
    """Return a rejection if a request names a wrong deployment, or one that it must not name, else None."""
    if form_data["act"] == DECLARE:
        return ("mismatch", "A declaration names no deployment.") if "deployment" in form_data else None
    reply = yield Call("datahub", "get_entry", {"entry_id": str(form_data.get("deployment"))})
    if not reply.ok or reply.data["kind"] != "deployment" or reply.data["service"] != service["id"]:
        return "mismatch", "deployment must name a deployment to this service."
    if not same(reply.data["build"], form_data["build"]):
        return "not_running", "The deployment that is named brought another build."
    return None


def _statements(ticket_id: str) -> Generator[Call, Reply, set[tuple[str, str, str]]]:
    """Return the statements in the comments on a ticket: author, name and value of each."""
    events = yield from history(ticket_id)
    return {(event["author"], name, event[name]) for event in events for name in ("build", "wording") if name in event}
