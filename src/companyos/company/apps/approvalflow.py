"""The app ApprovalFlow: requests for signatures, and the decisions on them."""

from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from companyos.company.apps.tool import App, PageNumber, Prose, Ref, Whole, paged
from companyos.company.people import SEASON, Person, PersonId, Season, away, post, stand_in
from companyos.core.errors import Refused
from companyos.core.world import Minute, Record, World, row, rows, stamp

app = App("approvalflow")

Value = str | Whole | float | bool
Status = Literal["pending", "approved", "rejected", "withdrawn"]

MAX_PENDING = 3  # requests of one person
NEEDS_SUPERIOR = "needs_superior"  # the code with which an approver asks for the manager's decision


class ApprovalType(Record, frozen=True):
    """A form: its fields, and what an approver compares them with."""

    title: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    decided_by: str
    # The job titles that may sign, lowest first. {department} is the requester's, {field} the value of that form field.
    offices: tuple[str, ...]
    same_as_ticket: dict[str, str]  # form field -> ticket field with the same value
    same_as_entry: dict[str, str] = {}  # form field -> detail of the register entry with the same value
    measured: str = ""  # the form field that must equal a fresh metric, which the entry's `…_metric` names
    policy: str = ""  # the measured field must reach the term `minimum` of this policy
    attachment: str = ""  # an optional field that an approver may ask for; the register has its value
    audit: str = ""  # the name of a further audit: see `colleagues.audits`
    about: str = ""  # the kind of ticket that it is for, if that is not the form's id
    # Whether each of the offices may sign, and not only the lowest one. Then the company's rules say which one has to, and
    # no approver tells.
    any_office: bool = False


class Approval(Record, frozen=True):
    """A request for a signature, and the decision on it."""

    pattern = r"A-\d+"

    type: str
    status: Status
    requester: str
    approver: str
    data: dict[str, Value]
    submitted_at: Minute
    decided_by: str | None = None
    decided_at: Minute | None = None
    code: str = ""
    reason: str = ""
    escalated: bool = False
    referred: bool = False  # the approver asked for their manager's decision

    @property
    def ticket_id(self) -> str:
        return str(self.data["ticket_id"])


ApprovalId = Annotated[str, Meta(description="a request's id, like A-2201"), Ref(Approval)]
TypeName = Annotated[str, Meta(description="a type from list_approval_types"), Ref(ApprovalType)]


@app.tool(minutes=2, steady=True)
def list_approval_types(world: World) -> dict[str, Any]:
    """List the kinds of request, what each form requires, what it takes when that is asked for, and who decides it."""
    return {"rows": rows(list(world.all(ApprovalType)), ("title", "required", "optional", "decided_by"))}


@app.tool(minutes=4, writes=True)
def submit_approval(
    world: World,
    approval_type: TypeName,
    approver: PersonId,
    data: Annotated[dict[str, Value], Meta(max_length=20, description="the form's fields")],
) -> dict[str, Any]:
    """Ask somebody to sign. They look at it in working hours and decide on what they find.
    Refused when a required field is missing or a field is unknown to the form, when you ask yourself, and while three
    requests of yours are pending.
    """
    form = world.find(ApprovalType, approval_type)
    person = world.find(Person, approver)
    if approver == world.actor:
        raise Refused("self_approval", "nobody decides their own request")
    missing = [field for field in form.required if data.get(field) in (None, "")]
    if missing:
        raise Refused("missing_field", f"{approval_type} requires {', '.join(missing)}")
    unknown = sorted(set(data) - {*form.required, *form.optional})
    if unknown:
        raise Refused("unknown_field", f"{approval_type} has no field {', '.join(unknown)}")
    if world.lookup(str(data["ticket_id"]), "Ticket") is None:
        raise Refused("not_found", f"there is no ticket {data['ticket_id']!r}")
    if sum(other.status == "pending" and other.requester == world.actor for other in world.all(Approval)) >= MAX_PENDING:
        raise Refused("too_many", f"{MAX_PENDING} of your requests are pending; no more until one is decided or withdrawn")
    request = world.put(
        Approval(
            id=f"A-{world.count_up('approval')}",
            type=form.id,
            status="pending",
            requester=world.actor,
            approver=approver,
            data={field: data[field] for field in sorted(data)},
            submitted_at=world.now,
        )
    )
    _hand_over(world, request, person)
    return shown(request)


