"""Quarter close: can the quarter be closed, once all tickets of its queue are resolved?

What makes it hard: the queue consists of cases of other families with deadlines. Their endings decide how the close ends.
Their due dates decide which of them are worked on at all, and for which of them the CFO still signs. There is much waiting,
so an agent that works on one ticket after the other needs too many steps.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Person, Ticket, programs
from companyos.core.calls import Procedure
from companyos.core.errors import Stuck
from companyos.core.world import DAY, HOUR, Draw, Streams, World, stamp
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, add_firms, add_metric, one_line, set_metric
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family, Linked
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.kit.ids import MORE_CASES, record_ids
from companyos.families.kit.tickets import open_ticket
from companyos.families.quarter_desk import SharedOffice, TicketJob, run_jobs
from companyos.families.quarter_queue import (
    ALWAYS_LATE,
    FAMILY_BY_PHRASE,
    QueuePlace,
    add_case,
    case_at,
    cause_of_case,
    causes_at,
    draw_due,
    draw_queue,
    due_text,
    item_name,
    put_off,
)
from companyos.families.quarter_rules import BRIEFS, FORM, LIMITS, add_close_policies, close_form, hire

DESK = "close"
SIGNATURES = {"one": 1, "two": 2}  # by the cause `signatures`: the number of tickets for which the CFO signs
BEYOND_LIMIT = "on_hold/above_limit"  # the ending of a ticket for which the CFO does not sign any more

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this close, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    The causes of the queued cases are drawn separately (`quarter_queue.causes_at`), except those that are declared here:
    their names begin with the slot of the case, such as `vendor_`.
    """

    vendor_conflict: Annotated[
        Literal["no", "requester"],
        cause_of_case("vendor", "conflict", odds=(0.88, 0.12)),
        "in the vendor case, the requester owns the firm",
    ]
    expense_conflict: Annotated[
        bool,
        cause_of_case("expense", "conflict", odds=(0.88, 0.12)),
        "in the expense case, the payee of a receipt is an employee",
    ]
    refund_favour: Annotated[
        bool,
        cause_of_case("refund", "favour", odds=(0.7, 0.3)),
        "in the refund case, the customer has already had a goodwill refund",
    ]
    signatures: Annotated[
        Literal["one", "two"],
        Fact(
            odds=(0.45, 0.55),
            shown_in=(("Policy", "policy", "signatures"), ("Policy", "policy", "text"), ("Draft", "policy", "terms")),
        ),
        "the number of queued tickets for which the CFO signs",
    ]
    gaps: Annotated[
        Literal["few", "many"],
        Fact(odds=(0.65, 0.35), shown_in=(("Source", "unreconciled", "value"), ("Metric", "unreconciled", "value"))),
        "whether the unreconciled postings are above the tolerance",
    ]
    overdue: Annotated[
        bool, Fact(odds=(0.65, 0.35), shown_in=(("Entry", "extra.item", "status"),)), "one item more is late than is allowed"
    ]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    gaps_stale: Annotated[bool, Trouble(dial="stale", target=("unreconciled",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("unreconciled",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble(dial="rejections", target=("cfo", "controller", "treasurer"))
    ]
    period_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=period"))]
    vendor_block: Annotated[Literal["no", "leftover", "waiting"], cause_of_case("vendor", "block")]
    vendor_score_stale: Annotated[bool, cause_of_case("vendor", "score_stale")]
    vendor_cost_center_outdated: Annotated[bool, cause_of_case("vendor", "cost_center_outdated")]
    expense_lookalike: Annotated[bool, cause_of_case("expense", "lookalike")]
    expense_budget_stale: Annotated[bool, cause_of_case("expense", "budget_stale")]
    expense_refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], cause_of_case("expense", "refresh")]
    expense_project_required: Annotated[bool, cause_of_case("expense", "project_required")]
    refund_block: Annotated[Literal["no", "leftover", "waiting"], cause_of_case("refund", "block")]
    refund_rate_stale: Annotated[bool, cause_of_case("refund", "rate_stale")]
    refund_cost_center_missing: Annotated[bool, cause_of_case("refund", "cost_center_missing")]
    extra_block: Annotated[
        Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("extra.ticket", "extra.blocker"))
    ]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the close and its queue to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    _make_room(company)
    terms = {"signatures": SIGNATURES[causes.signatures], "most_late": ALWAYS_LATE, "tolerance": draw.between(40, 90)}
    policy = add_close_policies(company, terms)
    world.put_at_start(close_form())
    department = draw.pick(DEPARTMENTS)
    ticket = _add_ticket(company, draw, department)
    entry, model = _add_entries(company, draw, ticket, department)
    _set_unreconciled(world, entry.details["unreconciled_metric"], terms["tolerance"], causes)
    blocker = world.select(Ticket, "made", kind="license_renewal")[0]
    world.put_at_start(replace(blocker, status="in_progress"))
    # The records and people of the case: ids by role.
    roles = {
        "ticket": ticket.id,
        "requester": ticket.requester,
        "entry": entry.id,  # what the ticket is about
        "model": model.id,  # an unrelated entry of the same kind
        "unreconciled": entry.details["unreconciled_metric"],
        "form": FORM,
        "policy": policy.id,
        "blocker": blocker.id,
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "treasurer": staff["Treasurer"],
    }
    places = draw_queue(streams, causes.overdue)
    due = draw_due(streams, places, ticket.opened, _cut_off(ticket))
    for number, place in enumerate(places, 1):
        case = add_case(company, place, causes, DESK)
        name, status = item_name(case.ticket_id, place.family), due_text(due[place.slot])
        # With this reference a search for the close also finds its items, but an item cannot be taken for the close.
        reference = f"{entry.reference}/{number}"
        item = world.put_at_start(Entry(company.entry_ids.pop(0), "close_item", name, reference, status, {}))
        roles |= {f"{place.slot}.{role}": record_id for role, record_id in (case.roles | {"item": item.id}).items()}
    manager = world.get(Person, staff["Close Manager"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=ticket.id, close=ticket.subject, manager=manager.name)
    return Case(ticket.id, staff["Close Analyst"], brief, roles)


def _make_room(company: Backdrop) -> None:
    """Add firms and ids for more than one case. They differ from those of the backdrop and of `everyday`."""
    add_firms(company)
    draw = company.world.streams.at("room")
    company.ticket_ids.extend(record_ids("T", draw, MORE_CASES, 80))
    company.entry_ids.extend(record_ids("E", draw, MORE_CASES, 250))
    company.policy_ids.extend(record_ids("P", draw, MORE_CASES, 150))


def _add_ticket(company: Backdrop, draw: Draw, department: str) -> Ticket:
    """Add the ticket of the close itself."""
    world = company.world
    return open_ticket(
        company,
        draw,
        world.get(Person, company.staff[f"{department} Manager"]),
        title=f"Close of the quarter in {department}",
        kind=FORM,
        desk=DESK,
        assignee=company.staff["Close Analyst"],
        subject=f"{draw.pick(('first', 'second', 'third', 'fourth'))} quarter in {department}",
        reference=f"CLO-{draw.between(10_000, 99_999)}",
    )


def _cut_off(ticket: Ticket) -> int:
    """Return the time after which items are not due for this close: nine days after the ticket was opened, at 17:00."""
    return (ticket.opened // DAY + 9) * DAY + 17 * HOUR


def _add_entries(company: Backdrop, draw: Draw, ticket: Ticket, department: str) -> tuple[Entry, Entry]:
    """Add the close to the register, and a close of another department and quarter. Return both entries."""
    entries = []
    other_department = next(name for name in draw.shuffled(DEPARTMENTS) if name != department)
    for entry_department, cut_off, reference in (
        (department, _cut_off(ticket), ticket.reference),
        (other_department, _cut_off(ticket) - 91 * DAY, f"CLO-{draw.between(1000, 9999)}"),
    ):
        metric = f"unreconciled.{entry_department.lower()}"
        add_metric(
            company, metric, f"Unreconciled postings of {entry_department}", "postings", draw.between(2, 99), (2, 160)
        )
        details = {
            "cut_off": stamp(cut_off),
            "unreconciled_metric": metric,
            "ledger": f"GL-{draw.between(1000, 9999)}",
            "period": f"PER-{draw.between(100, 999)}",
        }
        entry = Entry(company.entry_ids.pop(0), "close", f"Close of {entry_department}", reference, "open", details)
        entries.append(company.world.put_at_start(entry))
    return entries[0], entries[1]


def _set_unreconciled(world: World, metric: str, tolerance: int, causes: Causes) -> None:
    """Set the number of unreconciled postings to a value on the side of the tolerance that the cause `gaps` names."""
    band = {"few": (2, tolerance), "many": (tolerance + 1, 150)}[causes.gaps]
    value = world.streams.at("gaps", causes.gaps).between(*band)
    set_metric(world, metric, value)


# -- judge -------------------------------------------------------------------------------------------------------------


class QueuedTicket(Struct, frozen=True):
    """A ticket of the queue and its right ending."""

    place: QueuePlace
    ticket_id: str
    item_id: str  # the entry of the register that shows its due date
    ending: Ending


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending of the close, with those of the tickets in its queue as `linked`."""
    queue = _judge_queue(world, case, causes)
    linked = tuple(
        Linked(
            name=queued.place.slot,
            ticket_id=queued.ticket_id,
            ending=queued.ending,
            worth=_WORTH_IN_TIME if queued.place.standing == "in_time" else _WORTH_PUT_OFF,
        )
        for queued in queue
    )
    return replace(_judge_close(world, case, causes, queue), linked=linked)


def _judge_close(world: World, case: Case, causes: Causes, queue: list[QueuedTicket]) -> Ending:
    """Return the right ending of the close itself. The checks have the order that the policy sets.

    `kit.endings` explains the arguments. In facts, `SIGNED_REQUEST` stands for the approved request.
    """
    roles, policy, unreconciled = case.roles, case.roles["policy"], case.roles["unreconciled"]
    ending = partial(endings.ending, world, case, worth=_WORTH)
    to_requester = ("waiting_on", roles["requester"])
    for queued in queue:
        if queued.ending.resolution == "escalated":
            sets = ("escalated_to", roles["cfo"])
            return ending(
                "escalated", "beyond_authority", decider="CFO", facts=((queued.ticket_id, "resolution"),), sets=sets
            )
    for queued in queue:
        if queued.place.standing == "in_time" and queued.ending.name == BEYOND_LIMIT:
            facts: CitedFacts = ((queued.ticket_id, "reason"), (policy, "signatures"))
            return ending("cannot_be_done", "above_limit", decider="desk", facts=facts)
    if causes.gaps == "many":
        facts = ((unreconciled, "value"), (policy, "tolerance"))
        return ending(
            "declined", "not_covered", decider="desk", facts=facts, sets=to_requester, must_be_fresh=(unreconciled,)
        )
    if causes.overdue:
        last_late = [queued.item_id for queued in queue if queued.place.standing == "too_late"][-1]
        facts = ((last_late, "status"), (policy, "most_late"))
        return ending("on_hold", "too_late", decider="desk", facts=facts, sets=to_requester, must_be_fresh=(unreconciled,))
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (unreconciled, "value"))
    return ending(
        "completed",
        "all_checks_passed",
        decider="CFO",
        facts=facts,
        must_be_fresh=(unreconciled,),
        signed=(Signature(FORM),),
    )


# The queue is most of the work, so the milestones of the close itself pay less than in other families. A ticket that needs
# work pays four times as much as one that is only put on hold.
_WORTH = endings.Worth(
    priority=0.25, unblocked=0.25, verified=0.5, outcome=0.5, refreshed=0.25, read=0.25, requested=0.5, approved=0.75
)
_WORTH_IN_TIME, _WORTH_PUT_OFF = 1.2, 0.3


def _judge_queue(world: World, case: Case, causes: Causes) -> list[QueuedTicket]:
    """Return the right endings of the queued tickets, ordered by due date.

    A ticket ends as its family demands, unless it is due too early or too late, or the CFO signs for no more tickets.
    """
    roles, signatures_left = case.roles, SIGNATURES[causes.signatures]
    queue = []
    places = draw_queue(world.streams, causes.overdue)
    for place in sorted(places, key=lambda place: world.get(Entry, roles[f"{place.slot}.item"]).status):
        queued_case, item_id = case_at(world, case, place), roles[f"{place.slot}.item"]
        if place.standing != "in_time":
            ending = put_off(queued_case.ticket_id, place.standing, ((item_id, "status"),))
        else:
            ending = place.family.judge(world, queued_case, causes_at(world.streams, place, causes))
            if ending.signatures and ending.decider == "CFO":
                signatures_left -= 1
                if signatures_left < 0:
                    facts = ((item_id, "status"), (roles["policy"], "signatures"))
                    ending = put_off(queued_case.ticket_id, "above_limit", facts, ending.allowed)
        queue.append(QueuedTicket(place, queued_case.ticket_id, item_id, ending))
    return queue


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class QueueItem(Struct, frozen=True):
    """A ticket of the queue, as the register shows it to the expert."""

    ticket_id: str
    phrase: str  # the phrase of its family, such as `vendor onboarding`
    row: moves.Shown  # its row in a search of the register; the status is the due date
    standing: str  # `in_time`, or the reason for which it is put on hold: `too_late` or `not_due`


class CloseNotes(Struct, frozen=True):
    """What the expert has gathered before it works on the queue."""

    ticket: moves.Shown
    entry: moves.Shown
    items: list[QueueItem]  # ordered by due date
    limits: moves.Shown
    policies: dict[str, str]
    signed: dict[str, dict[str, str]]  # requests approved before the expert took over: ids by ticket and form
    so_far: EpisodeSoFar
    style: ExpertStyle


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Resolve all tickets of the queue, working on one while another waits, and then the close itself.

    Starts from the beginning or after earlier turns of somebody else.
    """
    ticket_id = moves.ticket_in(so_far)
    signed: dict[str, dict[str, str]] = {}  # approved requests: ids by ticket and form
    if moves.wrote(so_far):
        signed = yield from moves.withdraw_pending_requests(so_far)
    notes = yield from _gather(ticket_id, signed, so_far, style)
    finished = (yield from _undo_changes(notes)) if moves.wrote(so_far) else set()
    closings = yield from _resolve_queue(notes, finished)
    decision = yield from _decide(notes, closings)
    yield from casework.finish(notes.ticket, decision, style, (notes.ticket, "reference"), (notes.entry, "reference"))


def _gather(
    ticket_id: str, signed: dict[str, dict[str, str]], so_far: EpisodeSoFar, style: ExpertStyle
) -> moves.Move[CloseNotes]:
    """Read the close, its queue and the policies. `signed` are the requests that were approved before."""
    ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=ticket_id)
    yield from casework.set_in_progress(ticket, style)
    policies = yield from moves.policies_about("quarter", ticket["opened"])
    for title in style.order("rules", ["Quarter close: queue", "Quarter close: order of checks"]):
        yield from moves.read("datahub.read_policy", policy_id=policies[title])
    limits = yield from moves.read("datahub.read_policy", policy_id=policies[LIMITS])
    listed = yield from moves.search_entries(ticket["reference"])
    entry_id = next(row["id"] for row in listed if row["kind"] == "close")
    entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    queue = sorted((row for row in listed if row["kind"] == "close_item"), key=lambda row: str(row["status"]))
    items = [_item(row, _standing(row, ticket, entry)) for row in queue]
    return CloseNotes(ticket, entry, items, limits, policies, signed, so_far, style)


def _item(row: moves.Shown, standing: str) -> QueueItem:
    """Return an item of the queue. Its name in the register is, for example, "T-4411, vendor onboarding"."""
    ticket_id, phrase = row["name"].split(", ")
    return QueueItem(ticket_id, phrase, row, standing)


def _standing(row: moves.Shown, ticket: moves.Shown, entry: moves.Shown) -> str:
    """Return `too_late` if an item was due before the close was opened, `not_due` if after its cut-off, else `in_time`."""
    due = row["status"].removeprefix("due ")
    if due < ticket["opened"]:
        return "too_late"
    return "not_due" if due > entry["cut_off"] else "in_time"


def _undo_changes(notes: CloseNotes) -> moves.Move[set[str]]:
    """Undo wrong changes of earlier turns. Return the tickets of the queue that are finished already."""
    listed = yield from moves.rows("ticketdesk.list_tickets", desk=notes.ticket["desk"])
    queued_ids = {item.ticket_id for item in notes.items}
    finished = {row["id"] for row in listed if row["id"] in queued_ids and row["status"] in moves.FINISHED}
    yield from moves.put_back({notes.ticket["id"], *queued_ids}, finished)
    return finished


def _resolve_queue(notes: CloseNotes, finished: set[str]) -> moves.Move[dict[str, moves.Shown]]:
    """Resolve every ticket of the queue. Return how those that were in time were closed, ordered by due date."""
    cfo = yield from _cfo(notes)
    jobs, other_jobs = [], [TicketJob(notes.ticket["id"], _prepare(notes))]
    beyond_limit = {}  # by ticket: the program to run if the CFO signs for no more tickets
    for item in notes.items:
        if item.standing == "in_time":
            program = _run_expert(notes, item) if item.ticket_id not in finished else _nothing()
            jobs.append(TicketJob(item.ticket_id, program, asked=_was_asked(notes, cfo, item.ticket_id)))
            beyond_limit[item.ticket_id] = _put_off(item, "above_limit", (notes.limits, "signatures"))
        elif item.ticket_id not in finished:
            other_jobs.append(TicketJob(item.ticket_id, _put_off(item, item.standing)))
    yield from run_jobs(jobs + notes.style.order("others", other_jobs), cfo, beyond_limit)
    closings = {}
    for job in jobs:
        closing = job.closed or (yield from moves.read("ticketdesk.get_ticket", ticket_id=job.ticket_id))
        if "resolution" not in closing:
            raise Stuck(f"{job.ticket_id} was not closed")
        closings[job.ticket_id] = closing
    return closings


def _run_expert(notes: CloseNotes, item: QueueItem) -> Procedure:
    """Run the expert of the ticket's own family. What earlier turns left on the ticket has been undone already."""
    so_far = replace(notes.so_far, brief=item.ticket_id, signed=notes.signed.get(item.ticket_id, {}))
    yield from FAMILY_BY_PHRASE[item.phrase].procedure(so_far, notes.style)


def _nothing() -> Procedure:
    """Do nothing: the program for a ticket that is finished already."""
    yield from ()


def _cfo(notes: CloseNotes) -> moves.Move[SharedOffice]:
    """Return the people who may sign as the CFO, and the number of tickets for which they sign."""
    person = yield from moves.read("datahub.get_approver", role="CFO")
    chain = yield from programs.delegate_chain(person, moves.delegate)
    return SharedOffice(frozenset(row["id"] for row in chain), notes.limits["signatures"])


def _was_asked(notes: CloseNotes, cfo: SharedOffice, ticket_id: str) -> bool:
    """Return whether the CFO or a delegate signed for a ticket before the expert took over."""
    return any(
        call.method == "submit_approval" and call.params["approver"] in cfo.people and reply.data["id"] == request_id
        for request_id in notes.signed.get(ticket_id, {}).values()
        for call, reply in notes.so_far.turns
        if reply.ok
    )


def _put_off(item: QueueItem, reason: str, *more_facts: tuple[moves.Shown, str]) -> Procedure:
    """Put a ticket of the queue on hold without working on it. `more_facts` are facts to cite besides its due date."""
    closing = {"resolution": "on_hold", "reason": reason, "evidence": moves.cite((item.row, "status"), *more_facts)}
    reply = yield from moves.ask("ticketdesk.resolve_ticket", ticket_id=item.ticket_id, **closing)
    if not reply.ok:
        yield from moves.unblock((yield from moves.read("ticketdesk.get_ticket", ticket_id=item.ticket_id)))
        yield from moves.read("ticketdesk.resolve_ticket", ticket_id=item.ticket_id, **closing)


def _prepare(notes: CloseNotes) -> Procedure:
    """Prepare the close's own ticket."""
    yield from casework.prepare(notes.ticket, notes.entry["id"], notes.style)


def _decide(notes: CloseNotes, closings: dict[str, moves.Shown]) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, limits = notes.ticket, notes.limits
    for ticket_id, closing in closings.items():
        if closing["resolution"] == "escalated":
            cfo = yield from moves.read("datahub.get_approver", role="CFO")
            yield from moves.set_field(ticket["id"], "escalated_to", cfo["id"])
            return "escalated", "beyond_authority", moves.cite(({**closing, "id": ticket_id}, "resolution"))
    for ticket_id, closing in closings.items():
        if f"{closing['resolution']}/{closing['reason']}" == BEYOND_LIMIT:
            evidence = moves.cite(({**closing, "id": ticket_id}, "reason"), (limits, "signatures"))
            return "cannot_be_done", "above_limit", evidence
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=notes.entry["unreconciled_metric"])
    unreconciled = yield from moves.fresh_reading(notes.entry["unreconciled_metric"])
    if unreconciled["value"] > limits["tolerance"]:
        yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
        return "declined", "not_covered", moves.cite((unreconciled, "value"), (limits, "tolerance"))
    late_rows = [item.row for item in notes.items if item.standing == "too_late"]
    if len(late_rows) > limits["most_late"]:
        yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
        return "on_hold", "too_late", moves.cite((late_rows[-1], "status"), (limits, "most_late"))
    return (yield from _signed_close(notes, unreconciled))


