"""Budget transfer: may this money be moved, and who has to sign, given the transfers before it?

What makes it hard: nothing on the ticket decides. The amount is always small, but the limits apply to the sum of all
transfers between the two lines in the quarter, in both directions, without withdrawn ones. The available money is a
difference of four figures. And the signatures form a chain, in which each request names the one before. The sum decides
where the chain begins, and one signature too many is as wrong as one too few.
"""

from functools import partial
from typing import Annotated, Literal

from companyos.company import Person
from companyos.core.calls import Procedure
from companyos.core.world import Streams, World
from companyos.families.budget_lines import (
    COUNTED,
    NOT_COUNTED,
    add_books,
    add_lines,
    add_tickets,
    add_transfers,
    draw_amounts,
    draw_past,
    raise_figure,
)
from companyos.families.budget_rules import (
    BRIEFS,
    CLEARANCES,
    GIVING,
    OWNERS,
    TAKING,
    add_budget_policies,
    hire,
    transfer_forms,
)
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Signature,
)

Refresh = Literal["quick", "slow", "fails", "fails_twice"]
Level = Literal["low", "high"]

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about these lines, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    dissolved: Annotated[
        bool, Fact(odds=(0.88, 0.12), shown_in=(("Entry", "giver", "status"),)), "the giving line is dissolved"
    ]
    mixed: Annotated[
        bool,
        Fact(odds=(0.89, 0.11), shown_in=(("Entry", "receiver", "cost_type"),)),
        "the two lines are of different cost types",
    ]
    books: Annotated[
        Literal["open", "paused", "closed"],
        Fact(odds=(0.77, 0.11, 0.12), shown_in=(("Entry", "books", "status"),)),
        "whether the quarter's books are open",
    ]
    spent: Annotated[
        Level,
        Fact(odds=(0.54, 0.46), shown_in=(("Source", "spent", "value"), ("Metric", "spent", "value"))),
        "what the giving line has spent; there is too little money if this and the commitments are high",
    ]
    committed: Annotated[
        Level,
        Fact(odds=(0.54, 0.46), shown_in=(("Source", "committed", "value"), ("Metric", "committed", "value"))),
        "the commitments of the giving line; there is too little money if these and the expenses are high",
    ]
    past: Annotated[
        Literal["little", "some", "much", "most"],
        Fact(odds=(0.27, 0.29, 0.26, 0.18), shown_in=tuple(("Entry", role, "amount") for role in COUNTED)),
        "between which limits the quarter's sum lies",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    spent_stale: Annotated[bool, Trouble(dial="stale", target=("spent",))]
    committed_stale: Annotated[bool, Trouble(dial="stale", target=("committed",))]
    spent_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("spent",))]
    committed_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("committed",))]
    giver_away: Annotated[bool, Trouble(dial="absence", target=("giving_owner",))]
    giver_deputy_away: Annotated[bool, Trouble(dial="absence", target=("giving_deputy",))]
    receiver_away: Annotated[bool, Trouble(dial="absence", target=("taking_owner",))]
    receiver_deputy_away: Annotated[bool, Trouble(dial="absence", target=("taking_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # Finance raises no objections, because it decides on those of the owners.
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(
            dial="rejections",
            target=("giving_owner", "giving_deputy", "giving_third", "taking_owner", "taking_deputy", "taking_third"),
        ),
    ]
    project_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=project"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    receiving, giving = draw.sample(DEPARTMENTS, 2)
    requester = world.get(Person, staff[f"{receiving} Associate"])
    amounts = draw_amounts(draw)
    limits = add_budget_policies(company, amounts.limits)
    for form in transfer_forms(giving):
        world.put_at_start(form)
    lines = add_lines(company, draw, giving, receiving, amounts, causes.mixed, causes.dissolved)
    opened = world.now - draw.between(60, 900)
    past_amounts = draw_past(streams.at("past", causes.past), amounts, causes.past)
    transfers = add_transfers(company, draw, lines, amounts, past_amounts, opened)
    books = add_books(company, draw, lines, opened, causes.books)
    # The records and people of the case: ids by role. `giving_third` signs if `giving_owner` and `giving_deputy` are away.
    roles = {role: entry.id for role, entry in (transfers | books).items()}
    roles |= {
        "requester": requester.id,
        "giver": lines.giver.id,
        "receiver": lines.receiver.id,
        "spent": lines.giver.details["spent_metric"],
        "committed": lines.giver.details["committed_metric"],
        "form": GIVING,
        "model": transfers["past_other"].id,  # an unrelated entry of the same kind
        "policy": limits.id,
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "ceo": staff["CEO"],
        "keeper": books["books"].details["keeper"],
    }
    for side, department in (("giving", giving), ("taking", receiving)):
        roles[f"{side}_owner"] = staff[f"Head of {department}"]
        roles[f"{side}_deputy"] = staff[f"Deputy Head of {department}"]
        roles[f"{side}_third"] = staff[f"{department} Manager"]
    for figure in ("spent", "committed"):
        raise_figure(company, roles[figure], figure, getattr(causes, figure), amounts.amount)
    roles |= add_tickets(company, draw, lines, transfers, requester, opened, causes.duplicate)
    manager = world.get(Person, staff["Budget Manager"])
    brief_values = {"giver": lines.giver.name, "receiver": lines.receiver.name, "manager": manager.name}
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], **brief_values)
    return Case(roles["ticket"], staff["Budget Analyst"], brief, roles)


