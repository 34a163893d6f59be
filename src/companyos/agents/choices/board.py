"""The board: hashed features of an episode so far, and the calls that could come next, for a small learner.

All features come from the brief and the replies, and mean the same in every family: `case_view` describes records without
their ids. The learner has to find out what the features mean for the work.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from companyos.agents.choices.candidate_types import CandidateTypes, Indices
from companyos.agents.choices.candidates import Candidates
from companyos.agents.choices.case_view import CaseView
from companyos.agents.choices.evidence import reasons_with_clause, texts
from companyos.agents.choices.features import RecordFeatures, combined_features, feature, record_features
from companyos.agents.choices.group import CandidateGroup, groups_of, key_of, name_of
from companyos.company import Tool, toolbox_of
from companyos.core.calls import NO_ANSWER, OK, Call, Reply
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation

CLOSING = "resolve_ticket"
_NAMING_FIELDS = ("reference", "kind", "opened", "amount", "requester")  # of the case; other records' names depend on them
_MAX_CODE = 50  # characters of a name or a code; longer text is prose
_PROSE_ARGUMENTS = ("text", "reason")
_MINUS_LOG = -np.log(np.maximum(np.arange(4096, dtype=np.float32), 1))  # by number: the log probability of one choice of n


class Board:
    """The features and the candidate calls of one episode. It updates them only when somebody asks for them."""

    def __init__(self, obs: Observation, types: CandidateTypes) -> None:
        self._types = types
        self._toolbox = toolbox_of(obs.scene.offered)
        self.knowledge = Knowledge(obs.task)  # `obs.task` is the text of the brief
        self.table = Candidates(self.knowledge, self._toolbox)
        self._view = CaseView(self.knowledge, next(iter(self.table.own_tickets), ""), obs.now[4:14])
        self._step = obs.step
        self._max_steps = obs.max_steps
        # Features.
        self._call_features: dict[int, None] = {}  # of calls that were answered
        self._record_features: dict[str, RecordFeatures | None] = {}  # by record; a cache
        self._all_record_features: list[int] = []
        self._features_current = True  # whether `_all_record_features` is up to date
        # Calls that were made. A call is identified by the name of its group and by its key.
        self._outcomes: dict[tuple[str, str], tuple[str, int]] = {}  # how the call ended last, and at which step
        self._last_call: tuple[str, str] = ("", "")
        self._last_code = OK
        self._last_change = -1  # the step of the last write or wait
        # Candidates.
        self._groups = {group.name: group for group in groups_of(self._toolbox)}
        self._groups_filled = False
        self._candidate_values: set[str] = set()  # values that occur in candidates
        self._only_ending: dict[str, str] = {}  # the only resolution and reason to offer, if not empty
        self._group_sizes: list[int] = []
        self._prior = _MINUS_LOG[:0]
        # What has changed since the candidates were updated. Dicts and not sets where types get their numbers from it,
        # because these numbers must come in the same order in every process.
        self._events: set[str] = set()  # that add candidates: see `CandidateGroup.events`
        self._stale_values: dict[str, None] = {}  # ids and codes that need new descriptions
        self._changed_fields: set[str] = set()  # fields of the case
        self._all_stale = True  # everything needs new descriptions
        self._changed_outcomes: dict[tuple[str, str], None] = {}  # calls whose outcome has changed

    def fork(self) -> "Board":
        """Return an independent copy."""
        fork = Board.__new__(Board)
        fork.__dict__.update(self.__dict__)
        fork.knowledge = self.knowledge.fork()
        fork.table = self.table.with_knowledge(fork.knowledge)
        fork._view = self._view.fork(fork.knowledge)
        fork._call_features, fork._record_features = self._call_features.copy(), self._record_features.copy()
        fork._outcomes, fork._changed_outcomes = self._outcomes.copy(), self._changed_outcomes.copy()
        fork._groups = {name: group.fork() for name, group in self._groups.items()}
        fork._candidate_values, fork._events = self._candidate_values.copy(), self._events.copy()
        fork._stale_values, fork._changed_fields = self._stale_values.copy(), self._changed_fields.copy()
        return fork

    # -- taking in replies ---------------------------------------------------------------------------------------------

    def hear(self, call: Call, obs: Observation) -> None:
        """Take in a call and its reply. `features` and `candidates` do the rest of the work when they are called."""
        reply, today = obs.reply, obs.now[4:14]
        if today != self._view.today:  # a coming date may be past now
            self._record_features.clear()
            self._features_current = False
        self._step, self._view.today, self._last_code = obs.step, today, reply.code
        tool = self._toolbox.find(call)
        known = {kind: len(ids) for kind, ids in self.knowledge.ids.items()}
        self.knowledge.hear(reply)
        self._events |= {kind.__name__ for kind, ids in self.knowledge.ids.items() if len(ids) != known.get(kind)}
        if reply.ok and tool is not None:
            self._take_records(reply.data, tool)
        self._remember_outcome(call, reply, tool)

    def _take_records(self, data: Any, tool: Tool) -> None:
        """Take in the records of a reply."""
        if not isinstance(data, dict):
            return
        rows = data.get("rows")
        if rows is None:
            rows = data.get("arrived")
        is_one_record = rows is None and "id" in data
        view = self._view
        for row in (data,) if is_one_record else rows or ():
            record = row.get("id")
            if not isinstance(record, str):
                continue
            before = view.records.get(record)
            if is_one_record and not tool.writes and record not in view.read:
                view.read.add(record)
            elif before is not None and all(before.get(field, row) == value for field, value in row.items()):
                continue
            view.records[record] = row if before is None else before | row
            self._features_current = False
            self._events.add(f"{view.kind(record)} shown")
            self._forget(record)
            if record == view.case_id:
                self._note_changes_of_case(before or {}, row)
            if is_one_record or record == view.case_id:
                self._note_places(record, row)

    def _note_changes_of_case(self, before: dict[str, Any], shown: dict[str, Any]) -> None:
        """Mark as stale the changed fields of the case and the values in them, or everything if names depend on a field."""
        for field, value in shown.items():
            old_value = before.get(field, shown)  # `shown` itself equals no value, so a new field counts as changed
            if old_value != value:
                self._changed_fields.add(field)
                self._all_stale = self._all_stale or field in _NAMING_FIELDS
                for changed in (old_value, value):
                    if type(changed) is str:
                        self._forget(changed)

    def _note_places(self, record: str, shown: dict[str, Any]) -> None:
        """Remember the place where each id and each code was first seen: names are made of it."""
        view = self._view
        name = view.name(record)
        if name.count(".") > 1:  # too far from the case for the path to matter
            name = view.kind(record)
        for field, value in shown.items():
            if type(value) is str and value not in view.places and field != "id" and len(value) < _MAX_CODE:
                view.places[value] = f"{name}.{field}"
                self._forget(value)
                self._all_stale = self._all_stale or name.startswith("case")
        if self._all_stale:
            view.forget_all()
            self._record_features.clear()
            self._events.add("case")
        if "text" in shown:
            self._events.add("text")

    def _forget(self, value: str) -> None:
        """Drop everything that was derived from an id or a code."""
        self._view.forget(value)
        self._record_features.pop(value, None)
        self._stale_values[value] = None

    def _remember_outcome(self, call: Call, reply: Reply, tool: Tool | None) -> None:
        """Remember how a call ended."""
        if tool is None:
            return
        group, key = name_of(tool, call.params.get("field", "")), key_of(call.params)
        if self._last_call[0]:
            self._changed_outcomes[self._last_call] = None
        self._last_call = group, key
        self._changed_outcomes[self._last_call] = None
        self._outcomes[group, key] = "ok" if reply.ok else "silence" if reply.code == NO_ANSWER else "refused", self._step
        if not reply.ok:
            return
        if tool.writes or tool.method == "wait":
            self._last_change = self._step
            self._changed_outcomes |= dict.fromkeys(self._outcomes)
        codes = [value for value in call.params.values() if type(value) is str and len(value) < _MAX_CODE]
        arguments = tuple(self._view.describe(code)[0] for code in codes)
        self._call_features[feature("did", group, arguments)] = None
        if isinstance(reply.data, dict):
            if "total" in reply.data:
                self._call_features[feature("found", group, arguments, min(reply.data["total"], 3))] = None
            for letter in reply.data.get("arrived", ()):
                self._call_features[feature("letter", letter["topic"])] = None

    # -- features ------------------------------------------------------------------------------------------------------

    def features(self) -> Indices:
        """Return the numbers of the binary features that are 1."""
        if not self._features_current:
            self._update_record_features()
        third = min(2, 3 * self._step // self._max_steps)  # of the budget of steps
        general = (
            feature("always"),
            feature("code", self._last_code),
            feature("last", self._last_call[0], self._last_code),
            feature("third", third),
        )
        return np.array(list({*general, *self._call_features, *self._all_record_features}), np.int32)

    def _update_record_features(self) -> None:
        """Collect the features of the records that belong to the case."""
        for record in self._view.records:
            if record not in self._record_features:
                self._record_features[record] = record_features(self._view, record)
        by_record = (self._record_features[record] for record in self._view.records)
        self._all_record_features = combined_features(features for features in by_record if features is not None)
        self._features_current = True

    # -- candidates ----------------------------------------------------------------------------------------------------

    def candidates(self) -> tuple[Indices, NDArray[np.float32]]:
        """Return the type of each candidate and its prior, a log probability that makes all groups equally likely."""
        self._update_candidates()
        types: list[int] = []
        sizes: list[int] = []
        for group in self._groups.values():
            if group.types:
                types += group.types
                sizes.append(len(group.types))
        if sizes != self._group_sizes:
            self._group_sizes, self._prior = sizes, np.repeat(_MINUS_LOG[sizes], sizes)
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
        self._only_ending = {"resolution": resolution, "reason": reason}
        self._groups_filled = False
        self._events.add("text")

    def _update_candidates(self) -> None:
        """Update the candidates and their types, as far as something has changed."""
        groups = self._groups
        if self._events or self._all_stale or self._changed_fields:
            for group in groups.values():
                self._update_group(group)
        self._groups_filled = True
        if not self._all_stale:
            for value in [value for value in self._stale_values if value in self._candidate_values]:
                for group in groups.values():
                    if value in group.rows:
                        self._assign_types(group, group.rows[value])
        for name, key in self._changed_outcomes:
            self._assign_types(groups[name], groups[name].rows.get(key, ()), described=True)
        self._events.clear()
        self._stale_values.clear()
        self._changed_fields.clear()
        self._changed_outcomes.clear()
        self._all_stale = False

    def _update_group(self, group: CandidateGroup) -> None:
        """Add new candidates to a group, and find the types of those that are new or stale."""
        new_rows = range(0)
        if not self._groups_filled or not (group.closes or group.events.isdisjoint(self._events)):
            argument_sets = self.table.argument_sets(group.tool, group.field)
            if group.closes:
                argument_sets = [arguments for arguments in argument_sets if self._only_ending.items() <= arguments.items()]
            if len(argument_sets) != len(group.argument_sets):
                new_rows = group.fill(argument_sets)
                self._candidate_values |= group.rows.keys()
        if group.closes:
            if new_rows or "text" in self._events:
                self._assign_types_of_endings(group)
        elif self._all_stale or group.field in self._changed_fields:
            self._assign_types(group, range(len(group.argument_sets)))
        elif new_rows:
            self._assign_types(group, new_rows)

    def _assign_types(self, group: CandidateGroup, rows: Iterable[int], described: bool = False) -> None:
        """Find the types of the candidates in some rows. `described`: the descriptions of their arguments are up to date."""
        name, outcomes = group.name, self._outcomes
        for row in rows:
            if not described:
                group.descriptions[row] = self._describe(group, group.argument_sets[row])
            key = name, group.keys[row]
            group.types[row] = self._types.number(
                name, group.descriptions[row], self._describe_outcome(key) if key in outcomes else "never"
            )

    def _assign_types_of_endings(self, group: CandidateGroup) -> None:
        """Describe the endings by the texts read so far: whether a text names them and says what to cite."""
        policy_texts = texts(self.knowledge)
        named = frozenset[tuple[str, str]]().union(*map(_endings_in, policy_texts))
        cited = frozenset[str]().union(*map(reasons_with_clause, policy_texts))
        endings = tuple((arguments["resolution"], arguments["reason"]) for arguments in group.argument_sets)
        group.descriptions = list(_describe_endings(endings, named, cited))
        group.types = [self._types.number(CLOSING, words, "never") for words in group.descriptions]
        self._changed_outcomes |= dict.fromkeys(key for key in self._outcomes if key[0] == group.name)

    def _describe_outcome(self, key: tuple[str, str]) -> str:
        """Return how a call ended, and whether it was the last call or something has changed since."""
        outcome, step = self._outcomes[key]
        if key == self._last_call:
            return f"just {outcome}"
        return f"once {outcome}" if step < self._last_change else outcome

    def _describe(self, group: CandidateGroup, arguments: dict[str, Any]) -> tuple[str, ...]:
        """Return the words that describe the arguments of a candidate, the most telling first."""
        view = self._view
        if group.field:
            return (*view.describe(arguments["value"]), view.compare(group.field, arguments["value"]))
        words: tuple[str, ...] = ()
        for argument, value in arguments.items():
            if argument == "role":
                words += (view.masked(value),)
            elif argument == "query":
                kind_of_work = str(view.case.get("kind", "")).split("_")
                words += (view.places.get(value) or ("kind" if value in kind_of_work else "topic"),)
            elif type(value) is not str:
                words += (str(value),)
            elif value != view.case_id and argument not in _PROSE_ARGUMENTS:
                words += view.describe(value)
        return words


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
