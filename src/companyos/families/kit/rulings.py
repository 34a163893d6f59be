"""The right ending of a case that is decided by drawn rules, and the papers in which these rules stand."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from companyos.company import Mind, Person, Policy
from companyos.company.facts import MISSING, fact
from companyos.core.world import DAY, Streams, World
from companyos.families.kit import endings
from companyos.families.kit.backdrop import Backdrop
from companyos.families.kit.case import Case
from companyos.families.kit.citations import CitedFacts
from companyos.families.kit.family import Ending
from companyos.families.kit.goals import Signature
from companyos.families.kit.rulebooks import Rules
from companyos.rules import Amends, Document, Instead, Limit, Plan, Rulebook, Ruling, lay_out
from companyos.rules.conditions import Holds

# -- papers ------------------------------------------------------------------------------------------------------------

_PAPERS = 48  # ids that are kept free for the papers of a rulebook
_VERSIONS = 4  # of these, for the versions of the paper with the limits, whose terms can drift
_PARTS = ", part "  # in the title of the second and further parts of a paper


class Written(Struct, frozen=True):
    """The papers of a rulebook: their ids by title (the present version), those of older versions, and all reserved ids."""

    papers: dict[str, str]
    older: dict[str, str]
    reserved: tuple[str, ...]


def draw_plan(streams: Streams, owner: str) -> Plan:
    """Draw where the sentences of a rulebook stand."""
    draw = streams.at("plan")
    return Plan(
        grouping=draw.pick(("kind", "check")),
        exemptions=draw.pick(("policy", "memo")),
        terms=draw.pick(("policy", "owner")),
        owner=owner,
    )


def write_papers(
    company: Backdrop, rules: Rules, book: Rulebook, new_words: bool, age_of: Callable[[str, int], int]
) -> tuple[Written, str]:
    """Add the papers of a rulebook to the company. Return them, and what the owner of the policies explains.

    `age_of` returns the age in days of a paper, by its title and edition.
    """
    world, streams = company.world, company.world.streams
    reserved = [company.policy_ids.pop(0) for _ in range(_PAPERS)]
    documents = lay_out(book, rules.language, streams, draw_plan(streams, rules.owner), new_words)
    written, used = Written({}, {}, tuple(reserved)), set[str]()
    for document in sorted(documents, key=lambda one: (one.title, one.edition)):
        if document.kind == "answer":
            continue
        # A change of one rule leaves the ids of the other papers as they are, unless two papers draw the same one.
        place = streams.at("paper", document.title, document.edition).between(_VERSIONS, _PAPERS - 1)
        if _has_limits(document):
            place = document.edition
        while reserved[place] in used:
            place = place + 1 if place + 1 < _PAPERS else _VERSIONS
        used.add(paper := reserved[place])
        since = (world.now // DAY - age_of(document.title.partition(_PARTS)[0], document.edition)) * DAY
        status = "superseded" if document.edition else "in force"
        terms = terms_of(document)
        world.put_at_start(Policy(paper, document.title, status, since, document.text, terms))
        (written.older if document.edition else written.papers)[document.title] = paper
    return written, " ".join(document.text for document in documents if document.kind == "answer")


def _has_limits(document: Document) -> bool:
    return any(isinstance(piece, Limit) for piece in document.pieces)


def explain(world: World, owner: str, ticket_id: str, text: str) -> None:
    """Let the owner of the policies explain the terms to whoever asks on a ticket."""
    if text:
        mind = world.get(Mind, owner)
        world.put_at_start(msgspec.structs.replace(mind, explains=mind.explains | {ticket_id: text}))


def terms_of(document: Document) -> dict[str, int]:
    """Return the figures of a paper by name: `minimum`, and `minimum_personal` for one with the condition `personal`."""
    terms: dict[str, int] = {}
    for piece in document.pieces:
        figure = piece.piece if isinstance(piece, Amends) else piece
        if isinstance(figure, Limit):
            terms[figure.limit] = figure.number
        elif isinstance(figure, Instead):
            terms[f"{figure.limit}_{_condition_name(figure)}"] = figure.number
    return terms


def _condition_name(figure: Instead) -> str:
    [condition] = figure.when
    assert isinstance(condition, Holds)
    if isinstance(condition.than, bool):
        return condition.fact if condition.than else f"no_{condition.fact}"
    return str(condition.than)


# -- judge -------------------------------------------------------------------------------------------------------------


# A ruling can order nothing but to close the ticket. The milestones of such an ending have to add up to 2 nevertheless.
_WORTH = endings.Worth(priority=0.5, verified=2.0)


def ruled_ending(
    world: World,
    case: Case,
    ruling: Ruling,
    *,
    facts: Mapping[str, tuple[str, str]],
    whom: Mapping[str, str],
    forms: tuple[str, str],
    must_be_fresh: tuple[str, ...] = (),
    rivals: CitedFacts = (),
) -> Ending:
    """Return the right ending that a ruling orders.

    `facts` has record and field of every fact that a rule can ask to cite. Those that are not asked for compete with those
    that are, so citing them loses, and so do the further `rivals`. `whom` has people by office and by part in the case.
    `forms` are those of the first and the second signature.
    """
    then, cited = ruling.then, tuple(facts[name] for name in ruling.cites)
    others = [place for place in (*facts.values(), *rivals) if place not in cited and place[0] != case.ticket_id]
    signed = tuple(
        Signature(form, by=_chain(world, whom[office])) for form, office in zip(forms, ruling.signers, strict=False)
    )
    ending = endings.ending(
        world,
        case,
        then.resolution,
        then.reason,
        decider=_decider(ruling),
        facts=cited,
        sets=(then.field, whom[then.whom]) if then.field else None,
        must_be_fresh=must_be_fresh,
        must_not_cite=tuple(place for place in dict.fromkeys(others) if _exists(world, *place)),
        signed=signed,
        cost_center=True,
        worth=_WORTH,
    )
    return msgspec.structs.replace(ending, ruling=ruling)


def _exists(world: World, record_id: str, field: str) -> bool:
    record = world.lookup(record_id)
    return record is not None and fact(world, record, field) is not MISSING


def _chain(world: World, person_id: str) -> tuple[str, ...]:
    """Return the holder of an office and those who sign while others are away: the delegate, the delegate's delegate …"""
    person = world.get(Person, person_id)
    people = [person.id]
    while person.delegate and person.delegate not in people:
        person = world.get(Person, person.delegate)
        people.append(person.id)
    return tuple(people)


def _decider(ruling: Ruling) -> str:
    """Return who decides: the offices that sign, the office to which the ticket is escalated, the board, or the desk."""
    if ruling.signers:
        return " and ".join("head" if office == "Head" else office for office in ruling.signers)
    if ruling.then.field == "escalated_to":
        return ruling.then.whom
    return "board" if ruling.then.resolution == "cannot_be_done" else "desk"
