"""Memory: experts who know the rulebook from other companies and therefore do not read it here.

The texts of the policies are the same in every company of a family; only the numbers in their terms are drawn with the seed.
So an agent that has seen other seeds knows every rule, and typical numbers. These agents measure how much of a family that
is enough for.
"""

from collections import Counter, defaultdict
from functools import lru_cache
from statistics import median_low
from typing import Any

import msgspec

from companyos.agents.adversaries.careless import Careless, Desk, Habit, Steered
from companyos.company import Policy
from companyos.core.calls import OK, Call, Reply
from companyos.core.errors import Stuck
from companyos.env import make

SEEDS = range(100)  # of the validation split, from which memory is made

CHANGELOG = "Changelog"  # stands in the title of the list of changes to forms

Version = tuple[str, int]  # a title, and which of the policies of this title it is, the oldest first


class Remembered(msgspec.Struct, frozen=True):
    """What is known of one version of a policy from other companies."""

    text: str
    terms: dict[str, int]


@lru_cache(maxsize=32)
def rulebook(family: str) -> dict[Version, Remembered]:
    """The policies of a family's companies, with the typical number of each term."""
    texts: dict[Version, str] = {}
    numbers: dict[Version, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for seed in SEEDS:
        policies = sorted(make(family, seed=seed, split="validation").setting.world.all(Policy), key=lambda p: p.since)
        met: Counter[str] = Counter()
        for policy in policies:
            version = policy.title, met[policy.title]
            met[policy.title] += 1
            texts.setdefault(version, policy.text)
            for name, value in policy.terms.items():
                numbers[version][name].append(value)
    return {
        version: Remembered(text, {name: _typical(values) for name, values in numbers[version].items()})
        for version, text in texts.items()
    }


def _typical(values: list[int]) -> int:
    """The most frequent number; of equally frequent ones the one nearest to the median."""
    counts, middle = Counter(values), median_low(values)
    return min(counts, key=lambda value: (-counts[value], abs(value - middle), value))


class Shelf:
    """The policies that searches have listed: their titles, dates and ids, and so which remembered version each is.

    The changelog of the forms is listed among them. It states no rule, and another company's changelog does not
    tell what changed here. So it is not recalled: the agent opens it when it needs it.
    """

    def __init__(self) -> None:
        self._listed: dict[str, dict[str, Any]] = {}

    def hear(self, reply: Reply) -> None:
        self._listed |= {row["id"]: row for row in reply.data["rows"]}

    def is_changelog(self, policy_id: str) -> bool:
        return CHANGELOG in self._listed[policy_id]["title"]

    def recall(self, family: str, policy_id: str) -> dict[str, Any]:
        """A listed policy as memory has it."""
        row, book = self._listed[policy_id], rulebook(family)
        title = row["title"]
        alike = sorted((other for other in self._listed.values() if other["title"] == title), key=_since)
        # A version that came after all remembered ones is taken to be like the last of these.
        versions = [book[title, rank] for rank in range(len(alike)) if (title, rank) in book]
        if not versions:
            raise Stuck(f"no other company had a policy called {title}")
        known = versions[min(alike.index(row), len(versions) - 1)]
        return {**row, "text": known.text, **known.terms}


def _since(row: dict[str, Any]) -> str:
    return str(row["since"])


def recites_policies() -> Habit:
    """Never opens a policy: searches list their ids, memory has their texts and typical numbers."""
    shelf = Shelf()

    def habit(desk: Desk, call: Call) -> Steered:
        if call.method == "read_policy" and not shelf.is_changelog(call.params["policy_id"]):
            return Reply(True, OK, shelf.recall(desk.family, call.params["policy_id"]))
        reply = yield call
        if call.method == "search_policies" and reply.ok:
            shelf.hear(reply)
        return reply

    return habit


def reads_numbers_only() -> Habit:
    """Opens policies for the numbers in their terms; their texts come from memory."""
    shelf = Shelf()

    def habit(desk: Desk, call: Call) -> Steered:
        reply = yield call
        if call.method == "search_policies" and reply.ok:
            shelf.hear(reply)
        if call.method != "read_policy" or not reply.ok or shelf.is_changelog(call.params["policy_id"]):
            return reply
        known = shelf.recall(desk.family, call.params["policy_id"])
        return msgspec.structs.replace(reply, data={**reply.data, "text": known["text"]})

    return habit


def memoriser(seed: int) -> Careless:
    """Works as the expert does, but opens no policy: it knows all rules and typical numbers from other companies."""
    return Careless(recites_policies())


def numbers_only(seed: int) -> Careless:
    """Works as the expert does, but of every policy it reads the numbers only: it knows all rules from other companies."""
    return Careless(reads_numbers_only())