@app.tool(minutes=1)
def check_status(world: World, approval_id: ApprovalId) -> dict[str, Any]:
    """Read one request: its data, its status and, once decided, by whom and why."""
    return shown(world.find(Approval, approval_id))


@app.tool(minutes=2, steady=True)
def list_approvals(world: World, status: Status | None = None, page: PageNumber = 1) -> dict[str, Any]:
    """List your own requests, newest first, ten a page."""
    own = [request for request in world.all(Approval) if request.requester == world.actor]
    listed = own if status is None else [request for request in own if request.status == status]
    return paged(listed[::-1], page, ("type", "ticket_id", "status", "approver", "code"))


@app.tool(minutes=3, writes=True)
def escalate(world: World, approval_id: ApprovalId, reason: Prose) -> dict[str, Any]:
    """Take your pending or rejected request to the manager of the person it was put to, or who stands in.
    Refused for a request that is approved or withdrawn; escalating twice does nothing more.
    """
    request = _own_request(world, approval_id)
    if request.status not in ("pending", "rejected"):
        raise Refused("closed", f"{approval_id} is {request.status}; only a pending or rejected request is escalated")
    if request.escalated:
        return shown(request)
    superior = _superior(world, world.get(Person, request.approver))
    undecided = {"status": "pending", "decided_by": None, "decided_at": None, "code": "", "reason": ""}
    referred = request.code == NEEDS_SUPERIOR
    escalated = world.put(replace(request, approver=superior.id, escalated=True, referred=referred, **undecided))
    _hand_over(world, escalated, superior)
    return shown(escalated)


@app.tool(minutes=0, writes=True, steady=True)
def withdraw(world: World, approval_id: ApprovalId) -> dict[str, Any]:
    """Take back your own request. Refused once it is approved."""
    request = _own_request(world, approval_id)
    if request.status == "approved":
        raise Refused("closed", f"{approval_id} is {request.status}; what is approved cannot be withdrawn")
    return shown(world.put(replace(request, status="withdrawn")))


@app.tool(minutes=3, writes=True)
def decide(
    world: World,
    approval_id: ApprovalId,
    verdict: Literal["approved", "rejected"],
    code: Annotated[str, Meta(max_length=40, description="a word for the ground")],
    reason: Prose,
) -> dict[str, Any]:
    """Decide a request that was put to you. Refused for anybody else, and once it is decided. Cannot be undone."""
    request = world.find(Approval, approval_id)
    if request.approver != world.actor:
        raise Refused("not_yours", f"{approval_id} was put to {request.approver}")
    if request.status != "pending":
        raise Refused("closed", f"{approval_id} is {request.status}")
    decided = world.put(
        replace(request, status=verdict, decided_by=world.actor, decided_at=world.now, code=code, reason=reason)
    )
    post(world, request.requester, world.actor, "decision", approval_id, f"{approval_id} {verdict}: {reason}")
    return shown(decided)


def _own_request(world: World, approval_id: str) -> Approval:
    """Return a request of the acting person. Raises `Refused` if somebody else made it."""
    request = world.find(Approval, approval_id)
    if request.requester != world.actor:
        raise Refused("not_yours", f"{approval_id} is {request.requester}'s request")
    return request


def _superior(world: World, person: Person) -> Person:
    """Return who decides for a person's manager: the manager, or the delegate while the manager is away.

    If this would be the person again, who stands in for the manager, it is the manager's manager, and so on.
    """
    manager = person
    while manager.manager is not None:
        manager = world.get(Person, manager.manager)
        signer = stand_in(world, manager)
        if signer.id != person.id:
            return signer
    raise Refused("top", f"{person.id} has no manager")


def _hand_over(world: World, request: Approval, person: Person) -> None:
    """Send a request to its approver. The requester is told if the approver is away or has a queue."""
    post(world, person.id, request.requester, "request", request.id, f"{request.id} asks for your decision.")
    if away(person, world.now):
        back = stamp(person.away_until or 0)
        post(world, request.requester, person.id, "out_of_office", request.id, f"I am away until {back}.")
    if queue := world.get(Season, SEASON).backlog:
        post(world, request.requester, person.id, "queue", request.id, f"{queue} requests lie before yours on my desk.")


def shown(request: Approval) -> dict[str, Any]:
    """Return a request as replies show it."""
    return row(
        request,
        (
            "type",
            "status",
            "approver",
            "requester",
            "data",
            "submitted_at",
            "decided_by",
            "decided_at",
            "code",
            "reason",
            "escalated",
            "referred",
        ),
    )
