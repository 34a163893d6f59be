"""Access request: which is the smallest role that suffices, and is it compatible with the roles that the person has?

What makes it hard: sets and inheritance. A role has permissions of its own and those of the role that it inherits from, and
so on. The right role is the smallest one that covers what the requester needs. Only the requester knows the need, and it is
not always what they asked for. An account also has roles through its group, and two roles may exclude each other because of
roles that they inherit. And a manager must not sign for their own people.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Mind, Person, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World
from companyos.families.access_roles import (
    PERMISSIONS,
    ROLE_TEMPLATES,
    AccessSystem,
    add_account,
    add_application,
    add_system,
    add_tickets,
    draw_need,
)
from companyos.families.access_rules import (
    ACCOUNTS,
    BRIEFS,
    OWNER_FORM,
    OWNERS,
    REVIEW_FORM,
    add_access_policies,
    hire,
    owner_form,
    review_form,
)
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line, set_metric, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Signature,
)

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this application, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    over: Annotated[
        bool,
        Fact(odds=(0.92, 0.08), shown_in=(("Entry", "account", "engaged_until"),)),
        "the requester's engagement has ended",
    ]
    idle: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Source", "idle", "value"), ("Metric", "idle", "value"))),
        "the account is not used",
    ]
    need: Annotated[
        Literal["clerk", "editor", "lead", "none"],
        Fact(odds=(0.3, 0.25, 0.3, 0.15), shown_in=(("Mind", "requester", "knows"),)),
        "the smallest role that covers the need; only the requester knows the need",
    ]
    holds: Annotated[
        Literal["analyst", "controller", "editor"],
        Fact(odds=(0.4, 0.35, 0.25), shown_in=(("Entry", "group", "grants"),)),
        "the role that the group grants: without conflict, in conflict with the editor role, or the editor role",
    ]
    trained: Annotated[
        bool,
        Fact(odds=(0.3, 0.7), shown_in=(("Entry", "account", "trained_until"),)),
        "the training that some roles require is valid",
    ]
    own_people: Annotated[
        bool,
        Fact(odds=(0.6, 0.4), shown_in=(("Person", "requester", "manager"),)),
        "the owner of the system is the requester's manager, so the Risk Officer signs instead",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    idle_stale: Annotated[bool, Trouble(dial="stale", target=("idle",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("idle",))]
    owner_away: Annotated[bool, Trouble(dial="absence", target=("owner",))]
    owner_deputy_away: Annotated[bool, Trouble(dial="absence", target=("owner_deputy",))]
    risk_away: Annotated[bool, Trouble(dial="absence", target=("risk",))]
    risk_deputy_away: Annotated[bool, Trouble(dial="absence", target=("risk_deputy",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(dial="rejections", target=("owner", "owner_deputy", "owner_third", "risk", "risk_deputy", "risk_third")),
    ]
    case_no_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=case_no"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department, other_department = draw.sample(DEPARTMENTS, 2)
    owner_title, namesake_owner_title = draw.sample(OWNERS, 2)
    requester = world.get(Person, staff[f"{department} Associate"])
    if causes.own_people:
        requester = world.put_at_start(replace(requester, manager=staff[owner_title]))
    max_idle_days = draw.pick((45, 60, 90))
    policy = add_access_policies(company, {"most_idle": max_idle_days})
    world.put_at_start(owner_form(owner_title))
    world.put_at_start(review_form())
    theme = draw.pick(tuple(PERMISSIONS))
    name = f"{company.firms.pop(0).name.split()[0]} {theme}"
    namesake = add_system(
        company, draw, theme, f"{name} Archive", namesake_owner_title, ("viewer", "clerk", "editor", "auditor")
    )
    system = add_system(company, draw, theme, name, owner_title, tuple(ROLE_TEMPLATES))
    # The records and people of the case: ids by role. `owner_third` signs if `owner` and `owner_deputy` are away.
    roles = {
        "requester": requester.id,
        "form": OWNER_FORM,
        "policy": policy.id,
        "system": system.entry.id,
        "owner": staff[owner_title],
        "owner_deputy": staff[f"Deputy {owner_title}"],
        "owner_third": staff[f"Aide to the {owner_title}"],
        "risk": staff["Risk Officer"],
        "risk_deputy": staff["Deputy Risk Officer"],
        "risk_third": staff["Aide to the Risk Officer"],
        "hr_lead": staff["HR Lead"],
    }
    # the access roles of the system, by template
    roles |= {template: role.id for template, role in system.roles.items()}
    stranger = world.get(Person, staff[f"{other_department} Associate"])
    roles |= add_tickets(company, draw, (name, namesake.entry.name), requester, stranger, causes.duplicate)
    roles |= _add_applications(company, draw, system, namesake, stranger, roles, causes)
    bounds = (max_idle_days + 1, 240) if causes.idle else (0, max_idle_days)
    idle = streams.at("idle", str(causes.idle)).between(*bounds)
    set_metric(world, roles["idle"], idle)
    need = draw_need(streams.at("need", causes.need), system, causes.need)
    tell(world, requester.id, roles["ticket"], {"need": need})
    manager = world.get(Person, staff["Access Manager"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], system=name, manager=manager.name)
    return Case(roles["ticket"], staff["Access Analyst"], brief, roles)


def _add_applications(
    company: Backdrop,
    draw: Draw,
    system: AccessSystem,
    namesake: AccessSystem,
    stranger: Person,
    roles: dict[str, str],
    causes: Causes,
) -> dict[str, str]:
    """Add the application with its account, and another person's application for the namesake. Return their ids by role."""
    world, in_two_years = company.world, company.world.now + 700 * DAY
    ticket = world.get(Ticket, roles["ticket"])
    stranger_account = add_account(company, draw, stranger, namesake, "auditor", (in_two_years, in_two_years))
    add_application(company, draw, namesake, stranger_account, roles["another"])
    # the ends of the engagement and of the training
    ends = (_runs_until(world, ticket, "engaged", not causes.over), _runs_until(world, ticket, "trained", causes.trained))
    account = add_account(company, draw, world.get(Person, roles["requester"]), system, causes.holds, ends)
    entry = add_application(company, draw, system, account, ticket.reference)
    details = account.details
    return {"entry": entry.id, "account": account.id, "group": details["group"], "idle": details["idle_metric"]}