# -- judge -------------------------------------------------------------------------------------------------------------

_FIGURES = ("spent", "committed")
_BOOKS = ("books", "books_before", "their_books", "their_books_before")
# Who has to clear the transfer, by the cause `past`.
_CLEARED_BY = {"little": OWNERS, "some": "Finance Controller", "much": "CFO"}


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    giver, receiver, earlier, books = roles["giver"], roles["receiver"], roles["earlier"], roles["books"]
    to_requester, figures = ("waiting_on", roles["requester"]), (roles["committed"], roles["spent"])
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.dissolved:
        return ending("cannot_be_done", "not_covered", decider="desk", facts=((giver, "status"),), sets=to_requester)
    if causes.mixed:
        facts = ((giver, "cost_type"), (receiver, "cost_type"))
        return ending("declined", "contradicts_policy", decider="desk", facts=facts, sets=to_requester)
    other_books = tuple((roles[role], "status") for role in _BOOKS if role != "books")
    if causes.books == "closed":
        return ending(
            "declined", "too_late", decider="desk", facts=((books, "status"),), sets=to_requester, must_not_cite=other_books
        )
    if causes.books == "paused":
        sets = ("waiting_on", roles["keeper"])
        return ending("on_hold", "not_due", decider="desk", facts=((books, "status"),), sets=sets, must_not_cite=other_books)
    if causes.spent == causes.committed == "high":
        facts = ((giver, "budget"), (giver, "earmarked"), *((roles[figure], "value") for figure in _FIGURES))
        return ending("declined", "no_budget", decider="desk", facts=facts, sets=to_requester, must_be_fresh=figures)
    if causes.past == "most":
        facts = ((roles["policy"], "limit_cfo"), *((roles[role], "amount") for role in COUNTED))
        must_not_cite = tuple((roles[role], "amount") for role in (*NOT_COUNTED, "past_other"))
        sets = ("escalated_to", roles["ceo"])
        return ending(
            "escalated",
            "above_limit",
            decider="CEO",
            facts=facts,
            sets=sets,
            must_be_fresh=figures,
            must_not_cite=must_not_cite,
        )
    cleared_by = _CLEARED_BY[causes.past]
    signatures = [Signature(GIVING, (("cleared_by", cleared_by),)), Signature(TAKING)]
    if cleared_by in CLEARANCES:
        signatures.insert(0, Signature(CLEARANCES[cleared_by]))
    *earlier_requests, last_request = (f"{SIGNED_REQUEST}:{signature.form}" for signature in signatures)
    facts = (
        (last_request, "status"),
        (last_request, "decided_by"),
        *((request, "decided_by") for request in earlier_requests),
    )
    return ending(
        "completed", "all_checks_passed", decider=cleared_by, facts=facts, must_be_fresh=figures, signed=tuple(signatures)
    )


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class TransferNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Budget transfer"

    transfer: moves.Shown


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "transfer")
    listed = yield from moves.search_entries(ticket["reference"])
    transfer = yield from moves.read("datahub.get_entry", entry_id=listed[0]["id"])
    notes = TransferNotes(ticket, policies, approved, style, transfer)
    yield from notes.read_rule("order of checks")
    yield from casework.prepare(ticket, transfer["id"], style)
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (transfer, "quarter"))


