"""Hashed binary features of the records that belong to the case, the ticket of the brief.

Of two numbers, the features tell which is larger; of two ids or codes, whether they are equal.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations
from typing import NamedTuple
from zlib import crc32

from companyos.agents.choices.case_view import CaseView

FEATURES = 1 << 16  # possible hashes of a feature


@cache
def feature(*words: object) -> int:
    """Return the hash of a feature."""
    return crc32(repr(words).encode()) % FEATURES


class CodeAtPlace(NamedTuple):
    """An id or a code in a field of a record. The place is the name of the record and the field: `case.requester`."""

    name: str
    field: str
    place: str
    value: str


class RecordFeatures(NamedTuple):
    """The features of one record that belongs to the case."""

    features: list[int]
    numbers: list[tuple[str, int]]  # place and value
    codes: list[CodeAtPlace]


def record_features(view: CaseView, record: str) -> RecordFeatures | None:
    """Return the features of a record, or None if it does not belong to the case."""
    kind, name = view.kind(record), view.name(record)
    if not _belongs_to_case(view, record, kind, name):
        return None
    result = RecordFeatures([], [], [])
    for field, value in view.records[record].items():
        if type(value) is int:
            result.numbers.append((f"{name}.{field}", value))
        elif field != "id" and kind != "Policy":
            place, value_class = f"{name}.{field}", view.value_class(value)
            if value_class:
                result.features.append(feature(place, value_class))
            if value_class[:1].isupper():  # an id or a code
                result.codes.append(CodeAtPlace(name, field, place, value))
    return result


def _belongs_to_case(view: CaseView, record: str, kind: str, name: str) -> bool:
    return kind == "Approval" or name.startswith("case") or name.endswith("=") or (record in view.read and kind != "")


def combined_features(records: Iterable[RecordFeatures]) -> list[int]:
    """Return the features of all records, and those that compare their numbers, ids and codes."""
    features: set[int] = set()
    numbers: dict[str, int] = {}
    places_by_value: dict[str, list[str]] = {}
    codes_by_field: dict[str, list[tuple[str, str]]] = {}  # name of the record, and value
    for record in records:
        features.update(record.features)
        numbers.update(record.numbers)
        for name, field, place, value in record.codes:
            places_by_value.setdefault(value, []).append(place)
            codes_by_field.setdefault(field, []).append((name, value))
    features.update(_comparisons(tuple(sorted(numbers.items()))))
    for places in places_by_value.values():
        if len(places) > 1:
            pairs = combinations(sorted(places), 2)
            features.update([feature("same", pair) for pair in pairs if any(place.startswith("case") for place in pair)])
    for field, codes in codes_by_field.items():
        value_in_case = dict(codes).get("case")
        if value_in_case is not None:
            features.update([feature("unlike", field, name) for name, value in codes if value != value_in_case])
    return list(features)


@lru_cache(maxsize=4096)
def _comparisons(numbers: tuple[tuple[str, int], ...]) -> list[int]:
    """Return a feature for each comparable pair of numbers: which of the two is larger."""
    return [
        feature(place, other_place, (number > other) - (number < other))  # 1, 0 or -1
        for (place, number), (other_place, other) in combinations(numbers, 2)
        if _comparable(place, other_place)
    ]


@cache
def _comparable(place: str, other_place: str) -> bool:
    """Return whether a comparison of the numbers at two places can matter.

    At least one number must belong to the case or be measured, but they must not both be measured. They must come from two
    records, unless one of them is a maximum age.
    """
    of_case = [each.startswith("case.") and each.count(".") == 1 for each in (place, other_place)]
    measured = [each.endswith((".value", ".age_days")) for each in (place, other_place)]
    two_records = place.rsplit(".", 1)[0] != other_place.rsplit(".", 1)[0]
    may_differ = two_records or "max_age_days" in place + other_place
    return may_differ and (any(of_case) or any(measured)) and not all(measured)
