"""Data deletion: which data on this person must be deleted, which must be kept, and who has to be asked first?

What makes it hard: one request has several parts with different results. Each holding (the data of one category) has a legal
ground, and the ground decides which field matters: a date, a status or none. Besides, two other departments have to state
what only they know, in this order: Legal a litigation hold, then the data steward where copies are. A signed deletion cannot
be undone, so one holding too many is as wrong as one too few.
"""

from functools import partial
from typing import Annotated, Literal

from companyos.company import Entry, Mind, Person, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import Draw, Streams, World
from companyos.families.deletion_holdings import (
    CATEGORIES,
    HOLDING_ROLES,
    OURSELVES,
    add_customers,
    add_holdings,
    add_tickets,
    draw_holding,
    draw_keep_days,
    keep_days_term,
)
from companyos.families.deletion_rules import (
    BRIEFS,
    FORM,
    LEGAL,
    OFFICER,
    STEWARD,
    add_deletion_policies,
    deletion_form,
    hire,
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

_DECISIVE = ("ground", "status", "last_entry")  # the fields of a holding that decide whether it is kept
_FIRST, _SECOND, _THIRD = (tuple(("Entry", role, field) for field in _DECISIVE) for role in HOLDING_ROLES)


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this person's data, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.9, 0.1), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    foreign: Annotated[
        bool,
        Fact(odds=(0.88, 0.12), shown_in=(("Entry", "agreement", "controller"),)),
        "the data belong to another firm, so the company must not delete them",
    ]
    identity: Annotated[
        Literal["proven", "doubt", "refuted"],
        Fact(odds=(0.74, 0.14, 0.12), shown_in=(("Source", "identity", "value"), ("Metric", "identity", "value"))),
        "how well the person's identity is proven",
    ]
    first: Annotated[bool, Fact(odds=(0.58, 0.42), shown_in=_FIRST), "the first holding is kept because of its own ground"]
    second: Annotated[
        bool, Fact(odds=(0.58, 0.42), shown_in=_SECOND), "the second holding is kept because of its own ground"
    ]
    third: Annotated[bool, Fact(odds=(0.58, 0.42), shown_in=_THIRD), "the third holding is kept because of its own ground"]
    hold: Annotated[
        Literal["none", "part", "whole"],
        Fact(odds=(0.6, 0.25, 0.15), shown_in=(("Mind", "counsel", "knows"),)),
        "what the litigation hold covers: nothing, one category, or everything; only Legal knows",
    ]
    copies: Annotated[
        Literal["none", "near", "lost"],
        Fact(odds=(0.42, 0.38, 0.2), shown_in=(("Mind", "steward", "knows"),)),
        "whether there are copies: none, some within reach, or some out of reach; only the data steward knows",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    identity_stale: Annotated[bool, Trouble(dial="stale", target=("identity",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("identity",))]
    officer_away: Annotated[bool, Trouble(dial="absence", target=("officer",))]
    deputy_away: Annotated[bool, Trouble(dial="absence", target=("deputy",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble(dial="rejections", target=("officer", "deputy", "third_officer"))
    ]
    case_file_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=case_file"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    requester = world.get(Person, staff[f"{draw.pick(DEPARTMENTS)} Associate"])
    proven_from = draw.pick((80, 85, 90))
    identity_terms = {
        "proven_from": proven_from,
        "doubt_from": proven_from - draw.pick((20, 25, 30)),
        "max_age_days": draw.between(7, 14),
    }
    keep_days = draw_keep_days(draw)
    identity_policy = add_deletion_policies(company, identity_terms, keep_days)
    world.put_at_start(deletion_form())
    (customer, agreement), (namesake, _) = add_customers(company, draw, causes.foreign)
    # The records and people of the case: ids by role. `third_officer` signs if `officer` and `deputy` are away.
    roles = {
        "requester": requester.id,
        "entry": customer.id,  # what the ticket is about
        "agreement": agreement.id,
        "identity": customer.details["identity_metric"],
        "form": FORM,
        "policy": identity_policy.id,
        "officer": staff[OFFICER],
        "deputy": staff[f"Deputy {OFFICER}"],
        "third_officer": staff["Privacy Manager"],
        "counsel": staff[LEGAL],
        "steward": staff[STEWARD],
        "regulator": staff["Compliance Officer"],
    }
    _set_identity(world, roles["identity"], identity_terms, causes)
    roles |= add_tickets(company, draw, customer, namesake, requester, causes.duplicate)
    roles |= _add_holdings(company, draw, customer, namesake, world.get(Ticket, roles["ticket"]).opened, keep_days, causes)
    _tell_colleagues(world, roles, draw.pick(HOLDING_ROLES), causes)
    manager = world.get(Person, roles["third_officer"])
    brief_values = {"ticket": roles["ticket"], "customer": customer.name, "manager": manager.name}
    return Case(roles["ticket"], staff["Privacy Analyst"], one_line(draw.pick(BRIEFS)).format(**brief_values), roles)


def _set_identity(world: World, metric: str, terms: dict[str, int], causes: Causes) -> None:
    """Set how well the identity is proven to a value in the range that the cause `identity` names."""
    proven, doubt = terms["proven_from"], terms["doubt_from"]
    band = {"proven": (proven, 99), "doubt": (doubt, proven - 1), "refuted": (10, doubt - 1)}[causes.identity]
    value = world.streams.at("identity", causes.identity).between(*band)
    set_metric(world, metric, value, terms["max_age_days"])


def _add_holdings(
    company: Backdrop, draw: Draw, customer: Entry, namesake: Entry, opened: int, keep_days: dict[str, int], causes: Causes
) -> dict[str, str]:
    """Add the holdings on the customer and on the namesake. Return the ids of the customer's, by role."""
    streams, categories = company.world.streams, draw.sample(list(CATEGORIES), len(HOLDING_ROLES))
    namesake_holdings = {
        category: draw_holding(draw, draw.chance(0.5), keep_days[keep_days_term(category)]) for category in categories
    }
    add_holdings(company, namesake, opened, namesake_holdings, draw)
    holdings = {}
    for role, category in zip(HOLDING_ROLES, categories, strict=True):
        kept: bool = getattr(causes, role)
        holdings[category] = draw_holding(streams.at("holding", role, kept), kept, keep_days[keep_days_term(category)])
    entries = add_holdings(company, customer, opened, holdings, draw)
    return {role: entries[category].id for role, category in zip(HOLDING_ROLES, categories, strict=True)}


def _tell_colleagues(world: World, roles: dict[str, str], held_role: str, causes: Causes) -> None:
    """Let Legal and the data steward know their facts; the steward answers after Legal.

    A litigation hold on one category covers the holding with the role `held_role`.
    """
    ticket_id, counsel, steward = roles["ticket"], roles["counsel"], roles["steward"]
    hold = {"none": "none", "part": _category(world, roles[held_role]), "whole": "all"}[causes.hold]
    tell(world, counsel, ticket_id, {"hold": hold})
    place = world.streams.at("copies", causes.copies).pick(("archive", "backup", "processor"))
    copies = {
        "copies": "none" if causes.copies == "none" else place,
        "reachable": "no" if causes.copies == "lost" else "yes",
    }
    tell(world, steward, ticket_id, copies, after={counsel: "hold"})


def _category(world: World, holding_id: str) -> str:
    """Return the category of a holding."""
    return world.get(Entry, holding_id).details["category"]


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case)
    identity, identity_policy, earlier, agreement = roles["identity"], roles["policy"], roles["earlier"], roles["agreement"]
    hold = (ANSWER + roles["counsel"], "hold")
    copies, reachable = ((ANSWER + roles["steward"], name) for name in ("copies", "reachable"))
    to_requester = ("waiting_on", roles["requester"])
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.foreign:
        facts = ((roles["entry"], "agreement"), (agreement, "controller"))
        return ending("cannot_be_done", "not_covered", decider="desk", facts=facts, sets=to_requester)
    if causes.identity == "doubt":
        facts = ((identity, "value"), (identity_policy, "proven_from"))
        return ending(
            "on_hold", "missing_information", decider="desk", facts=facts, sets=to_requester, must_be_fresh=(identity,)
        )
    if causes.identity == "refuted":
        return ending(
            "declined",
            "below_minimum",
            decider="desk",
            facts=((identity, "value"), (identity_policy, "doubt_from")),
            must_be_fresh=(identity,),
        )
    if causes.hold == "whole":
        sets = ("waiting_on", roles["counsel"])
        return ending("declined", "contradicts_policy", decider=LEGAL, facts=(hold,), sets=sets, must_be_fresh=(identity,))
    # by role: the fact because of which the holding is kept
    kept = {role: reason for role in HOLDING_ROLES if (reason := _reason_to_keep(world, case, causes, role))}
    reasons_to_keep = tuple(dict.fromkeys(kept.values()))
    must_not_cite = tuple(
        (roles[role], field) for role in HOLDING_ROLES for field in _DECISIVE if (roles[role], field) not in reasons_to_keep
    )
    if len(kept) == len(HOLDING_ROLES):
        return ending(
            "declined",
            "not_due",
            decider="desk",
            facts=reasons_to_keep,
            must_be_fresh=(identity,),
            must_not_cite=must_not_cite,
        )
    if causes.copies == "lost":
        sets = ("escalated_to", roles["regulator"])
        return ending(
            "escalated",
            "beyond_authority",
            decider="Compliance Officer",
            facts=(copies, reachable),
            sets=sets,
            must_be_fresh=(identity,),
        )
    request_facts: CitedFacts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))
    required_values = tuple((_category(world, roles[role]), "keep" if role in kept else "delete") for role in HOLDING_ROLES)
    required_values += (("copies", world.get(Mind, roles["steward"]).knows[case.ticket_id]["copies"]),)
    completed = partial(
        ending, "completed", decider=OFFICER, must_be_fresh=(identity,), signed=(Signature(FORM, required_values),)
    )
    if kept:
        return completed("not_due", facts=(*request_facts, *reasons_to_keep), must_not_cite=must_not_cite)
    return completed("all_checks_passed", facts=(*request_facts, hold, copies))


def _reason_to_keep(world: World, case: Case, causes: Causes, role: str) -> tuple[str, str] | None:
    """Return the fact that requires a holding to be kept, or None if it must be deleted."""
    holding, counsel = world.get(Entry, case.roles[role]), case.roles["counsel"]
    if getattr(causes, role):
        return holding.id, "last_entry" if holding.details["ground"] == "law" else "status"
    hold = world.get(Mind, counsel).knows[case.ticket_id]["hold"]
    return (ANSWER + counsel, "hold") if hold == holding.details["category"] else None


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class DeletionNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Data deletion"

    customer: moves.Shown
    holdings: list[str]  # ids

    def statement(self, job_title: str, name: str, text: str) -> moves.Move[moves.Shown]:
        """Return the comment in which the person with this job title states a fact with this name. `text` asks for it."""
        person = yield from moves.read("datahub.get_approver", role=job_title)
        return (yield from moves.ask_person(self.ticket["id"], person["id"], name, text))

    def ask_legal(self) -> moves.Move[moves.Shown]:
        """Return the comment in which Legal states what a litigation hold covers."""
        return (yield from self.statement(LEGAL, "hold", "Does a litigation hold cover this customer?"))

    def ask_steward(self) -> moves.Move[moves.Shown]:
        """Return the comment in which the data steward states where copies are."""
        return (yield from self.statement(STEWARD, "copies", "Where do copies live, and can we reach them?"))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "deletion")
    query = ticket["subject"].split()[0] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    about_customer = [row for row in listed if row["reference"].split("/")[0] == ticket["reference"]]
    customer_id = next(row["id"] for row in about_customer if row["kind"] == "customer")
    customer = yield from moves.read("datahub.get_entry", entry_id=customer_id)
    holdings = [row["id"] for row in about_customer if row["kind"] == "holding"]
    notes = DeletionNotes(ticket, policies, approved, style, customer, holdings)
    yield from notes.read_rule("order of checks")
    yield from casework.prepare(ticket, customer["id"], style)
    if style.chooses("ask before it is needed"):
        yield from notes.read_rule("hand-overs")
        yield from notes.ask_legal()
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (customer, "reference"))


