"""People: who works here, when they are in, who stands in for them, and how word reaches them."""

from typing import Annotated

from msgspec import Meta

from companyos.company.apps.tool import Ref
from companyos.core.errors import Refused
from companyos.core.world import DAY, HOUR, Minute, Record, World

OPENS = 9 * HOUR  # working hours, Monday to Friday
CLOSES = 17 * HOUR
EACH_REQUEST = 30  # minutes that each one in a queue takes


class Person(Record, frozen=True):
    """Somebody of the company, as the directory shows them."""

    pattern = r"@[a-z]+\.[a-z]+"
    searched = ("name", "role", "department")

    name: str
    role: str
    department: str
    desk: str  # whose tickets they may write on
    manager: str | None
    limit: int | None  # up to which amount they may sign; None: they do not sign
    delegate: str | None  # who signs with their authority while they are away
    cost_center: str
    away_from: Minute | None = None
    away_until: Minute | None = None


class Mind(Record, frozen=True):
    """What goes on in somebody's head. Nobody can look it up."""

    hidden = True

    pace: int = 60  # minutes from a request reaching them to their answer
    patience: int = 3  # wrong requests they bear from one person before they take a day over the next
    objection: str = ""  # what they will find fault with, however right the request is
    knows: dict[str, dict[str, str]] = {}  # what they alone can say of a ticket, by name; they say it when asked there
    meddles: dict[str, str] = {}  # tickets whose priority they are about to set, to what
    after: dict[str, dict[str, str]] = {}  # … but only once these people have stated these things on that ticket


class Season(Record, frozen=True):
    """What kind of days these are for everybody. Nobody can look it up; one feels it."""

    hidden = True

    backlog: int = 0  # how many requests lie on every desk before one that comes in
    chatter: int = 0  # how much news reaches people that is none of their business


SEASON = "season"  # the id of the one there is
ANY_INBOX = "inbox"  # the counter of what ever reached those who are played from outside, where there are several


class Message(Record, frozen=True):
    """Something in somebody's inbox: a bulletin, an answer or a decision."""

    pattern = r"M-\d+"

    to: str
    sender: str
    at: Minute
    topic: str
    about: str | None
    text: str


PersonId = Annotated[str, Meta(description="a person's handle, like @dana.reyes"), Ref(Person)]


def away(person: Person, minute: int) -> bool:
    return person.away_from is not None and person.away_until is not None and person.away_from <= minute < person.away_until


def working(minute: int) -> bool:
    return minute // DAY % 7 < 5 and OPENS <= minute % DAY < CLOSES


def next_working_minute(person: Person, minute: int) -> int:
    """The first minute from `minute` on at which this person is at work."""
    if away(person, minute):
        minute = person.away_until or minute
    while not working(minute):
        early = minute // DAY % 7 < 5 and minute % DAY < OPENS
        minute = minute - minute % DAY + OPENS + (0 if early else DAY)
    return minute


def holder(world: World, role: str) -> Person:
    """Who holds an office."""
    for person in world.all(Person):
        if person.role == role:
            return person
    offices = ", ".join(sorted(p.role for p in world.all(Person) if p.limit is not None))
    raise Refused("unknown_role", f"nobody holds the office {role!r}; offices that sign: {offices}")


def stand_in(world: World, person: Person, minute: int | None = None) -> Person:
    """Return who signs for a person at a minute, by default now: the first in the chain of delegates who is not away."""
    minute = world.now if minute is None else minute
    while away(person, minute) and person.delegate:
        person = world.get(Person, person.delegate)
    return person


def post(world: World, to: str, sender: str, topic: str, about: str | None, text: str) -> Message:
    """Puts a message in an inbox. A colleague will see to it in their working hours, at their own pace."""
    message = world.put(Message(f"M-{world.count_up('message')}", to, sender, world.now, topic, about, text))
    world.count_up(inbox_counter(to))
    if to in world.seats:
        if len(world.seats) > 1:
            world.count_up(ANY_INBOX)
    else:
        ahead = world.get(Season, SEASON).backlog if topic == "request" else 0
        world.schedule(answer_minute(world, to, sender, ahead), "see_to", message.id)
    return message


def answer_minute(world: World, to: str, sender: str, ahead: int = 0) -> int:
    """When somebody will get round to something: at their pace, after what lies before it, a day later once annoyed."""
    person, mind = world.get(Person, to), world.get(Mind, to)
    worn_out = world.counter(_annoyed(to, sender)) >= mind.patience
    takes = mind.pace + ahead * EACH_REQUEST + (DAY if worn_out else 0)
    return next_working_minute(person, next_working_minute(person, world.now) + takes)


def annoy(world: World, person_id: str, by: str) -> None:
    """Somebody has had to bear with somebody once more."""
    world.count_up(_annoyed(person_id, by))


def _annoyed(person_id: str, by: str) -> str:
    return f"annoyed:{person_id}:{by}"


def inbox(world: World, person_id: str) -> list[Message]:
    """All messages to this person, oldest first."""
    return [message for message in world.all(Message) if message.to == person_id]


def inbox_counter(person_id: str) -> str:
    """The counter of the messages that this person ever got …"""
    return f"inbox:{person_id}"


def seen_counter(person_id: str) -> str:
    """… and of those that they have seen."""
    return f"seen:{person_id}"


def has_news(world: World, person_id: str) -> bool:
    """Whether something is in somebody's inbox that they have not seen."""
    return world.counter(inbox_counter(person_id)) > world.counter(seen_counter(person_id))


def mark_seen(world: World) -> None:
    """The acting person has now looked at their inbox."""
    seen, arrived = seen_counter(world.actor), world.counter(inbox_counter(world.actor))
    if world.counter(seen) != arrived:
        world.tally(seen, arrived)
