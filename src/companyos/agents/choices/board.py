"""The board: hashed features of an episode so far, and of the calls that could come next, for a small learner.

All features come from the brief and the replies, and mean the same in every family. A record is never named by its id. It is
named by where it was first seen (`case.requester`), by its kind, and by its relation to the ticket of the brief, which is
called the case (`Entry vendor =`: an entry with the same reference). Of a value the board keeps only a class: empty, a kind
of record, a past or coming date, a word. Of two numbers it keeps which is larger; of two ids, whether they are equal. The
learner has to find out what these features mean for the work.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from companyos.agents.choices.candidate_types import CandidateTypes, Indices
from companyos.agents.choices.candidates import Candidates
from companyos.agents.choices.evidence import asked_for, texts
from companyos.agents.choices.group import CandidateGroup, groups_of, key_of, name_of
from companyos.company import KINDS, Tool, toolbox_of
from companyos.core.calls import NO_ANSWER, OK, Call, Reply
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation

FEATURES = 1 << 16  # possible hashes of a feature

_KIND_OF = re.compile("|".join(f"(?P<{kind.__name__}>{kind.pattern})" for kind in KINDS if kind.pattern))
_WORD = re.compile(r"[a-z][a-z_ ]{0,24}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CODE = re.compile(r"[A-Z]+-\d+")
_NAMING = ("reference", "kind", "opened", "amount", "requester")  # fields of the case that appear in names of other records
CLOSING = "resolve_ticket"
_LONGEST = 50  # characters of a name or a code; longer text is prose


@cache
def feature(*words: object) -> int:
    """Return the hash of a feature."""
    return crc32(repr(words).encode()) % FEATURES


@lru_cache(maxsize=65536)
def kind_of(text: str) -> str:
    """Return the kind of record that an id points at, or an empty text if it is not an id."""
    match = _KIND_OF.fullmatch(text)
    return match.lastgroup or "" if match else ""


class RecordFeatures(NamedTuple):
    """The features of one record that belongs to the case.

    A place is a record's name and a field: `case.amount`. `held` has ids and codes: record name, field, place, value.
    """

    features: list[int]
    numbers: list[tuple[str, int]]
    held: list[tuple[str, str, str, str]]


class Board:
    """The features and the candidate calls of one episode. It updates them only when somebody asks for them."""

    def __init__(self, obs: Observation, types: CandidateTypes) -> None:
        self._types = types
        self.told = Knowledge(obs.task)
        self._toolbox = toolbox_of(obs.scene.offered)
        self.table = Candidates(self.told, self._toolbox)
        self._case = next(iter(self.table.own), "")
        self._records: dict[str, dict[str, Any]] = {}
        self._read: set[str] = set()  # records that were read one by one, not only seen as a row of a list
        self._names: dict[str, str] = {}
        self._met: dict[str, str] = {}  # the place where an id or a code was first seen
        self._descriptions: dict[str, tuple[str, ...]] = {}  # of ids and codes
        self._done: dict[int, None] = {}  # features of calls that were answered
        self._shown: dict[str, RecordFeatures | None] = {}  # features by record; a cache
        self._seen: list[int] = []  # features of all records
        self._tried: dict[tuple[str, str], tuple[str, int]] = {}  # by group and key of a call: how and when it ended
        self._changed = -1  # the step of the last write or wait
        self._last: tuple[str, str] = ("", "")
        self._step = obs.step
        self._today = obs.now[4:14]
        self._max_steps = obs.max_steps
        self._code = OK
        self._filled = False
        self._grown: set[str] = set()  # kinds with new ids, and other events that add candidates
        # What needs new descriptions. Dicts, not sets: types must get their numbers in the same order in every process.
        self._stale: dict[str, None] = {}  # these values
        self._refilled: set[str] = set()  # these fields of the case
        self._anew = True  # everything
        self._called: dict[tuple[str, str], None] = {}  # calls whose outcome has changed, by group and key
        self._looked = True
        self._offered: set[str] = set()  # values that occur in candidates
        self._only: dict[str, str] = {}
        self._sizes: list[int] = []
        self._prior = _LOGS[:0]
        self._groups = {group.name: group for group in groups_of(self._toolbox)}

    def fork(self) -> "Board":
        """Return an independent copy."""
        twin = Board.__new__(Board)
        twin.__dict__.update(self.__dict__)
        twin.told = self.told.fork()
        twin.table = self.table.about(twin.told)
        twin._records, twin._names, twin._met = self._records.copy(), self._names.copy(), self._met.copy()
        twin._read, twin._descriptions, twin._done = self._read.copy(), self._descriptions.copy(), self._done.copy()
        twin._tried, twin._stale, twin._grown = self._tried.copy(), self._stale.copy(), self._grown.copy()
        twin._refilled, twin._called, twin._shown = self._refilled.copy(), self._called.copy(), self._shown.copy()
        twin._offered = self._offered.copy()
        twin._groups = {name: group.fork() for name, group in self._groups.items()}
        return twin

    # -- taking in replies ---------------------------------------------------------------------------------------------

    def hear(self, call: Call, obs: Observation) -> None:
        """Take in a call and its reply. `features` and `candidates` do the rest of the work when they are called."""
        reply, today = obs.reply, obs.now[4:14]
        if today != self._today:  # a coming date may be past now
            self._shown.clear()
            self._looked = False
        self._step, self._today, self._code = obs.step, today, reply.code
        tool = self._toolbox.find(call)
        known = {kind: len(ids) for kind, ids in self.told.ids.items()}
        self.told.hear(reply)
        self._grown |= {kind.__name__ for kind, ids in self.told.ids.items() if len(ids) != known.get(kind)}
        if reply.ok and tool is not None:
            self._take(reply.data, tool)
        self._remember(call, reply, tool)

    def _take(self, data: Any, tool: Tool) -> None:
        """Take in the records of a reply."""
        if not isinstance(data, dict):
            return
        rows = data.get("rows")
        if rows is None:
            rows = data.get("arrived")
        whole = rows is None and "id" in data
        for row in (data,) if whole else rows or ():
            record = row.get("id")
            if not isinstance(record, str):
                continue
            before = self._records.get(record)
            first = whole and not tool.writes and record not in self._read
            if first:
                self._read.add(record)
            elif before is not None and all(before.get(field, row) == value for field, value in row.items()):
                continue
            self._records[record] = row if before is None else before | row
            self._looked = False
            self._grown.add(f"{self._kind(record)} shown")
            self._forget(record)
            if record == self._case:
                self._turn_to_the_case(before or {}, row)
            if whole or record == self._case:
                self._meet(record, row)

    def _turn_to_the_case(self, before: dict[str, Any], shown: dict[str, Any]) -> None:
        """Mark as stale the changed fields of the case and the values in them, or everything if names depend on a field."""
        for field, value in shown.items():
            held = before.get(field, shown)
            if held != value:
                self._refilled.add(field)
                self._anew = self._anew or field in _NAMING
                for one in (held, value):
                    if type(one) is str:
                        self._forget(one)

    def _meet(self, record: str, shown: dict[str, Any]) -> None:
        """Remember the place where each id and each code was first seen: names are made of it."""
        name = self._name(record)
        if name.count(".") > 1:  # too far from the case for the path to matter
            name = self._kind(record)
        for field, value in shown.items():
            if type(value) is str and value not in self._met and field != "id" and len(value) < _LONGEST:
                self._met[value] = f"{name}.{field}"
                self._forget(value)
                self._anew = self._anew or name.startswith("case")
        if self._anew:
            self._names.clear()
            self._descriptions.clear()
            self._shown.clear()
            self._grown.add("case")
        if "text" in shown:
            self._grown.add("text")

    def _forget(self, value: str) -> None:
        self._names.pop(value, None)
        self._descriptions.pop(value, None)
        self._shown.pop(value, None)
        self._stale[value] = None

    def _remember(self, call: Call, reply: Reply, tool: Tool | None) -> None:
        """Remember how a call ended."""
        if tool is None:
            return
        group, key = name_of(tool, call.params.get("field", "")), key_of(call.params)
        if self._last[0]:
            self._called[self._last] = None
        self._last = group, key
        self._called[self._last] = None
        self._tried[group, key] = "ok" if reply.ok else "silence" if reply.code == NO_ANSWER else "refused", self._step
        if not reply.ok:
            return
        if tool.writes or tool.method == "wait":
            self._changed = self._step
            self._called |= dict.fromkeys(self._tried)
        about = tuple(
            self._describe_value(value)[0] for value in call.params.values() if type(value) is str and len(value) < _LONGEST
        )
        self._done[feature("did", group, about)] = None
        if isinstance(reply.data, dict):
            if "total" in reply.data:
                self._done[feature("found", group, about, min(reply.data["total"], 3))] = None
            for letter in reply.data.get("arrived", ()):
                self._done[feature("letter", letter["topic"])] = None

    # -- features ------------------------------------------------------------------------------------------------------

    def features(self) -> Indices:
        """Return the numbers of the binary features that are 1."""
        if not self._looked:
            self._look()
        third = min(2, 3 * self._step // self._max_steps)
        last = self._last[0]
        now = (feature("always"), feature("code", self._code), feature("last", last, self._code), feature("third", third))
        return np.array(list({*now, *self._done, *self._seen}), np.int32)

    def _look(self) -> None:
        """Collect the features of the records that belong to the case."""
        seen: set[int] = set()
        numbers: dict[str, int] = {}
        holders: dict[str, list[str]] = {}
        fields: dict[str, list[tuple[str, str]]] = {}
        for record in self._records:
            if record not in self._shown:
                self._shown[record] = self._show(record)
            shown = self._shown[record]
            if shown is not None:
                seen.update(shown.features)
                numbers.update(shown.numbers)
                for name, field, place, value in shown.held:
                    holders.setdefault(value, []).append(place)
                    fields.setdefault(field, []).append((name, value))
        seen.update(_compared(tuple(sorted(numbers.items()))))
        for places in holders.values():
            if len(places) > 1:
                pairs = combinations(sorted(places), 2)
                seen.update([feature("same", pair) for pair in pairs if any(place.startswith("case") for place in pair)])
        for field, held in fields.items():
            mine = dict(held).get("case")
            if mine is not None:
                seen.update([feature("unlike", field, name) for name, theirs in held if theirs != mine])
        self._seen, self._looked = list(seen), True

    def _show(self, record: str) -> RecordFeatures | None:
        kind, name = self._kind(record), self._name(record)
        if not self._belongs(record, kind, name):
            return None
        shown = RecordFeatures([], [], [])
        for field, value in self._records[record].items():
            if type(value) is int:
                shown.numbers.append((f"{name}.{field}", value))
            elif field != "id" and kind != "Policy":
                place, value_class = f"{name}.{field}", self._class(value)
                if value_class:
                    shown.features.append(feature(place, value_class))
                if value_class[:1].isupper():
                    shown.held.append((name, field, place, value))
        return shown

    def _belongs(self, record: str, kind: str, name: str) -> bool:
        return kind == "Approval" or name.startswith("case") or name.endswith("=") or (record in self._read and kind != "")

    def _class(self, value: Any) -> str:
        """Return the class of a value; empty for prose and lists. Classes of ids and codes begin with a capital."""
        if value is None or value == "":
            return "empty"
        if type(value) is not str:
            return str(value) if type(value) is bool else ""
        if kind := kind_of(value):
            return kind
        if _DATE.match(value):
            return "past" if value[:10] < self._today else "coming"
        if _WORD.fullmatch(value):
            return value
        if _CODE.fullmatch(value):
            return "Code"
        return "away" if value.startswith("away") else ""

    # -- names of records ----------------------------------------------------------------------------------------------

    def _kind(self, record: str) -> str:
        return kind_of(record) or ("ApprovalType" if record in self.told.forms else "")

    def _name(self, record: str) -> str:
        name = self._names.get(record)
        if name is None:
            name = self._names[record] = self._find_name(record, self._records.get(record, {}))
        return name

    def _find_name(self, record: str, shown: dict[str, Any]) -> str:
        if record == self._case:
            return "case"
        kind, case, met = self._kind(record), self._records.get(self._case, {}), self._met.get(record)
        same = " =" if case.get("reference") and shown.get("reference") == case["reference"] else ""
        if kind == "Person":
            return met if met is not None and shown.get("limit") is None else self._masked(shown.get("role", kind))
        if kind == "Policy":
            later = " later" if shown.get("since", "") > case.get("opened", "9") else ""
            return f"Policy {shown.get('title', kind).rsplit(': ', 1)[-1]} {shown.get('status')}{later}"
        if kind == "ApprovalType":
            return "form of the case" if record == case.get("kind") else "form"
        if kind == "Metric":
            return met or record.split(".")[0]
        if kind == "Entry":
            named = [f" {field}" for field, value in shown.items() if field != "id" and kind_of(str(value)) == kind]
            return f"Entry {shown.get('kind', '')}{''.join(named)}{same}"
        if kind == "Ticket":
            return met if met and not same else f"Ticket {shown.get('kind') == case.get('kind')}{same}"
        return kind

    def _masked(self, role: str) -> str:
        """Return an office with words of the case replaced by their place: `Head of (case.requester.department)`."""
        places = [(word, self._met.get(word, "")) for word in role.split()]
        return " ".join(f"({place})" if place.startswith("case.") else word for word, place in places)

    # -- candidates ----------------------------------------------------------------------------------------------------

    def candidates(self) -> tuple[Indices, NDArray[np.float32]]:
        """Return the type of each candidate and its prior, a log probability that makes all groups equally likely."""
        self._refresh()
        types: list[int] = []
        sizes: list[int] = []
        for group in self._groups.values():
            if group.types:
                types += group.types
                sizes.append(len(group.types))
        if sizes != self._sizes:
            self._sizes, self._prior = sizes, np.repeat(_LOGS[sizes], sizes)
        return np.array(types, np.int32), self._prior

    def call(self, number: int) -> Call:
        """Return the candidate with this number."""
        for group in self._groups.values():
            if number < len(group.argument_sets):
                return self.table.completed(group.tool, group.argument_sets[number])
            number -= len(group.argument_sets)
        raise IndexError(number)

    def keep_to(self, resolution: str, reason: str) -> None:
        """Offer only this ending from now on. Exams use it to compare a policy with the best constant ending."""
        self._only = {"resolution": resolution, "reason": reason}
        self._filled = False
        self._grown.add("text")

    def _refresh(self) -> None:
        """Update the candidates and their types, as far as something has changed."""
        groups = self._groups
        for group in groups.values() if self._grown or self._anew or self._refilled else ():
            rows = range(0)
            if not self._filled or not (group.closes or group.kinds.isdisjoint(self._grown)):
                argument_sets = [
                    arguments
                    for arguments in self.table.every(group.tool, group.field)
                    if not group.closes or self._open(arguments)
                ]
                if len(argument_sets) != len(group.argument_sets):
                    rows = group.fill(argument_sets)
                    self._offered |= group.rows.keys()
            if group.closes:
                if rows or "text" in self._grown:
                    self._look_at_endings(group)
            elif self._anew or group.field in self._refilled:
                self._assign_types(group, range(len(group.argument_sets)))
            elif rows:
                self._assign_types(group, rows)
        self._filled = True
        for value in () if self._anew else [value for value in self._stale if value in self._offered]:
            for group in groups.values():
                if value in group.rows:
                    self._assign_types(group, group.rows[value])
        for name, key in self._called:
            self._assign_types(groups[name], groups[name].rows.get(key, ()), described=True)
        self._grown.clear()
        self._stale.clear()
        self._refilled.clear()
        self._called.clear()
        self._anew = False

    def _assign_types(self, group: CandidateGroup, rows: Iterable[int], described: bool = False) -> None:
        """Find the types of some candidates. `described`: the descriptions of their arguments are up to date."""
        name, tried = group.name, self._tried
        for row in rows:
            if not described:
                group.descriptions[row] = self._describe(group, group.argument_sets[row])
            key = name, group.keys[row]
            group.types[row] = self._types.number(
                name, group.descriptions[row], self._outcome(key) if key in tried else "never"
            )

    def _look_at_endings(self, group: CandidateGroup) -> None:
        """Describe the endings by the texts read so far: whether a text names them and says what to cite."""
        read = texts(self.told)
        named = frozenset[tuple[str, str]]().union(*map(_endings_in, read))
        cited = frozenset[str]().union(*map(asked_for, read))
        endings = tuple((arguments["resolution"], arguments["reason"]) for arguments in group.argument_sets)
        group.descriptions = list(_describe_endings(endings, named, cited))
        group.types = [self._types.number(CLOSING, words, "never") for words in group.descriptions]
        self._called |= dict.fromkeys(key for key in self._tried if key[0] == group.name)

    def _open(self, arguments: dict[str, Any]) -> bool:
        return self._only.items() <= arguments.items()

    def _outcome(self, key: tuple[str, str]) -> str:
        outcome, when = self._tried[key]
        if key == self._last:
            return f"just {outcome}"
        return f"once {outcome}" if when < self._changed else outcome

    def _describe(self, group: CandidateGroup, arguments: dict[str, Any]) -> tuple[str, ...]:
        """Return the words that describe the arguments of a candidate, the most telling first."""
        if group.field:
            return (*self._describe_value(arguments["value"]), self._beside(group.field, arguments["value"]))
        words: tuple[str, ...] = ()
        for argument, value in arguments.items():
            if argument == "role":
                words += (self._masked(value),)
            elif argument == "query":
                words += (self._met.get(value) or ("kind" if value in self._kind_of_work() else "topic"),)
            elif type(value) is not str:
                words += (str(value),)
            elif value != self._case and argument not in _PROSE:
                words += self._describe_value(value)
        return words

    def _kind_of_work(self) -> list[str]:
        return str(self._records.get(self._case, {}).get("kind", "")).split("_")

    def _beside(self, field: str, value: str) -> str:
        """Compare what a field of the case holds with a value that it could be set to."""
        case = self._records.get(self._case, {})
        holds = case.get(field)
        return "unseen" if field not in case else "empty" if holds is None else "same" if holds == value else "other"

    def _describe_value(self, value: str) -> tuple[str, ...]:
        """Return the words that describe an id, a code or a word."""
        words = self._descriptions.get(value)
        if words is None:
            words = self._descriptions[value] = self._make_description(value)
        return words

    def _make_description(self, value: str) -> tuple[str, ...]:
        if not self._kind(value):
            return (self._met.get(value) or self._class(value),)
        shown = self._records.get(value)
        if shown is None:
            return (self._name(value), "unheard")
        words = [self._name(value), "read" if value in self._read else "line"]
        words += [f"{field} {self._class(shown[field])}" for field in ("status", "presence") if field in shown]
        case = self._records.get(self._case, {})
        sum_of_case, limit = case.get("amount"), shown.get("limit")
        if sum_of_case is not None and limit is not None:
            words.append("covers" if limit >= sum_of_case else "does not cover")
        words += [f"at {field}" for field, held in case.items() if held == value and field != "id"][:1]
        return tuple(words)


_PROSE = ("text", "reason")
_LOGS = -np.log(np.maximum(np.arange(4096, dtype=np.float32), 1))


@lru_cache(maxsize=4096)
def _compared(numbers: tuple[tuple[str, int], ...]) -> list[int]:
    """Return a feature for each comparable pair of numbers: which of the two is larger."""
    pairs = combinations(numbers, 2)
    return [
        feature(one, other, (low > high) - (low < high)) for (one, low), (other, high) in pairs if _comparable(one, other)
    ]


@cache
def _comparable(one: str, other: str) -> bool:
    """Return whether a comparison of two numbers can matter: one belongs to the case or was measured, and the other
    belongs to another record or is a maximum age."""
    of_case = [place.startswith("case.") and place.count(".") == 1 for place in (one, other)]
    measured = [place.endswith((".value", ".age_days")) for place in (one, other)]
    apart = one.rsplit(".", 1)[0] != other.rsplit(".", 1)[0] or "max_age_days" in one + other
    return apart and (any(of_case) or any(measured)) and not all(measured)


@lru_cache(maxsize=1024)
def _endings_in(text: str) -> frozenset[tuple[str, str]]:
    """Return the endings that a text names as a pair: `declined, below_minimum`."""
    return frozenset(re.findall(r"(\w+), (\w+)", text))


@lru_cache(maxsize=1024)
def _describe_endings(
    endings: tuple[tuple[str, str], ...], named: frozenset[tuple[str, str]], cited: frozenset[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the words that describe each ending."""
    return tuple((" ".join(pair), f"named {pair in named}", f"evidence {pair[1] in cited}") for pair in endings)
