"""The app DataHub: metrics, the register of business partners, the directory of people and the policies.

To read a record whose id the caller gave, a tool uses `world.find`, which refuses an unknown id. `world.get` is for ids that
must exist. A tool with `steady=True` always answers; calls of the others can time out (see the dial `flaky`).
"""

from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from companyos.company.apps.tool import App, PageNumber, Ref, paged
from companyos.company.people import Person, PersonId, away, holder, post
from companyos.core.world import DAY, Minute, Record, World, on, row, stamp, view

app = App("datahub")


class Metric(Record, frozen=True):
    """A figure with the time of its last measurement."""

    pattern = r"[a-z]+(?:_[a-z]+)*\.[a-z0-9_]+"

    value: int
    unit: str
    measured_at: Minute
    pipeline: str  # idle, running, failed
    title: str
    owner: str
    sources: tuple[str, ...]
    max_age_days: int  # an older measurement is stale

    @property
    def figure(self) -> str:
        """The kind of figure: the part of the name before the dot. The part after it is what the figure is about."""
        return self.id.partition(".")[0]


class Source(Record, frozen=True):
    """The true value of a metric and how its refreshes go. No actor can look it up: agents learn the value from a refresh.

    `least` and `most` bound the outdated values that chaos puts into the metric.
    """

    hidden = True

    value: int
    delay: int = 0  # minutes that a refresh takes
    failures: int = 0  # how many refreshes fail before one works
    least: int = 0  # the smallest value that an outdated measurement may have
    most: int = 100  # the largest one


class Entry(Record, frozen=True):
    """A business partner, asset or contract in the register."""

    pattern = r"E-\d+"
    searched = ("name", "reference")
    spread = "details"  # the items of this dict are cited like fields; see `Record`

    kind: str
    name: str
    reference: str
    status: str
    details: dict[str, str]


class Policy(Record, frozen=True):
    """A policy: a rule of the company, in force or superseded."""

    pattern = r"P-\d+"
    searched = ("title", "text")
    spread = "terms"

    title: str
    status: str
    since: Minute
    text: str
    terms: dict[str, int]


class Draft(Record, frozen=True):
    """What is planned for the policy with the same id: a new version, if `terms` is not empty. No actor can look it up."""

    hidden = True

    successor: str  # the id of the new version
    terms: dict[str, int] = {}  # its terms; empty if there will be no new version


MetricName = Annotated[str, Meta(description="a metric's name, like compliance_score.acme"), Ref(Metric)]
EntryId = Annotated[str, Meta(description="a register entry's id, like E-1042"), Ref(Entry)]
PolicyId = Annotated[str, Meta(description="a policy's id, like P-12"), Ref(Policy)]
Query = Annotated[str, Meta(max_length=80, description="words or numbers that must all occur")]


@app.tool(minutes=2, steady=True)
def list_metrics(world: World, prefix: Annotated[str, Meta(max_length=40)] = "", page: PageNumber = 1) -> dict[str, Any]:
    """List metrics by name, ten a page, optionally those whose name begins with `prefix`."""
    return paged(world.with_prefix(Metric, prefix), page, ("title",))


@app.tool(minutes=2)
def query_metric(world: World, metric_name: MetricName) -> dict[str, Any]:
    """Read a metric's value on file, when it was measured, and whether a refresh is under way."""
    metric = world.find(Metric, metric_name)
    # Some goals require that the actor has read the newest measurement (`ReadFresh` in families/kit/goals.py).
    world.set_read_mark(read_mark(world.actor, metric.id), metric.measured_at)
    return _reading(world, metric)


@app.tool(minutes=2)
def describe_metric(world: World, metric_name: MetricName) -> dict[str, Any]:
    """Read what a metric means: its sources, its owner, and after how many days a measurement counts as stale."""
    metric = world.find(Metric, metric_name)
    return row(metric, ("title", "unit", "owner", "sources", "max_age_days"))


@app.tool(minutes=3, writes=True)
def refresh_data(world: World, metric_name: MetricName) -> dict[str, Any]:
    """Have a metric measured anew: at once, or it takes a while and a message tells you when it is done or has failed.
    While a refresh is under way, asking again does nothing more.
    """
    metric = world.find(Metric, metric_name)
    if metric.pipeline == "running":
        return _reading(world, metric)
    source = world.get(Source, metric_name)
    attempt = world.count_up(f"refresh:{metric_name}")
    if source.delay == 0 and attempt > source.failures:
        metric = world.put(replace(metric, value=source.value, measured_at=world.now, pipeline="idle"))
    else:
        metric = world.put(replace(metric, pipeline="running"))
        world.set_counter(_refresh_request(metric_name, world.actor), 1)
        world.schedule(world.now + max(source.delay, 5), "refresh_ends", metric_name)
    return _reading(world, metric)


