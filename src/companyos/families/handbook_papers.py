"""The sections of the handbook, the proposals to change them, and the documents that set limits for them."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Policy
from companyos.core.world import DAY, Draw
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric, add_policy, one_line

# -- topics ------------------------------------------------------------------------------------------------------------


class HandbookTopic(Struct, frozen=True):
    """A topic of the handbook. Its sections set a number, such as the remote days a month, and documents limit it.

    The possible numbers form a ladder. From rung to rung they come nearer to the limit and then pass it.
    """

    name: str
    title: str
    bound: str  # `most` if documents set a maximum, `least` if they set a minimum
    start: int  # the number on rung 0
    stride: int  # the difference between two rungs
    unit: str

    @property
    def limit_term(self) -> str:
        """The name of the policies' term that sets the limit."""
        return f"{self.bound}_{self.name}"

    def at_rung(self, rung: int) -> int:
        """Return the number on a rung. On a higher rung it is higher if documents set a maximum, else lower."""
        return self.start + rung * (self.stride if self.bound == "most" else -self.stride)

    def clause(self, limit: int) -> str:
        """Return the text of a limit, for example "remote_days at most 5 days a month"."""
        return f"{self.name} at {self.bound} {limit} {self.unit}"


TOPICS = (
    HandbookTopic("remote_days", "Remote days", "most", 2, 1, "days a month"),
    HandbookTopic("carry_over_days", "Leave carried over", "most", 3, 1, "days a year"),
    HandbookTopic("training_euros", "Training budget", "most", 400, 100, "EUR a year"),
    HandbookTopic("parental_weeks", "Parental leave", "least", 30, 1, "weeks"),
    HandbookTopic("rest_hours", "Rest between shifts", "least", 20, 1, "hours"),
)
GROUPS = ("office staff", "field staff", "shift staff", "trainees", "contractors")
Rungs = tuple[int, int, int]  # those of the limits in the three documents on a topic, in rising order


def draw_rungs(draw: Draw) -> Rungs:
    """Draw the rungs of the limits that the three documents on a topic set, in rising order.

    The present number of the handbook is on a lower rung than all of them.
    """
    low = draw.between(2, 4)
    mid = low + draw.between(1, 3)
    return low, mid, mid + draw.between(1, 3)


def draw_value(topic: HandbookTopic, draw: Draw) -> int:
    """Draw a number that a proposal or a document could name."""
    return topic.at_rung(draw.between(2, 10))


# -- sections and proposals --------------------------------------------------------------------------------------------


def add_section(company: Backdrop, topic: HandbookTopic, group: str, reference: str) -> Entry:
    """Add a section of the handbook to the register, owned by the people desk, with a draft that some people have read."""
    world, name = company.world, f"{topic.title} of {group}"
    draw = world.streams.at("section", topic.name, group)
    metric = f"draft_readers.{topic.name}_{group.replace(' ', '_')}"
    add_metric(company, metric, f"Share of those concerned who read the draft on {name}", "percent", draw.between(30, 97))
    details = {
        "topic": topic.name,
        "current": str(topic.at_rung(draw.between(0, 1))),
        "unit": topic.unit,
        "class": draw.pick(("ordinary", "contractual")),
        "owner": "People",
        "set_by": "company",
        "steward": company.staff[draw.pick(("HR Partner", "HR Generalist"))],
        "readers_metric": metric,
        "version": f"V-{draw.between(10_000, 99_999)}",
        "minutes": f"MN-{draw.between(10_000, 99_999)}",
    }
    return world.put_at_start(Entry(company.entry_ids.pop(0), "section", name, reference, "published", details))


def add_proposal(company: Backdrop, section: Entry, number: int, status: str, value: int) -> Entry:
    """Add a proposal for a section. Its reference is the section's reference and a number."""
    details = {"proposed": str(value), "unit": section.details["unit"]}
    name, reference = f"Proposal on {section.name}", f"{section.reference}/{number}"
    return add_entry(company, "proposal", name, reference, status, details)


class HandbookPapers(NamedTuple):
    """The entries of a case: its section and proposal, and two sections that it is not about."""

    section: Entry
    proposal: Entry
    namesake: Entry  # on the same topic, for another group of staff
    other: Entry  # on another topic