def _decide(notes: TransferNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, transfer = notes.ticket, notes.transfer
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    yield from notes.read_rule("lines and books")
    listed_for_giver = yield from moves.search_entries(transfer["giver"])
    giver = yield from _read_line(listed_for_giver, transfer["giver"])
    if giver["status"] == "dissolved":
        yield from notes.send_back()
        return "cannot_be_done", "not_covered", moves.cite((giver, "status"))
    listed_for_receiver = yield from moves.search_entries(transfer["receiver"])
    receiver = yield from _read_line(listed_for_receiver, transfer["receiver"])
    if giver["cost_type"] != receiver["cost_type"]:
        yield from notes.send_back()
        return "declined", "contradicts_policy", moves.cite((giver, "cost_type"), (receiver, "cost_type"))
    books_listed = yield from moves.search_entries(giver["ledger"])
    books = next(row for row in books_listed if row["kind"] == "books" and row["reference"] == transfer["quarter"])
    if books["status"] == "closed":
        yield from notes.send_back()
        return "declined", "too_late", moves.cite((books, "status"))
    if books["status"] == "paused":
        books = yield from moves.read("datahub.get_entry", entry_id=books["id"])
        yield from notes.record("waiting_on", books["keeper"])
        return "on_hold", "not_due", moves.cite((books, "status"))
    figures = yield from _read_figures(notes, giver)
    not_available = int(giver["earmarked"]) + sum(figure["value"] for figure in figures.values())
    if int(giver["budget"]) - not_available < ticket["amount"]:
        yield from notes.send_back()
        measured = [(figure, "value") for figure in figures.values()]
        return "declined", "no_budget", moves.cite((giver, "budget"), (giver, "earmarked"), *measured)
    limits = yield from notes.read_rule("limits")
    other_transfers = yield from _other_transfers(notes, listed_for_giver)
    quarter_sum = ticket["amount"] + sum(int(other_transfer["amount"]) for other_transfer in other_transfers)
    if quarter_sum > limits["limit_cfo"]:
        ceo = yield from moves.read("datahub.get_approver", role="CEO")
        yield from notes.record("escalated_to", ceo["id"])
        return (
            "escalated",
            "above_limit",
            moves.cite((limits, "limit_cfo"), *((other_transfer, "amount") for other_transfer in other_transfers)),
        )
    cleared_by = OWNERS
    if quarter_sum > limits["limit_owners"]:
        cleared_by = "Finance Controller" if quarter_sum <= limits["limit_controller"] else "CFO"
    return (yield from _get_signed(notes, giver, receiver, figures, cleared_by))


def _read_line(listed: list[moves.Shown], reference: str) -> moves.Move[moves.Shown]:
    """Read the budget line that has this reference."""
    line: moves.Shown = yield from moves.read(
        "datahub.get_entry", entry_id=next(row["id"] for row in listed if row["reference"] == reference)
    )
    return line


def _read_figures(notes: TransferNotes, giver: moves.Shown) -> moves.Move[dict[str, moves.Shown]]:
    """Return fresh readings of what is spent and committed on a line."""
    yield from notes.read_rule("what is available")
    figures = {}
    for figure in notes.style.order("figures", ["spent", "committed"]):
        if notes.style.chooses("refresh in any case"):
            yield from moves.ask("datahub.refresh_data", metric_name=giver[f"{figure}_metric"])
        figures[figure] = yield from moves.fresh_reading(giver[f"{figure}_metric"])
    return figures


def _other_transfers(notes: TransferNotes, listed: list[moves.Shown]) -> moves.Move[list[moves.Shown]]:
    """Return the other transfers that count for the quarter's sum. `listed` are the entries that name the giving line."""
    transfer = notes.transfer
    name_parts = (transfer["quarter"], transfer["giver"], transfer["receiver"])
    transfers = []
    for row in notes.style.order("others", listed):
        is_between_lines = row["kind"] == "transfer" and all(part in row["name"] for part in name_parts)
        if is_between_lines and row["status"] != "withdrawn" and row["id"] != transfer["id"]:
            transfers.append((yield from moves.read("datahub.get_entry", entry_id=row["id"])))
    return transfers


def _get_signed(
    notes: TransferNotes,
    giver: moves.Shown,
    receiver: moves.Shown,
    figures: dict[str, moves.Shown],
    cleared_by: str,
) -> moves.Move[Decision]:
    """Get the signatures: that of Finance if the sum requires it, then those of the owners of both lines."""
    ticket, transfer = notes.ticket, notes.transfer
    for title in notes.style.order("read up", ["signing", "signers"]):
        yield from notes.read_rule(title)
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    if ticket["cost_center"] != requester["cost_center"]:
        yield from notes.record("cost_center", requester["cost_center"])
    form_data = {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "euros": ticket["amount"],
        "giver": transfer["giver"],
        "receiver": transfer["receiver"],
        "spent": figures["spent"]["value"],
        "committed": figures["committed"]["value"],
        "cleared_by": cleared_by,
        "cost_center": requester["cost_center"],
        "memo": transfer["memo"],
        "project": transfer["project"],
    }
    evidence: list[moves.Shown] = []
    extra_fields: tuple[str, ...] = ()
    if cleared_by in CLEARANCES:
        read_approver = moves.read("datahub.get_approver", role=cleared_by)
        clearance = yield from _signed(notes, CLEARANCES[cleared_by], read_approver, form_data)
        evidence += moves.cite((clearance, "decided_by"))
        form_data["clearance"], extra_fields = clearance["id"], ("clearance",)
    read_approver = moves.read("datahub.get_approver", role=giver["owner"])
    giving = yield from _signed(notes, GIVING, read_approver, form_data, extra_fields)
    form_data["giving"] = giving["id"]
    read_approver = moves.read("datahub.get_approver", role=receiver["owner"])
    taking = yield from _signed(notes, TAKING, read_approver, form_data)
    yield from notes.record("approval", taking["id"])
    for figure in figures.values():
        yield from moves.fresh_reading(figure["id"])  # it may have become too old during the wait
    evidence += moves.cite((giving, "decided_by"), (taking, "status"), (taking, "decided_by"))
    return "completed", "all_checks_passed", evidence


def _signed(
    notes: TransferNotes,
    form: str,
    read_approver: moves.Move[moves.Shown],
    form_data: moves.Shown,
    extra_fields: tuple[str, ...] = (),
) -> moves.Move[moves.Shown]:
    """Return the approved request of a form. `read_approver` runs only if there is none yet."""
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
        return request
    approver = yield from read_approver
    return (yield from moves.get_signed(form, approver, form_data, extra_fields=extra_fields))


FAMILY = Family(
    name="budget_transfer",
    phrase="budget transfer",
    causes=Causes,
    actor="Budget Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 81, 25: 128, 50: 158, 75: 202, 100: 233},
)
