"""Notice board: what was replied so far and what could be called next, as numbers that mean the same in every family.

Everything on it comes from the brief and the replies. A record is called by where it was met (`case.requester`), by its kind
and by how it hangs together with the ticket of the brief (`Entry vendor =`: the same reference), never by its id.
Of a value the board keeps a class: empty, a kind of record, a date past or to come, a word; of two numbers which is larger;
of two ids whether they are the same. What these things mean for the work is for the learner to find out.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from companyos.agents.choices.candidates import Candidates
from companyos.agents.choices.evidence import asked_for, texts
from companyos.agents.choices.group import Group, groups_of, key_of, name_of
from companyos.agents.choices.sorts import Indices, Sorts
from companyos.company import KINDS, Tool, toolbox_of
from companyos.core.calls import NO_ANSWER, OK, Call, Reply
from companyos.env.knowledge import Told
from companyos.env.observations import Observation

NOTICES = 1 << 16  # numbers that a board can have: hashed, so that hardly two share one

_KIND_OF = re.compile("|".join(f"(?P<{kind.__name__}>{kind.pattern})" for kind in KINDS if kind.pattern))
_WORD = re.compile(r"[a-z][a-z_ ]{0,24}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CODE = re.compile(r"[A-Z]+-\d+")
_NAMING = ("reference", "kind", "opened", "amount", "requester")  # fields of the case that others are called by
CLOSING = "resolve_ticket"
_LONGEST = 50  # letters of what is a name or a code; more is prose


@cache
def notice(*words: object) -> int:
    return crc32(repr(words).encode()) % NOTICES


@lru_cache(maxsize=65536)
def kind_of(text: str) -> str:
    """The kind of record that an id points at; nothing for other text."""
    found = _KIND_OF.fullmatch(text)
    return found.lastgroup or "" if found else ""


class Shown(NamedTuple):
    """What a record that belongs to the case shows: notices, numbers by place, ids and codes with name, field and place."""

    notices: list[int]
    numbers: list[tuple[str, int]]
    held: list[tuple[str, str, str, str]]


class Board:
    """The notice board of one episode."""

    def __init__(self, obs: Observation, sorts: Sorts) -> None:
        self._sorts = sorts
        self.told = Told(obs.task)
        self._toolbox = toolbox_of(obs.scene.offered)
        self.table = Candidates(self.told, self._toolbox)
        self._case = next(iter(self.table.own), "")
        self._records: dict[str, dict[str, Any]] = {}
        self._read: set[str] = set()  # what was shown by itself, not only as a line of a list
        self._names: dict[str, str] = {}
        self._met: dict[str, str] = {}  # where an id or a code first stood
        self._said: dict[str, tuple[str, ...]] = {}  # of ids and codes
        self._done: dict[int, None] = {}  # notices of calls that were answered
        self._shown: dict[str, Shown | None] = {}  # by record, where it was looked at
        self._seen: list[int] = []  # notices of records
        self._tried: dict[tuple[str, str], tuple[str, int]] = {}  # what became of a call, and when
        self._changed = -1  # when something was last written, or time passed
        self._last: tuple[str, str] = ("", "")
        self._step = obs.step
        self._today = obs.now[4:14]
        self._max_steps = obs.max_steps
        self._code = OK
        self._filled = False
        self._grown: set[str] = set()  # of which kinds there are more ids, and what else is new
        # Dicts in place of sets, so that sorts get their numbers in the same order in every process.
        self._stale: dict[str, None] = {}  # values of which something else is to be said …
        self._refilled: set[str] = set()  # … or beside these fields of the case …
        self._anew = True  # … or of all
        self._called: dict[tuple[str, str], None] = {}  # groups with keys that something else has become of
        self._looked = True
        self._offered: set[str] = set()  # values that stand in any candidate
        self._only: dict[str, str] = {}
        self._sizes: list[int] = []
        self._prior = _LOGS[:0]
        self._groups = {group.name: group for group in groups_of(self._toolbox)}

    def fork(self) -> "Board":
        """An independent copy."""
        twin = Board.__new__(Board)
        twin.__dict__.update(self.__dict__)
        twin.told = self.told.fork()
        twin.table = self.table.about(twin.told)
        twin._records, twin._names, twin._met = self._records.copy(), self._names.copy(), self._met.copy()
        twin._read, twin._said, twin._done = self._read.copy(), self._said.copy(), self._done.copy()
        twin._tried, twin._stale, twin._grown = self._tried.copy(), self._stale.copy(), self._grown.copy()
        twin._refilled, twin._called, twin._shown = self._refilled.copy(), self._called.copy(), self._shown.copy()
        twin._offered = self._offered.copy()
        twin._groups = {name: group.fork() for name, group in self._groups.items()}
        return twin

    # -- what is heard -------------------------------------------------------------------------------------------------

    def hear(self, call: Call, obs: Observation) -> None:
        """Takes in a call and what came of it. What there is to choose from then, `notices` and `candidates` find out."""
        reply, today = obs.reply, obs.now[4:14]
        if today != self._today:  # what was to come may be past
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
        """Takes in the records of a reply."""
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
        """Says anew what is said of the case's fields and of what they hold; of everything, where names hang on it."""
        for field, value in shown.items():
            held = before.get(field, shown)
            if held != value:
                self._refilled.add(field)
                self._anew = self._anew or field in _NAMING
                for one in (held, value):
                    if type(one) is str:
                        self._forget(one)

    def _meet(self, record: str, shown: dict[str, Any]) -> None:
        """Keeps where each id and each code was met first: they are called by it, and so may others be."""
        name = self._name(record)
        if name.count(".") > 1:  # so far off that it does not matter from where
            name = self._kind(record)
        for field, value in shown.items():
            if type(value) is str and value not in self._met and field != "id" and len(value) < _LONGEST:
                self._met[value] = f"{name}.{field}"
                self._forget(value)
                self._anew = self._anew or name.startswith("case")
        if self._anew:
            self._names.clear()
            self._said.clear()
            self._shown.clear()
            self._grown.add("case")
        if "text" in shown:
            self._grown.add("text")

    def _forget(self, value: str) -> None:
        self._names.pop(value, None)
        self._said.pop(value, None)
        self._shown.pop(value, None)
        self._stale[value] = None

    def _remember(self, call: Call, reply: Reply, tool: Tool | None) -> None:
        """Keeps what became of a call."""
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
        about = tuple(self._say(value)[0] for value in call.params.values() if type(value) is str and len(value) < _LONGEST)
        self._done[notice("did", group, about)] = None
        if isinstance(reply.data, dict):
            if "total" in reply.data:
                self._done[notice("found", group, about, min(reply.data["total"], 3))] = None
            for letter in reply.data.get("arrived", ()):
                self._done[notice("letter", letter["topic"])] = None

    # -- what stands on it ---------------------------------------------------------------------------------------------

    def notices(self) -> Indices:
        """The numbers of the board that are 1; all others are 0."""
        if not self._looked:
            self._look()
        third = min(2, 3 * self._step // self._max_steps)
        last = self._last[0]
        now = (notice("always"), notice("code", self._code), notice("last", last, self._code), notice("third", third))
        return np.array(list({*now, *self._done, *self._seen}), np.int32)

    def _look(self) -> None:
        """Reads off the records that belong to the case what they show."""
        seen: set[int] = set()
        numbers: dict[str, int] = {}
        holders: dict[str, list[str]] = {}
        fields: dict[str, list[tuple[str, str]]] = {}
        for record in self._records:
            if record not in self._shown:
                self._shown[record] = self._show(record)
            shown = self._shown[record]
            if shown is not None:
                seen.update(shown.notices)
                numbers.update(shown.numbers)
                for name, field, place, value in shown.held:
                    holders.setdefault(value, []).append(place)
                    fields.setdefault(field, []).append((name, value))
        seen.update(_compared(tuple(sorted(numbers.items()))))
        for places in holders.values():
            if len(places) > 1:
                pairs = combinations(sorted(places), 2)
                seen.update([notice("same", pair) for pair in pairs if any(place.startswith("case") for place in pair)])
        for field, held in fields.items():
            mine = dict(held).get("case")
            if mine is not None:
                seen.update([notice("unlike", field, name) for name, theirs in held if theirs != mine])
        self._seen, self._looked = list(seen), True

    def _show(self, record: str) -> Shown | None:
        kind, name = self._kind(record), self._name(record)
        if not self._belongs(record, kind, name):
            return None
        shown = Shown([], [], [])
        for field, value in self._records[record].items():
            if type(value) is int:
                shown.numbers.append((f"{name}.{field}", value))
            elif field != "id" and kind != "Policy":
                place, sort = f"{name}.{field}", self._class(value)
                if sort:
                    shown.notices.append(notice(place, sort))
                if sort[:1].isupper():
                    shown.held.append((name, field, place, value))
        return shown

    def _belongs(self, record: str, kind: str, name: str) -> bool:
        return kind == "Approval" or name.startswith("case") or name.endswith("=") or (record in self._read and kind != "")

    def _class(self, value: Any) -> str:
        """What is kept of a value; nothing of prose and lists. That of an id or a code has a capital."""
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

    # -- how records are called ----------------------------------------------------------------------------------------

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
        """An office, with what the case says of its people in place of the word: `Head of (case.requester.department)`."""
        places = [(word, self._met.get(word, "")) for word in role.split()]
        return " ".join(f"({place})" if place.startswith("case.") else word for word, place in places)

    # -- what could be called ------------------------------------------------------------------------------------------

    def candidates(self) -> tuple[Indices, NDArray[np.float32]]:
        """The sort of each candidate, and what speaks for it beforehand: every group is as likely as the next."""
        self._refresh()
        sorts: list[int] = []
        sizes: list[int] = []
        for group in self._groups.values():
            if group.sorts:
                sorts += group.sorts
                sizes.append(len(group.sorts))
        if sizes != self._sizes:
            self._sizes, self._prior = sizes, np.repeat(_LOGS[sizes], sizes)
        return np.array(sorts, np.int32), self._prior

    def call(self, number: int) -> Call:
        """The candidate with this number."""
        for group in self._groups.values():
            if number < len(group.ways):
                return self.table.completed(group.tool, group.ways[number])
            number -= len(group.ways)
        raise IndexError(number)

    def keep_to(self, resolution: str, reason: str) -> None:
        """From now on there is but one ending to choose: for comparison with whoever has a choice."""
        self._only = {"resolution": resolution, "reason": reason}
        self._filled = False
        self._grown.add("text")

    def _refresh(self) -> None:
        """Looks anew at what there is to choose from, and at what is to be said of it, as far as that is another now."""
        groups = self._groups
        for group in groups.values() if self._grown or self._anew or self._refilled else ():
            rows = range(0)
            if not self._filled or not (group.closes or group.kinds.isdisjoint(self._grown)):
                ways = [way for way in self.table.every(group.tool, group.field) if not group.closes or self._open(way)]
                if len(ways) != len(group.ways):
                    rows = group.fill(ways)
                    self._offered |= group.rows.keys()
            if group.closes:
                if rows or "text" in self._grown:
                    self._look_at_endings(group)
            elif self._anew or group.field in self._refilled:
                self._sort(group, range(len(group.ways)))
            elif rows:
                self._sort(group, rows)
        self._filled = True
        for value in () if self._anew else [value for value in self._stale if value in self._offered]:
            for group in groups.values():
                if value in group.rows:
                    self._sort(group, group.rows[value])
        for name, key in self._called:
            self._sort(groups[name], groups[name].rows.get(key, ()), said=True)
        self._grown.clear()
        self._stale.clear()
        self._refilled.clear()
        self._called.clear()
        self._anew = False

    def _sort(self, group: Group, rows: Iterable[int], said: bool = False) -> None:
        """Finds the sorts of some candidates. `said`: what is said of their arguments is what it was."""
        name, tried = group.name, self._tried
        for row in rows:
            if not said:
                group.said[row] = self._said_of(group, group.ways[row])
            key = name, group.keys[row]
            group.sorts[row] = self._sorts.number(name, group.said[row], self._outcome(key) if key in tried else "never")

    def _look_at_endings(self, group: Group) -> None:
        """What the texts one has read say of the endings: which they name, and what to cite for them."""
        read = texts(self.told)
        named = frozenset[tuple[str, str]]().union(*map(_endings_in, read))
        cited = frozenset[str]().union(*map(asked_for, read))
        said = _said_of_endings(tuple((way["resolution"], way["reason"]) for way in group.ways), named, cited)
        group.said = list(said)
        group.sorts = [self._sorts.number(CLOSING, words, "never") for words in said]
        self._called |= dict.fromkeys(key for key in self._tried if key[0] == group.name)

    def _open(self, way: dict[str, Any]) -> bool:
        return self._only.items() <= way.items()

    def _outcome(self, key: tuple[str, str]) -> str:
        outcome, when = self._tried[key]
        if key == self._last:
            return f"just {outcome}"
        return f"once {outcome}" if when < self._changed else outcome

    def _said_of(self, group: Group, way: dict[str, Any]) -> tuple[str, ...]:
        """What is to be said of a candidate by its arguments, the most telling first."""
        if group.field:
            return (*self._say(way["value"]), self._beside(group.field, way["value"]))
        said: tuple[str, ...] = ()
        for argument, value in way.items():
            if argument == "role":
                said += (self._masked(value),)
            elif argument == "query":
                said += (self._met.get(value) or ("kind" if value in self._kind_of_work() else "topic"),)
            elif type(value) is not str:
                said += (str(value),)
            elif value != self._case and argument not in _PROSE:
                said += self._say(value)
        return said

    def _kind_of_work(self) -> list[str]:
        return str(self._records.get(self._case, {}).get("kind", "")).split("_")

    def _beside(self, field: str, value: str) -> str:
        """What the case's field holds, beside what it could be set to."""
        case = self._records.get(self._case, {})
        holds = case.get(field)
        return "unseen" if field not in case else "empty" if holds is None else "same" if holds == value else "other"

    def _say(self, value: str) -> tuple[str, ...]:
        """What is to be said of an id, a code or a word."""
        said = self._said.get(value)
        if said is None:
            said = self._said[value] = self._find_words(value)
        return said

    def _find_words(self, value: str) -> tuple[str, ...]:
        if not self._kind(value):
            return (self._met.get(value) or self._class(value),)
        shown = self._records.get(value)
        if shown is None:
            return (self._name(value), "unheard")
        said = [self._name(value), "read" if value in self._read else "line"]
        said += [f"{field} {self._class(shown[field])}" for field in ("status", "presence") if field in shown]
        case = self._records.get(self._case, {})
        sum_of_case, limit = case.get("amount"), shown.get("limit")
        if sum_of_case is not None and limit is not None:
            said.append("covers" if limit >= sum_of_case else "does not cover")
        said += [f"at {field}" for field, held in case.items() if held == value and field != "id"][:1]
        return tuple(said)


_PROSE = ("text", "reason")
_LOGS = -np.log(np.maximum(np.arange(4096, dtype=np.float32), 1))


@lru_cache(maxsize=4096)
def _compared(numbers: tuple[tuple[str, int], ...]) -> list[int]:
    """Which of two numbers is larger, wherever that may mean something."""
    pairs = combinations(numbers, 2)
    return [
        notice(one, other, (low > high) - (low < high)) for (one, low), (other, high) in pairs if _comparable(one, other)
    ]


@cache
def _comparable(one: str, other: str) -> bool:
    """Whether it may mean something which of two numbers is larger: one is the case's own or was measured, and the other is
    another's, or how old a measurement may be."""
    of_case = [place.startswith("case.") and place.count(".") == 1 for place in (one, other)]
    measured = [place.endswith((".value", ".age_days")) for place in (one, other)]
    apart = one.rsplit(".", 1)[0] != other.rsplit(".", 1)[0] or "max_age_days" in one + other
    return apart and (any(of_case) or any(measured)) and not all(measured)


@lru_cache(maxsize=1024)
def _endings_in(text: str) -> frozenset[tuple[str, str]]:
    """The endings that a text names in one breath: `declined, below_minimum`."""
    return frozenset(re.findall(r"(\w+), (\w+)", text))


@lru_cache(maxsize=1024)
def _said_of_endings(
    endings: tuple[tuple[str, str], ...], named: frozenset[tuple[str, str]], cited: frozenset[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the words that describe each ending."""
    return tuple((" ".join(one), f"named {one in named}", f"evidence {one[1] in cited}") for one in endings)
