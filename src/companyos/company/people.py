"""People of the company: their working hours and absences, their delegates, their private state and their inboxes."""

from typing import Annotated

from msgspec import Meta

from companyos.company.apps.tool import Ref
from companyos.core.errors import Refused
from companyos.core.world import DAY, HOUR, Minute, Record, World

OPENS = 9 * HOUR  # working hours, Monday to Friday
CLOSES = 17 * HOUR
MINUTES_PER_REQUEST = 30  # the delay for each request that is ahead in a queue


class Person(Record, frozen=True):
    """A person of the company, as the directory shows them."""

    pattern = r"@[a-z]+\.[a-z]+"
    searched = ("name", "role", "department")

    name: str
    role: str  # the job title; as a position that somebody holds and signs for, it is called an office
    department: str
    desk: str  # they may write on the tickets of this desk
    manager: str | None
    limit: int | None  # the highest amount that they may sign for; None: they do not sign
    delegate: str | None  # who signs with their authority while they are away
    cost_center: str
    away_from: Minute | None = None
    away_until: Minute | None = None


class Mind(Record, frozen=True):
    """What determines how a person acts. No actor can look it up."""

    hidden = True

    pace: int = 60  # minutes from receiving a message to answering it
    patience: int = 3  # the number of wrong requests of one person after which they answer that person a day later
    objection: str = ""  # a key of `colleagues.OBJECTIONS`: why they reject even a correct request
    knows: dict[str, dict[str, str]] = {}  # by ticket: facts that only they know, stated when asked in a comment there
    meddles: dict[str, str] = {}  # by ticket: the priority that they are going to set
    explains: dict[str, str] = {}  # by ticket: a text with which they answer a comment there
    after: dict[str, dict[str, str]] = {}  # by ticket: whose statements, of which facts, they wait for before their own


class Season(Record, frozen=True):
    """The circumstances that all people of the company share in this episode. No actor can look them up."""

    hidden = True

    backlog: int = 0  # how many requests are ahead of a new one at every approver
    chatter: int = 0  # how many irrelevant bulletins are sent


SEASON = "season"  # the id of the only record of this type
ANY_INBOX = "inbox"  # the name of the counter of all messages to people whom agents play, if there are several such people


class Message(Record, frozen=True):
    """A message in a person's inbox: a bulletin, a request, an answer or a decision."""

    pattern = r"M-\d+"

    to: str
    sender: str
    at: Minute
    topic: str
    about: str | None
    text: str


PersonId = Annotated[str, Meta(description="a person's handle, like @dana.reyes"), Ref(Person)]


def away(person: Person, minute: int) -> bool:
    """Tell whether a person is absent at a minute."""
    return person.away_from is not None and person.away_until is not None and person.away_from <= minute < person.away_until


def working(minute: int) -> bool:
    """Tell whether a minute is in the working hours."""
    return minute // DAY % 7 < 5 and OPENS <= minute % DAY < CLOSES


def next_working_minute(person: Person, minute: int) -> int:
    """Return the first minute, from `minute` on, at which a person is at work."""
    if away(person, minute):
        minute = person.away_until or minute
    while not working(minute):
        early = minute // DAY % 7 < 5 and minute % DAY < OPENS
        minute = minute - minute % DAY + OPENS + (0 if early else DAY)
    return minute


def holder(world: World, role: str) -> Person:
    """Return the person who holds an office, that is, has this job title. Raises `Refused` if nobody has it."""
    for person in world.select(Person, "made", role=role):
        return person
    offices = ", ".join(sorted(person.role for person in world.all(Person) if person.limit is not None))
    raise Refused("unknown_role", f"nobody holds the office {role!r}; offices that sign: {offices}")


def stand_in(world: World, person: Person, minute: int | None = None) -> Person:
    """Return who signs for a person at a minute, by default now: the first in the chain of delegates who is not away."""
    minute = world.now if minute is None else minute
    while away(person, minute) and person.delegate:
        person = world.get(Person, person.delegate)
    return person


def post(world: World, to: str, sender: str, topic: str, about: str | None, text: str) -> Message:
    """Put a message in an inbox. Simulated colleagues handle it in their working hours; agents read it when they like."""
    message = world.put(Message(f"M-{world.count_up('message')}", to, sender, world.now, topic, about, text))
    world.count_up(inbox_counter(to))
    if to in world.seats:  # an agent plays this person
        if len(world.seats) > 1:
            world.count_up(ANY_INBOX)
    else:
        requests_ahead = world.get(Season, SEASON).backlog if topic == "request" else 0
        world.schedule(answer_minute(world, to, sender, requests_ahead), "see_to", message.id)
    return message


def answer_minute(world: World, to: str, sender: str, requests_ahead: int = 0) -> int:
    """Return when a person handles a message: after their pace and the queue, and a day later once they are annoyed."""
    person, mind = world.get(Person, to), world.get(Mind, to)
    annoyed = world.counter(_annoyance_counter(to, sender)) >= mind.patience
    delay = mind.pace + requests_ahead * MINUTES_PER_REQUEST + (DAY if annoyed else 0)
    return next_working_minute(person, next_working_minute(person, world.now) + delay)


def annoy(world: World, person_id: str, sender: str) -> None:
    """Count one more wrong request or reminder that a person got from this sender."""
    world.count_up(_annoyance_counter(person_id, sender))


def _annoyance_counter(person_id: str, sender: str) -> str:
    """Return the name of the counter of a sender's wrong requests and reminders to a person."""
    return f"annoyed:{person_id}:{sender}"


def inbox(world: World, person_id: str) -> list[Message]:
    """Return all messages to a person, oldest first."""
    return [message for message in world.all(Message) if message.to == person_id]


def inbox_counter(person_id: str) -> str:
    """Return the name of the counter of all messages that a person got."""
    return f"inbox:{person_id}"


def seen_counter(person_id: str) -> str:
    """Return the name of the counter of the messages that a person has seen."""
    return f"seen:{person_id}"


def has_news(world: World, person_id: str) -> bool:
    """Tell whether a person has a message that they have not seen."""
    return world.counter(inbox_counter(person_id)) > world.counter(seen_counter(person_id))


def mark_seen(world: World) -> None:
    """Note that the acting person has seen their whole inbox."""
    seen, arrived = seen_counter(world.actor), world.counter(inbox_counter(world.actor))
    if world.counter(seen) != arrived:
        world.set_counter(seen, arrived)