def _runs_until(world: World, ticket: Ticket, name: str, runs: bool) -> int:
    """Return the end of an engagement or training: after the ticket was opened if it `runs`, else before.

    Some that were running then have ended since, so that today's date misleads. `name` keys the random draw.
    """
    draw = world.streams.at(name, str(runs))
    if not runs:
        return ticket.opened - draw.between(1, 90) * DAY
    return ticket.opened + (draw.between(0, 5) if draw.chance(0.5) else draw.between(30, 700)) * DAY


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case)
    account, to_requester, need = roles["account"], ("waiting_on", roles["requester"]), (ANSWER + roles["requester"], "need")
    granted = (roles["group"], "grants")
    if causes.duplicate:
        facts: CitedFacts = ((roles["earlier"], "reference"), (roles["earlier"], "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", roles["earlier"]))
    if causes.over:
        return ending("declined", "too_late", decider="desk", facts=((account, "engaged_until"),), sets=to_requester)
    ending = partial(ending, must_be_fresh=(roles["idle"],))
    if causes.idle:
        facts = ((roles["idle"], "value"), (roles["policy"], "most_idle"))
        return ending("declined", "unused", decider="desk", facts=facts, sets=to_requester)
    if causes.need == "none":
        return ending("cannot_be_done", "not_covered", decider="desk", facts=(need,), sets=to_requester)
    if causes.holds == "editor" and causes.need != "lead":
        return ending("declined", "already_done", decider="desk", facts=(need, granted), sets=to_requester)
    if causes.holds == "controller" and causes.need != "clerk":
        # Editor and auditor exclude each other, but only one of the two entries says so.
        excluding = "editor" if world.get(Entry, roles["editor"]).details["excludes"] == roles["auditor"] else "auditor"
        facts, sets = ((roles[excluding], "excludes"), granted), ("escalated_to", roles["risk"])
        return ending(
            "escalated",
            "conflict_of_interest",
            decider="Risk Officer",
            facts=facts,
            sets=sets,
            must_not_cite=_in_other_roles(roles, excluding, "excludes"),
        )
    right_role = roles[causes.need]
    if not causes.trained and world.get(Entry, right_role).details["training"] == "required":
        facts = ((account, "trained_until"), (right_role, "training"))
        must_not_cite, sets = _in_other_roles(roles, causes.need, "training"), ("waiting_on", roles["hr_lead"])
        return ending("on_hold", "document_expired", decider="desk", facts=facts, sets=sets, must_not_cite=must_not_cite)
    facts = (need, (right_role, "permissions"), (SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))
    form, decider = (REVIEW_FORM, "Risk Officer") if causes.own_people else (OWNER_FORM, "owner")
    required_values = (("role", right_role), ("need", world.get(Mind, roles["requester"]).knows[case.ticket_id]["need"]))
    must_not_cite = _in_other_roles(roles, causes.need, "permissions")
    return ending(
        "completed",
        "all_checks_passed",
        decider=decider,
        facts=facts,
        must_not_cite=must_not_cite,
        signed=(Signature(form, required_values),),
    )