def add_papers(
    company: Backdrop, draw: Draw, topic: HandbookTopic, rungs: Rungs, details: dict[str, str], proposed: str
) -> HandbookPapers:
    """Add the sections and proposals. `details` are those of the case's section.

    `proposed` says on which rungs the proposed number lies: `low`, `mid` or `high`; otherwise it is the present number.
    """
    world = company.world
    group, namesake_group, other_group = draw.sample(GROUPS, 3)
    references = [f"HB-{number}" for number in draw.sample(range(1000, 10_000), len(TOPICS) + 1)]
    namesake = add_section(company, topic, namesake_group, references.pop())
    add_proposal(company, namesake, 1, "submitted", draw_value(topic, draw))
    section = add_section(company, topic, group, references.pop())
    section = world.put_at_start(replace(section, details=section.details | details))
    add_proposal(company, section, 1, "withdrawn", draw_value(topic, draw))
    low, mid, high = rungs
    bands = {"low": (2, low), "mid": (low + 1, mid), "high": (mid + 1, high)}
    value = int(section.details["current"])
    if proposed in bands:
        value = topic.at_rung(world.streams.at("proposed", proposed).between(*bands[proposed]))
    proposal = add_proposal(company, section, 2, "submitted", value)
    other_sections = [
        add_section(company, other_topic, other_group, references.pop())
        for other_topic in TOPICS
        if other_topic is not topic
    ]
    return HandbookPapers(section, proposal, namesake, draw.pick(other_sections))


# -- documents ---------------------------------------------------------------------------------------------------------


def add_documents(company: Backdrop, draw: Draw, topic: HandbookTopic, rungs: Rungs, governs: str) -> dict[str, str]:
    """Add documents on all topics. Return the ids of those on `topic`, by name: `general` or a key of `SPECIAL`.

    The one named `governs` takes precedence.
    """
    world, today = company.world, company.world.now // DAY
    limits = {name: topic.at_rung(rung) for name, rung in zip(draw.shuffled(("general", *SPECIAL)), rungs, strict=True)}
    _add_general(company, {any_topic.limit_term: draw_value(any_topic, draw) for any_topic in TOPICS}, superseded=True)
    terms = {
        any_topic.limit_term: limits["general"] if any_topic is topic else draw_value(any_topic, draw)
        for any_topic in TOPICS
    }
    documents = {}
    for other_topic in TOPICS:
        if other_topic is not topic:
            _add_special(company, other_topic, draw.pick(tuple(SPECIAL)), draw_value(other_topic, draw))
    later_date, earlier_date = (today - draw.between(30, 150)) * DAY, (today - draw.between(200, 400)) * DAY
    # The rival is the other document on this topic. If it is not in force, it has the later date, so that the date alone
    # does not decide.
    rival_in_force = draw.chance(0.75)
    for name in draw.shuffled(("general", *SPECIAL)):  # so that the order of ids does not tell which one governs
        if name == "general":
            general = replace(_add_general(company, terms), since=(today - draw.between(10, 120)) * DAY)
            documents[name] = world.put_at_start(general).id
            continue
        takes_precedence = name == governs
        in_force = takes_precedence or (rival_in_force and governs != "general")
        status = "in force" if in_force else "superseded"
        since = later_date if takes_precedence == rival_in_force else earlier_date
        document = _add_special(company, topic, name, limits[name])
        documents[name] = world.put_at_start(replace(document, status=status, since=since)).id
    return documents


def _add_general(company: Backdrop, terms: dict[str, int], superseded: bool = False) -> Policy:
    """Add the document that limits all topics. `terms` are its limits."""
    clauses = "; ".join(topic.clause(terms[topic.limit_term]) for topic in TOPICS)
    text = f"What any group of staff is promised keeps within these limits: {clauses}."
    return add_policy(company, "Working conditions: general limits", text, terms, superseded)


def _add_special(company: Backdrop, topic: HandbookTopic, kind: str, limit: int) -> Policy:
    """Add a document that limits one topic. `kind` is a key of `SPECIAL`."""
    title, text = SPECIAL[kind]
    clause = topic.clause(limit)
    return add_policy(company, f"{topic.title}: {title}", one_line(text).format(clause=clause), {topic.limit_term: limit})


# The kinds of documents that limit a single topic: the end of the title, and the text.
SPECIAL = {
    "board": (
        "circular of the board",
        """The board has looked at what this costs and sets the limit itself: {clause}. It holds for all groups of staff,
        from the day named under since.""",
    ),
    "council": (
        "agreement with the staff council",
        """Management and the staff council have agreed: {clause}. This holds for all groups of staff, from the day named
        under since.""",
    ),
}


def allows(term: str, limit: int, value: int) -> bool:
    """Return whether a document with this limit allows a value. `term` is its name, such as `most_remote_days`."""
    return value <= limit if term.startswith("most_") else value >= limit
