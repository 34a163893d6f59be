"""The records that replies have shown, described by their relation to the ticket of the brief, which is called the case.

A record is never named by its id. It is named by where it was first seen (`case.requester`), by its kind, and by its
relation to the case (`Entry vendor =`: an entry with the same reference). Of a value, only a class is kept: empty, a kind of
record, a past or coming date, a word. So the descriptions mean the same in every task.

A *place* is a record's name and a field: `case.amount`.
"""

import re
from functools import lru_cache
from typing import Any

from companyos.company import KINDS
from companyos.env.knowledge import Knowledge

_KIND_OF = re.compile("|".join(f"(?P<{kind.__name__}>{kind.pattern})" for kind in KINDS if kind.pattern))
_WORD = re.compile(r"[a-z][a-z_ ]{0,24}")  # for example "in progress"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CODE = re.compile(r"[A-Z]+-\d+")  # for example "PO-1042"


@lru_cache(maxsize=65536)
def kind_of(text: str) -> str:
    """Return the kind of record that an id points at, or an empty text if it is not an id."""
    match = _KIND_OF.fullmatch(text)
    return match.lastgroup or "" if match else ""


class CaseView:
    """The records of one episode as replies have shown them, with their names and the words that describe them."""

    def __init__(self, knowledge: Knowledge, case_id: str, today: str) -> None:
        self.knowledge = knowledge
        self.case_id = case_id
        self.today = today
        self.records: dict[str, dict[str, Any]] = {}  # the fields shown so far, by id
        self.read: set[str] = set()  # records that were read one by one, not only seen as a row of a list
        self.places: dict[str, str] = {}  # where an id or a code was first seen
        self._names: dict[str, str] = {}  # of records; a cache
        self._descriptions: dict[str, tuple[str, ...]] = {}  # of ids and codes; a cache

    def fork(self, knowledge: Knowledge) -> "CaseView":
        """Return an independent copy that uses a copy of the knowledge."""
        fork = CaseView(knowledge, self.case_id, self.today)
        fork.records, fork.read, fork.places = self.records.copy(), self.read.copy(), self.places.copy()
        fork._names, fork._descriptions = self._names.copy(), self._descriptions.copy()
        return fork

    def forget(self, value: str) -> None:
        """Drop the cached name and description of an id or a code."""
        self._names.pop(value, None)
        self._descriptions.pop(value, None)

    def forget_all(self) -> None:
        """Drop all cached names and descriptions."""
        self._names.clear()
        self._descriptions.clear()

    @property
    def case(self) -> dict[str, Any]:
        """The fields of the case that were shown so far."""
        return self.records.get(self.case_id, {})

    # -- names of records ----------------------------------------------------------------------------------------------

    def kind(self, record: str) -> str:
        """Return the kind of a record, or an empty text if the id belongs to none."""
        return kind_of(record) or ("ApprovalType" if record in self.knowledge.forms else "")

    def name(self, record: str) -> str:
        """Return the name of a record, which does not contain its id."""
        name = self._names.get(record)
        if name is None:
            name = self._names[record] = self._make_name(record, self.records.get(record, {}))
        return name

    def _make_name(self, record: str, shown: dict[str, Any]) -> str:
        if record == self.case_id:
            return "case"
        kind, case, place = self.kind(record), self.case, self.places.get(record)
        same_reference = " =" if case.get("reference") and shown.get("reference") == case["reference"] else ""
        if kind == "Person":
            has_no_limit = shown.get("limit") is None
            return place if place is not None and has_no_limit else self.masked(shown.get("role", kind))
        if kind == "Policy":
            later = " later" if shown.get("since", "") > case.get("opened", "9") else ""
            return f"Policy {shown.get('title', kind).rsplit(': ', 1)[-1]} {shown.get('status')}{later}"
        if kind == "ApprovalType":
            return "form of the case" if record == case.get("kind") else "form"
        if kind == "Metric":
            return place or record.split(".")[0]
        if kind == "Entry":
            links = [f" {field}" for field, value in shown.items() if field != "id" and kind_of(str(value)) == kind]
            return f"Entry {shown.get('kind', '')}{''.join(links)}{same_reference}"
        if kind == "Ticket":
            same_kind = shown.get("kind") == case.get("kind")
            return place if place and not same_reference else f"Ticket {same_kind}{same_reference}"
        return kind

    def masked(self, role: str) -> str:
        """Return an office with words of the case replaced by their place: `Head of (case.requester.department)`."""
        places = [(word, self.places.get(word, "")) for word in role.split()]
        return " ".join(f"({place})" if place.startswith("case.") else word for word, place in places)

    # -- descriptions of values ----------------------------------------------------------------------------------------

    def value_class(self, value: Any) -> str:
        """Return the class of a value; empty for prose and lists. Classes of ids and codes begin with a capital."""
        if value is None or value == "":
            return "empty"
        if type(value) is not str:
            return str(value) if type(value) is bool else ""
        if kind := kind_of(value):
            return kind
        if _DATE.match(value):
            return "past" if value[:10] < self.today else "coming"
        if _WORD.fullmatch(value):
            return value
        if _CODE.fullmatch(value):
            return "Code"
        return "away" if value.startswith("away") else ""

    def describe(self, value: str) -> tuple[str, ...]:
        """Return the words that describe an id, a code or a word, the most telling first."""
        words = self._descriptions.get(value)
        if words is None:
            words = self._descriptions[value] = self._make_description(value)
        return words

    def _make_description(self, value: str) -> tuple[str, ...]:
        if not self.kind(value):
            return (self.places.get(value) or self.value_class(value),)
        shown = self.records.get(value)
        if shown is None:
            return (self.name(value), "unheard")
        words = [self.name(value), "read" if value in self.read else "line"]
        words += [f"{field} {self.value_class(shown[field])}" for field in ("status", "presence") if field in shown]
        amount, limit = self.case.get("amount"), shown.get("limit")
        if amount is not None and limit is not None:
            words.append("covers" if limit >= amount else "does not cover")
        words += [f"at {field}" for field, held in self.case.items() if held == value and field != "id"][:1]
        return tuple(words)

    def compare(self, field: str, value: str) -> str:
        """Compare what a field of the case holds with a value that it could be set to. Return a word for the result."""
        if field not in self.case:
            return "unseen"
        held = self.case[field]
        return "empty" if held is None else "same" if held == value else "other"