def _signed_close(notes: CloseNotes, unreconciled: moves.Shown) -> moves.Move[Decision]:
    """Get the close signed by the CFO, link the request to the ticket, and return the decision."""
    ticket, entry = notes.ticket, notes.entry
    yield from moves.read("datahub.read_policy", policy_id=notes.policies["Quarter close: verification and signing"])
    if signed := notes.signed.get(ticket["id"], {}):
        request = yield from moves.read("approvalflow.check_status", approval_id=signed[FORM])
    else:
        approver = yield from moves.read("datahub.get_approver", role="CFO")
        form_data = {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "unreconciled": unreconciled["value"],
            "ledger": entry["ledger"],
            "period": entry["period"],
        }
        request = yield from moves.get_signed(FORM, approver, form_data, metric=unreconciled["id"])
    yield from moves.set_field(ticket["id"], "approval", request["id"])
    unreconciled = yield from moves.fresh_reading(unreconciled["id"])  # it may have become too old during the wait
    return (
        "completed",
        "all_checks_passed",
        moves.cite((request, "status"), (request, "decided_by"), (unreconciled, "value")),
    )


FAMILY = Family(
    name="quarter_close",
    phrase="quarter close",
    causes=Causes,
    actor="Close Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 282, 25: 315, 50: 364, 75: 392, 100: 433},
    long=True,
)