def _in_other_roles(roles: dict[str, str], template: str, field: str) -> CitedFacts:
    """Return this field of every access role of the system, except that of one template, as facts."""
    return tuple((roles[other], field) for other in ROLE_TEMPLATES if other != template)


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.

Catalogue = dict[str, moves.Shown]  # the roles of a system by id


class AccessNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Access request"

    application: moves.Shown
    account: moves.Shown

    def need(self) -> moves.Move[moves.Shown]:
        """Return the requester's comment that states what they need."""
        text = "Which permissions does your work take?"
        return (yield from moves.ask_person(self.ticket["id"], self.ticket["requester"], "need", text))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "access")
    listed = yield from moves.search_entries(ticket["reference"])
    application = yield from moves.read("datahub.get_entry", entry_id=listed[0]["id"])
    account = yield from moves.read("datahub.get_entry", entry_id=application["account"])
    notes = AccessNotes(ticket, policies, approved, style, application, account)
    yield from notes.read_rule("order of checks")
    yield from notes.read_rule("evidence")
    yield from casework.prepare(ticket, application["id"], style)
    if style.chooses("ask before it is needed"):
        yield from notes.need()
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (account, "person"))


def _decide(notes: AccessNotes) -> moves.Move[Decision]:
    """Make the checks on the person, then those on roles, in the order of the policy. The first that applies decides."""
    ticket, account = notes.ticket, notes.account
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    rule = yield from moves.read("datahub.read_policy", policy_id=notes.policies[ACCOUNTS])
    if account["engaged_until"] < ticket["opened"][:10]:
        yield from notes.send_back()
        return "declined", "too_late", moves.cite((account, "engaged_until"))
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=account["idle_metric"])
    idle = yield from moves.fresh_reading(account["idle_metric"])
    if idle["value"] > rule["most_idle"]:
        yield from notes.send_back()
        return "declined", "unused", moves.cite((idle, "value"), (rule, "most_idle"))
    outcome = yield from _decide_on_roles(notes)
    yield from moves.fresh_reading(idle["id"])  # it may have become too old during the wait
    return outcome