def _decide(notes: DeletionNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, customer = notes.ticket, notes.customer
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    identity_rule = yield from notes.read_rule("whose data, whose identity")
    agreement_id = (yield from moves.search_entries(customer["agreement"]))[0]["id"]
    agreement = yield from moves.read("datahub.get_entry", entry_id=agreement_id)
    if agreement["controller"] != OURSELVES:
        yield from notes.send_back()
        return "cannot_be_done", "not_covered", moves.cite((customer, "agreement"), (agreement, "controller"))
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=customer["identity_metric"])
    identity = yield from moves.fresh_reading(customer["identity_metric"])
    if identity["value"] < identity_rule["doubt_from"]:
        return "declined", "below_minimum", moves.cite((identity, "value"), (identity_rule, "doubt_from"))
    if identity["value"] < identity_rule["proven_from"]:
        yield from notes.send_back()
        return "on_hold", "missing_information", moves.cite((identity, "value"), (identity_rule, "proven_from"))
    yield from notes.read_rule("hand-overs")
    legal_comment = yield from notes.ask_legal()
    identity = yield from _fresh_identity(identity, identity_rule, legal_comment["at"])
    if legal_comment["hold"] == "all":
        yield from notes.record("waiting_on", legal_comment["author"])
        return "declined", "contradicts_policy", moves.cite((legal_comment, "hold"))
    actions, evidence = yield from _decide_on_holdings(notes, legal_comment)
    if "delete" not in actions.values():
        return "declined", "not_due", evidence
    steward_comment = yield from notes.ask_steward()
    identity = yield from _fresh_identity(identity, identity_rule, steward_comment["at"])
    if steward_comment["reachable"] == "no":
        regulator = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from notes.record("escalated_to", regulator["id"])
        return "escalated", "beyond_authority", moves.cite((steward_comment, "copies"), (steward_comment, "reachable"))
    request = yield from _signed(notes, identity, steward_comment, actions)
    yield from notes.record("approval", request["id"])
    yield from _fresh_identity(identity, identity_rule, request["decided_at"])
    request_evidence = moves.cite((request, "status"), (request, "decided_by"))
    if "keep" in actions.values():
        return "completed", "not_due", request_evidence + evidence
    return (
        "completed",
        "all_checks_passed",
        request_evidence + moves.cite((legal_comment, "hold"), (steward_comment, "copies")),
    )


