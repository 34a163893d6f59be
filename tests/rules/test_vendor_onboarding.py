"""The sketch of vendor onboarding: its house rulebook decides as version 3 of the family does."""

import pytest

from companyos.rules import Limit, Question, Ruling, answered, decide, draw_book
from companyos.rules.conditions import Value
from tests.rules.helpers import streams_of
from tests.rules.vendor_onboarding import COSTS, DESIGN

HOUSE = draw_book(DESIGN, streams_of(1), "train", {"rulebook": "house"}).book
FINE: dict[str, Value] = {
    "same_not_cancelled": False, "owner": "other", "insurance_until": 9, "today": 5, "opened": 3, "applied_on": 2,
    "score": 95, "amount": 1000, "data_class": "standard", "framework": False, "edition": 0,
}  # fmt: skip
MINIMUM = HOUSE.get(Limit, "minimum").number


def ruling(**facts: Value) -> Ruling:
    limits = {"Head": 25_000, "CFO": 60_000}

    def answer(question: Question) -> Value:
        case = FINE | facts
        if question.fact == "covers":
            return limits[question.how[1]] >= int(case["amount"])
        return case[question.fact]

    return answered(decide(HOUSE, COSTS), answer)


@pytest.mark.parametrize(
    ("facts", "ending", "recorded", "cites"),
    [
        ({}, "completed/all_checks_passed", "", ("status", "decided_by", "score")),
        ({"same_not_cancelled": True}, "duplicate/same_request", "other", ("other_reference", "other_status")),
        ({"owner": "requester"}, "escalated/conflict_of_interest", "Compliance Officer", ("owner",)),
        ({"owner": "manager"}, "completed/all_checks_passed", "", ("status", "decided_by", "score")),
        ({"insurance_until": 4}, "on_hold/document_expired", "requester", ("insurance_until",)),
        ({"score": MINIMUM - 1}, "declined/below_minimum", "", ("score", "minimum")),
        ({"score": MINIMUM}, "completed/all_checks_passed", "", ("status", "decided_by", "score")),
        ({"score": MINIMUM + 9, "data_class": "personal"}, "declined/below_minimum", "", ("score", "minimum")),
        ({"amount": 60_001}, "cannot_be_done/beyond_authority", "", ("amount", "limit")),
        ({"insurance_until": 4, "score": 1}, "on_hold/document_expired", "requester", ("insurance_until",)),
    ],
)  # fmt: skip
def test_the_house_rulebook_has_the_endings_of_version_3(
    facts: dict[str, Value], ending: str, recorded: str, cites: tuple[str, ...]
) -> None:
    found = ruling(**facts)
    assert (f"{found.then.resolution}/{found.then.reason}", found.then.whom, found.cites) == (ending, recorded, cites)


def test_the_lowest_office_whose_limit_covers_the_amount_signs() -> None:
    assert ruling(amount=25_000).signers == ("Head",)
    assert ruling(amount=25_001).signers == ("CFO",)
