"""Tests of records: how they are shown, copied and hashed."""

from typing import Any

import msgspec
import pytest

from companyos.company import KINDS
from companyos.core.world import Change, Minute, Record, row, view
from companyos.core.world.record import fingerprint
from tests.helpers import staged


class Parcel(Record, frozen=True):
    """A record with one field of every kind."""

    spread = "extras"

    weight: int | None
    sent: Minute
    stops: tuple[str, ...]
    extras: dict[str, str]
    opened: Minute | None = None
    note: str = ""


def parcel(**changes: Any) -> Parcel:
    return msgspec.structs.replace(Parcel("X-1", None, 90, ("here", "there"), {"colour": "red"}), **changes)


def test_a_record_cannot_be_changed() -> None:
    made = parcel()
    with pytest.raises(AttributeError):
        made.note = "mine"  # type: ignore[misc]


def test_a_view_leaves_out_what_holds_its_default_and_shows_what_is_empty() -> None:
    shown = view(parcel())
    assert shown["weight"] is None
    assert "note" not in shown
    assert "opened" not in shown
    assert view(parcel(note="mind the cat"))["note"] == "mind the cat"


def test_a_view_writes_moments_as_dates() -> None:
    assert view(parcel())["sent"] == "2026-01-05 01:30"
    assert view(parcel(opened=0))["opened"] == "2026-01-05 00:00"


def test_a_view_shows_a_spread_field_as_if_its_items_were_fields() -> None:
    assert view(parcel())["colour"] == "red"
    assert "extras" not in view(parcel())


def test_a_view_is_a_copy() -> None:
    made = parcel()
    view(made)["stops"].append("nowhere")
    view(made)["colour"] = "blue"
    assert made == parcel()


def test_a_row_has_the_id_and_the_fields_asked_for_in_order() -> None:
    assert row(parcel(), ("sent", "weight", "stops")) == {
        "id": "X-1",
        "sent": "2026-01-05 01:30",
        "weight": None,
        "stops": ["here", "there"],
    }


def test_a_row_is_a_copy() -> None:
    made = parcel()
    row(made, ("extras",))["extras"]["colour"] = "blue"
    row(made, ("stops",))["stops"].append("nowhere")
    assert made == parcel()


def test_every_view_of_every_record_equals_what_its_json_says() -> None:
    world = staged("100").world
    for kind in KINDS:
        for record in world.all(kind):
            assert msgspec.json.decode(msgspec.json.encode(view(record))) == view(record)


class Letter(Record, frozen=True):
    """Another type whose content equals the id of a parcel."""


class Postcard(Record, frozen=True):
    """A third type."""


def test_a_fingerprint_tells_kinds_and_contents_apart() -> None:
    records = [parcel(), parcel(note="!"), parcel(id="X-2"), Letter("X-1"), Postcard("X-1")]
    prints = [fingerprint(record) for record in records]
    assert len(set(prints)) == len(records)
    assert all(0 <= number < 1 << 128 for number in prints)


def test_equal_records_have_equal_fingerprints() -> None:
    assert fingerprint(parcel()) == fingerprint(msgspec.structs.replace(parcel(note="!"), note=""))


def test_a_change_of_a_made_record_tells_every_field_from_none() -> None:
    fields = Change(5, "@a.b", "post", None, parcel()).fields()
    assert fields == {
        "weight": (None, None),
        "sent": (None, "2026-01-05 01:30"),
        "stops": (None, ["here", "there"]),
        "colour": (None, "red"),
    }


def test_a_change_tells_before_and_after_of_what_changed_and_of_nothing_else() -> None:
    before, after = parcel(opened=0), parcel(opened=60, weight=7, note="heavy", stops=())
    assert Change(5, "@a.b", "weigh", before, after).fields() == {
        "weight": (None, 7),
        "stops": (["here", "there"], []),
        "opened": ("2026-01-05 00:00", "2026-01-05 01:00"),
        "note": ("", "heavy"),
    }
