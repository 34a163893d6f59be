"""Helpers: a company to test in, with sane defaults, and short ways to say what happens in it."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.assurance.twins import do
from companyos.chaos import DIALS, Injector, doses_of
from companyos.company import ALL_TOOLS, Approval, ApprovalType, Message, Metric, Person, Ticket
from companyos.company.people import CLOSES, OPENS
from companyos.core.calls import Call, Reply
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.core.world import DAY, Streams, World
from companyos.env import CompanyEnv, make
from companyos.env.observations import Observation
from companyos.families import family
from companyos.families.kit.case import Value

FAMILY = "vendor_onboarding"
# A case in which nothing stands against the vendor. By the house rules, the head of the requester's department signs.
CALM: dict[str, Value] = {
    "duplicate": "no",
    "conflict": "no",
    "insurance": "valid",
    "personal_data": False,
    "score": "over",
    "amount": "small",
}
# The same examples on every machine; slowness is no finding.
STEADY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def task_id(seed: int = 7, chaos: str = "0", split: str = "train") -> str:
    return f"{FAMILY}-v{BENCHMARK_VERSION}-{split}-{seed}-{chaos}"


@cache
def calm_seed() -> int:
    """The first seed whose facts are calm by nature, so that a few overrides leave the task id short."""
    for seed in range(1000):
        streams = Streams(TaskId(FAMILY, "train", seed, "0").key)
        causes = family(FAMILY).draw_causes(streams, streams, doses_of(0.0), "train")  # without staging, for speed
        if all(getattr(causes, name) == value for name, value in CALM.items()):
            return seed
    raise AssertionError("no calm seed among the first 1,000")


def staged(chaos: str = "0", reward: str = "dense", **causes: Any) -> CompanyEnv:
    """An episode of the calm case by the house rules, but for these causes."""
    return make(do(task_id(calm_seed(), chaos), **{"rulebook": "house", **causes}), reward=reward)


def played(agent: str, seed: int, chaos: float = 0.5, reward: str = "dense") -> CompanyEnv:
    """An episode that an agent has worked to its end."""
    return play(make(FAMILY, seed=seed, chaos=chaos, reward=reward), make_agent(agent, seed))


def me(env: CompanyEnv) -> str:
    return env.setting.case.actor


def role(env: CompanyEnv, name: str) -> str:
    """The id of the record that plays this role in the case."""
    return env.setting.case.roles[name]


def ticket(env: CompanyEnv) -> Ticket:
    return env.world.get(Ticket, env.setting.case.ticket_id)


def say(env: CompanyEnv, tool: str, actor: str | None = None, **params: Any) -> Reply:
    """One call straight through the toolbox, as the one who works the task or as somebody else; the clock stands still."""
    app, method = tool.split(".")
    return ALL_TOOLS.call(env.world, actor or me(env), Call(app, method, params))


def step(env: CompanyEnv, tool: str, **params: Any) -> Observation:
    app, method = tool.split(".")
    return env.step(Call(app, method, params))


def set_field(env: CompanyEnv, field: str, value: str, ticket_id: str | None = None) -> Reply:
    return say(env, "ticketdesk.update_ticket", ticket_id=ticket_id or ticket(env).id, field=field, value=value)


def verify(env: CompanyEnv) -> None:
    assert set_field(env, "verified", role(env, "entry")).ok


def form(env: CompanyEnv, **changes: Any) -> dict[str, Any]:
    """The form as it should be filled in, but for these changes; a field changed to None is left out."""
    asks, case = env.world.get(ApprovalType, FAMILY), ticket(env)
    right: dict[str, Any] = {field: getattr(case, there) for field, there in asks.same_as_ticket.items()}
    right["ticket_id"] = case.id
    right["cost_center"] = env.world.get(Person, case.requester).cost_center
    right[asks.measured] = env.world.get(Metric, role(env, "score")).value
    return {field: value for field, value in (right | changes).items() if value is not None}


def submit(env: CompanyEnv, approver: str = "head", **changes: Any) -> Reply:
    """Puts the form to whoever plays this role in the case, or to the person of this handle."""
    person = approver if approver.startswith("@") else role(env, approver)
    return say(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=person, data=form(env, **changes))


def asked(env: CompanyEnv, approver: str = "head", **changes: Any) -> str:
    """A request that was put, by its id."""
    reply = submit(env, approver, **changes)
    assert reply.ok, reply
    return str(reply.data["id"])


def answered(env: CompanyEnv, approval_id: str, days: int = 150) -> Approval:
    """The request once it is decided."""
    for _ in range(days):
        request = env.world.get(Approval, approval_id)
        if request.status != "pending":
            return request
        env.world.advance(DAY)
    raise AssertionError(f"{approval_id} was not decided in {days} days")


def decision(env: CompanyEnv, approver: str = "head", **changes: Any) -> tuple[str, str]:
    """How a request ends: its status and the ground for it."""
    request = answered(env, asked(env, approver, **changes))
    return request.status, request.code


def to_monday(env: CompanyEnv, minute: int = OPENS) -> None:
    """Lets time pass to this minute of next Monday."""
    world = env.world
    start_of_week = world.now - world.now % (7 * DAY)
    world.advance(start_of_week + 7 * DAY + minute - world.now)


def at_work(minute: int) -> bool:
    """Whether this is a minute of Monday to Friday, nine to five; worked out apart from the code under test."""
    return minute // DAY % 7 in (0, 1, 2, 3, 4) and OPENS <= minute % DAY < CLOSES


def letters(env: CompanyEnv, topic: str | None = None) -> list[Message]:
    """What has reached the inbox of the one who works the task, oldest first."""
    return [m for m in env.world.all(Message) if m.to == me(env) and (topic is None or m.topic == topic)]


def strikes(world: World, calls: Iterable[Call], dose: float, injector: Injector | None = None) -> dict[int, bool]:
    """Which of these calls an injector strikes at a dose, and whether they are carried out all the same.

    Unless another is given, the one that leaves calls unanswered.
    """
    struck, found = injector or DIALS["flaky"], {}
    for number, call in enumerate(calls):
        tool = ALL_TOOLS.find(call)
        if tool is None or tool.steady:
            continue
        fault = struck.intercept(dose, world, tool, call)
        if fault is not None:
            found[number] = fault.carried_out
    return found


def recomputed(world: World) -> str:
    """The digest from scratch: that of a world which was only ever told how this one stands."""
    fresh = World(world.streams, world.now, world.kinds())
    for kind in world.kinds():
        for record in world.all(kind):
            fresh.put_at_start(record)
    fresh._counters, fresh._agenda, fresh._serial = world._counters, world._agenda, world._serial
    fresh._sum = fresh.digest_of_rest()
    return fresh.digest()