def _decide_on_roles(notes: AccessNotes) -> moves.Move[Decision]:
    """Compare the need with the roles of the system and with those that the account has."""
    ticket, account = notes.ticket, notes.account
    system = yield from moves.read("datahub.get_entry", entry_id=notes.application["system"])
    yield from notes.read_rule("the right role")
    roles = yield from _catalogue(system, notes.style)
    answer = yield from notes.need()
    need = set(answer["need"].split(", "))
    covering_roles = [role for role in roles if need <= _permissions(roles, [role])]
    if not covering_roles:
        yield from notes.send_back()
        return "cannot_be_done", "not_covered", moves.cite((answer, "need"))
    yield from notes.read_rule("what is held")
    group = yield from moves.read("datahub.get_entry", entry_id=account["group"])
    held_roles = [account["role"], group["grants"]]
    if need <= _permissions(roles, held_roles):
        yield from notes.send_back()
        return "declined", "already_done", moves.cite((answer, "need"), (group, "grants"))
    right_role = roles[min(covering_roles, key=lambda role: len(_permissions(roles, [role])))]
    excluding_role = _conflicting_role(roles, right_role["id"], held_roles)
    if excluding_role:
        risk = yield from moves.read("datahub.get_approver", role="Risk Officer")
        yield from notes.record("escalated_to", risk["id"])
        return "escalated", "conflict_of_interest", moves.cite((excluding_role, "excludes"), (group, "grants"))
    if right_role["training"] == "required" and account["trained_until"] < ticket["opened"][:10]:
        lead = yield from moves.read("datahub.get_approver", role="HR Lead")
        yield from notes.record("waiting_on", lead["id"])
        return "on_hold", "document_expired", moves.cite((account, "trained_until"), (right_role, "training"))
    request = yield from _signed(notes, system["owner"], right_role, answer)
    evidence = moves.cite((answer, "need"), (right_role, "permissions"), (request, "status"), (request, "decided_by"))
    return "completed", "all_checks_passed", evidence


def _catalogue(system: moves.Shown, style: ExpertStyle) -> moves.Move[Catalogue]:
    """Return all roles of a system, by id."""
    listed = yield from moves.search_entries(system["reference"])
    roles = {}
    for row in style.order("roles", [row for row in listed if row["kind"] == "role"]):
        roles[row["id"]] = yield from moves.read("datahub.get_entry", entry_id=row["id"])
    return roles


def _with_inherited(roles: Catalogue, role_ids: list[str]) -> set[str]:
    """Return these roles and all that they inherit."""
    all_ids: set[str] = set()
    for role_id in role_ids:
        while role_id in roles:
            all_ids.add(role_id)
            role_id = roles[role_id]["inherits"]
    return all_ids


def _permissions(roles: Catalogue, role_ids: list[str]) -> set[str]:
    """Return the permissions of these roles, with those that they inherit."""
    return {
        permission
        for role_id in _with_inherited(roles, role_ids)
        for permission in roles[role_id]["permissions"].split(", ")
    }


def _conflicting_role(roles: Catalogue, right_id: str, held_ids: list[str]) -> moves.Shown | None:
    """Return the role whose `excludes` makes the right role incompatible with those held, or None."""
    wanted_roles, held_roles = _with_inherited(roles, [right_id]), _with_inherited(roles, held_ids)
    for excluding, excluded in ((wanted_roles, held_roles), (held_roles, wanted_roles)):
        for role_id in sorted(excluding):
            if roles[role_id]["excludes"] in excluded:
                return roles[role_id]
    return None


def _signed(notes: AccessNotes, owner_title: str, right_role: moves.Shown, answer: moves.Shown) -> moves.Move[moves.Shown]:
    """Return an approved request for the right role, and link it to the ticket.

    The owner of the system signs; if the owner is the requester's manager, the Risk Officer does.
    """
    ticket, application = notes.ticket, notes.application
    yield from notes.read_rule("signing")
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    form, approver = OWNER_FORM, (yield from moves.read("datahub.get_approver", role=owner_title))
    if requester["manager"] == approver["id"]:
        form, approver = REVIEW_FORM, (yield from moves.read("datahub.get_approver", role="Risk Officer"))
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
    else:
        form_data = {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "account": application["account"],
            "role": right_role["id"],
            "need": answer["need"],
            "mandate": application["mandate"],
            "case_no": application["case_no"],
        }
        request = yield from moves.get_signed(form, approver, form_data)
    yield from notes.record("approval", request["id"])
    return request


FAMILY = Family(
    name="access_request",
    phrase="access request",
    causes=Causes,
    actor="Access Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 72, 25: 98, 50: 123, 75: 144, 100: 167},
)