@on("refresh_ends")
def refresh_ends(world: World, metric_name: str) -> None:
    """End a refresh that took a while, and tell those who asked for it how it went."""
    metric, source = world.get(Metric, metric_name), world.get(Source, metric_name)
    failed = world.counter(f"refresh:{metric_name}") <= source.failures
    if failed:
        world.put(replace(metric, pipeline="failed"))
    else:
        world.put(replace(metric, value=source.value, measured_at=world.now, pipeline="idle"))
    news = "failed: the source did not deliver; the value on file is unchanged" if failed else "is done"
    for person_id in world.seats:  # the people whom agents play; colleagues refresh nothing
        if world.counter(_refresh_request(metric_name, person_id)):
            world.set_counter(_refresh_request(metric_name, person_id), 0)
            text = f"The refresh of {metric_name} {news}."
            post(world, to=person_id, sender="datahub", topic="refresh", about=metric_name, text=text)


def _refresh_request(metric_name: str, person_id: str) -> str:
    """Return the name of the counter that is 1 while a person waits for the end of a refresh."""
    return f"refreshed_by:{metric_name}:{person_id}"


@app.tool(minutes=2)
def get_approver(
    world: World, role: Annotated[str, Meta(max_length=60, description="an office, like CFO")]
) -> dict[str, Any]:
    """Look up who holds an office, up to which amount they sign, whether they are in today, and their delegate."""
    return presence(world, holder(world, role))


@app.tool(minutes=2)
def get_person(world: World, person_id: PersonId) -> dict[str, Any]:
    """Look up a person: role, department, manager, cost centre, limit of authority, calendar, delegate."""
    person = world.find(Person, person_id)
    return {**view(person), **presence(world, person)}


@app.tool(minutes=2, steady=True)
def search_people(world: World, query: Query, page: PageNumber = 1) -> dict[str, Any]:
    """Search the directory by name, handle, role or department, ten a page."""
    return paged(world.search(Person, query), page, ("name", "role", "department"))


@app.tool(minutes=2, steady=True)
def search_register(world: World, query: Query, page: PageNumber = 1) -> dict[str, Any]:
    """Search the register by id, name or reference, in the order of ids, ten a page."""
    return paged(world.search(Entry, query, "id"), page, ("kind", "name", "reference", "status"))


@app.tool(minutes=2)
def get_entry(world: World, entry_id: EntryId) -> Entry:
    """Read one register entry with all its details."""
    return world.find(Entry, entry_id)


@app.tool(minutes=2, steady=True)
def search_policies(world: World, query: Query = "", page: PageNumber = 1) -> dict[str, Any]:
    """Search policies and the changelog by words in title or text, ten a page; without words, list them all."""
    # The changelog, which says what was renamed in forms and registers, is a `Policy` record, too.
    return paged(world.search(Policy, query), page, ("title", "status", "since"))


@app.tool(minutes=3)
def read_policy(world: World, policy_id: PolicyId) -> Policy:
    """Read one policy: its text, its terms as numbers, and whether it is in force."""
    return world.find(Policy, policy_id)


def _reading(world: World, metric: Metric) -> dict[str, Any]:
    """Return a metric as `query_metric` shows it."""
    reading = row(metric, ("value", "unit", "measured_at", "pipeline"))
    reading["age_days"] = age_days(metric, world.now)
    return reading


def presence(world: World, person: Person) -> dict[str, Any]:
    """Return a person as an approver: their limit, whether they are in today, and their delegate."""
    absent = away(person, world.now)
    return {
        "id": person.id,
        "name": person.name,
        "role": person.role,
        "limit": person.limit,
        "presence": f"away until {stamp(person.away_until or 0)}" if absent else "in",
        "delegate": person.delegate,
        "hours": "Mon-Fri 09:00-17:00",
    }


def read_mark(actor: str, metric_name: str) -> str:
    """Return the name of the counter that holds the minute of the measurement that an actor last read."""
    return f"read:{actor}:{metric_name}"


def age_days(metric: Metric, minute: int) -> int:
    """Return the age of a measurement at a minute, in whole days."""
    return (minute - metric.measured_at) // DAY