def _decide_on_holdings(
    notes: DeletionNotes, legal_comment: moves.Shown
) -> moves.Move[tuple[dict[str, str], list[moves.Shown]]]:
    """Decide on each holding. Return `keep` or `delete` by category, and the evidence for those that are kept."""
    retention = yield from notes.read_rule("retention")
    actions, evidence = {}, []
    for holding_id in notes.style.order("holdings", notes.holdings):
        holding = yield from moves.read("datahub.get_entry", entry_id=holding_id)
        category, ground = holding["category"], holding["ground"]
        age = moves.days_between(holding["last_entry"], notes.ticket["opened"])
        reason = None
        if ground == "law" and age < retention[keep_days_term(category)]:
            reason = (holding, "last_entry")
        elif ground == "contract" and holding["status"] == "running":
            reason = (holding, "status")
        elif legal_comment["hold"] == category:
            reason = (legal_comment, "hold")
        actions[category] = "keep" if reason else "delete"
        evidence += moves.cite(reason) if reason else []
    return actions, evidence


def _signed(
    notes: DeletionNotes, identity: moves.Shown, steward_comment: moves.Shown, actions: dict[str, str]
) -> moves.Move[moves.Shown]:
    """Return the approved request. `actions` are `keep` or `delete` by category."""
    if FORM in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[FORM])
        return request
    yield from notes.read_rule("signing")
    ticket, customer = notes.ticket, notes.customer
    form_data = actions | {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "identity": identity["value"],
        "copies": steward_comment["copies"],
        "letter": customer["letter"],
        "case_file": customer["case_file"],
    }
    officer = yield from moves.read("datahub.get_approver", role=OFFICER)
    return (yield from moves.get_signed(FORM, officer, form_data, metric=identity["id"], extra_fields=tuple(actions)))


def _fresh_identity(identity: moves.Shown, identity_rule: moves.Shown, today: str) -> moves.Move[moves.Shown]:
    """Return the reading, or a new one if it has become too old during a wait."""
    if moves.days_between(identity["measured_at"], today) < identity_rule["max_age_days"]:
        return identity
    return (yield from moves.fresh_reading(identity["id"]))


FAMILY = Family(
    name="data_deletion",
    phrase="data deletion",
    causes=Causes,
    actor="Privacy Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 62, 25: 91, 50: 114, 75: 132, 100: 158},
)
