"""The facts of a vendor case that rules ask about: from its causes, and once more from the records of the company.

The judge uses the causes. A test compares both.
"""

from msgspec import Struct

from companyos.company import Entry, Person, Policy, Source, Ticket
from companyos.core.world import Draw, Streams, World, stamp
from companyos.families.kit.case import Case
from companyos.families.kit.rulebooks import Answers
from companyos.families.vendor_onboarding.causes import Causes
from companyos.rules import Question
from companyos.rules.conditions import Value


class Numbers(Struct, frozen=True):
    """The numbers of a rulebook, and the figures of the minimum score from low to high. All figures differ."""

    older: int  # the minimum of the version before
    minimum: int
    amended: int
    outside: int  # without a framework agreement
    personal: int
    small_order: int
    large_order: int


def draw_numbers(streams: Streams) -> Numbers:
    """Draw the numbers of a rulebook."""
    draw = streams.at("number", "figures")
    older = draw.pick((56, 58, 60, 62))
    minimum = older + draw.between(4, 6)
    amended = minimum + draw.between(3, 4)
    outside = amended + draw.between(4, 6)
    personal = outside + draw.between(4, 6)
    return Numbers(
        older, minimum, amended, outside, personal,
        small_order=draw.pick((3000, 4000, 5000)), large_order=draw.between(30, 60) * 1000,
    )  # fmt: skip


def score_of(causes: Causes, streams: Streams) -> int:
    """Return the true compliance score, in the range that the cause `score` names."""
    n = draw_numbers(streams)
    bands = {
        "under": (38, n.older - 1),
        "at_older": (n.older, n.older),
        "over_older": (n.older + 1, n.minimum - 1),
        "at_minimum": (n.minimum, n.minimum),
        "over_minimum": (n.minimum + 1, n.amended - 1),
        "over_amended": (n.amended, n.outside - 1),
        "at_outside": (n.outside, n.outside),
        "over_outside": (n.outside + 1, n.personal - 1),
        "at_personal": (n.personal, n.personal),
        "over": (n.personal + 1, 97),
    }
    return streams.at("score", causes.score).between(*bands[causes.score])


def amount_of(causes: Causes, draw: Draw, numbers: Numbers, head_limit: int, cfo_limit: int) -> int:
    """Return the amount of the ticket, in the range that the cause `amount` names."""
    small = numbers.small_order
    bands = {
        "tiny": (1000, small - 1001),
        "below_small": (small - 1000, small - 1),
        "at_small": (small, small),
        "small": (small + 1, head_limit),
        "large": (head_limit + 1, numbers.large_order),
        "larger": (numbers.large_order + 1, cfo_limit),
        "huge": (cfo_limit + 1, 2 * cfo_limit),
    }
    return draw.between(*bands[causes.amount])


# Limits that stand for those of the company: all heads and the Procurement Lead sign up to the same amount.
_HEAD_LIMIT, _CFO_LIMIT = 20_000, 100_000
# Days in the order in which they lie. The numbers only say which day comes first.
_EXPIRED, _LONG_AGO, _PRESENT_FIGURES, _BETWEEN, _AMENDMENT, _LATELY, _OPENED, _LAPSED, _TODAY, _VALID = range(10)
_INSURED_UNTIL = {"valid": _VALID, "lapsed": _LAPSED, "expired": _EXPIRED}
_APPLIED_ON = {"lately": _LATELY, "between": _BETWEEN, "long_ago": _LONG_AGO}


def answers(causes: Causes, streams: Streams) -> Answers:
    """Return the facts of a case from its causes. A day or an amount stands for all days or amounts of its range."""
    amount = amount_of(causes, streams.at("range"), draw_numbers(streams), _HEAD_LIMIT, _CFO_LIMIT)
    facts: dict[str, Value] = {
        "same_not_cancelled": causes.duplicate != "no",
        "same_open": causes.duplicate == "open",
        "owner": causes.conflict,
        "insurance_until": _INSURED_UNTIL[causes.insurance],
        "opened": _OPENED,
        "today": _TODAY,
        "applied_on": _APPLIED_ON[causes.applied],
        "memo_day": _AMENDMENT,
        "score": score_of(causes, streams),
        "amount": amount,
        "data_class": "personal" if causes.personal_data else "standard",
        "framework": causes.framework,
    }

    def answer(question: Question) -> Value:
        if question.fact == "edition":
            day = facts[question.how[1]]
            return 0 if isinstance(day, int) and day >= _PRESENT_FIGURES else 1
        if question.fact == "covers":
            return (_CFO_LIMIT if question.how[1] == "CFO" else _HEAD_LIMIT) >= amount
        return facts[question.fact]

    return answer


def recorded_answers(world: World, case: Case) -> Answers:
    """Return the facts of a case from the records of the company, including those that no actor sees."""
    roles = case.roles
    ticket, earlier = world.get(Ticket, roles["ticket"]), world.get(Ticket, roles["earlier"])
    entry, requester = world.get(Entry, roles["entry"]).details, world.get(Person, roles["requester"])
    same = earlier.reference == ticket.reference
    amendment = world.peek(Policy, roles.get("amendment", ""))
    facts: dict[str, Value] = {
        "same_not_cancelled": same and earlier.status != "cancelled",
        "same_open": same and earlier.status in ("open", "in_progress"),
        "owner": {requester.id: "requester", requester.manager: "manager"}.get(entry["owner"], "no"),
        "insurance_until": entry["insurance_until"],
        "opened": stamp(ticket.opened)[:10],
        "today": stamp(world.now)[:10],
        "applied_on": entry["applied_on"],
        "memo_day": stamp(amendment.since)[:10] if amendment else "",
        "score": world.get(Source, roles["score"]).value,
        "amount": ticket.amount or 0,
        "data_class": entry["data_class"],
        "framework": entry["framework"] == "yes",
    }

    def answer(question: Question) -> Value:
        if question.fact == "edition":
            return 0 if str(facts[question.how[1]]) >= stamp(world.get(Policy, roles["policy"]).since)[:10] else 1
        if question.fact == "covers":
            return (world.get(Person, roles[ROLES[question.how[1]]]).limit or 0) >= (ticket.amount or 0)
        return facts[question.fact]

    return answer


# The roles of the people who hold the offices that rules name.
ROLES = {
    "Head": "head",
    "CFO": "cfo",
    "CEO": "ceo",
    "CTO": "cto",
    "Procurement Lead": "procurement",
    "Compliance Officer": "compliance",
    "HR Lead": "hr",
    "Vendor Desk Lead": "policy_owner",
}
