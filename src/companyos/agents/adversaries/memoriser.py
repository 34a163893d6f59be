"""Adversaries that know the policies of a family from other companies and do not read them here.

A policy has a text and named numbers (its `terms`, such as a limit). The texts are the same in every company of a family;
only the numbers depend on the seed. So an agent that has seen other seeds knows every rule, and typical numbers. These
agents measure how many tasks can be won with that knowledge.

Each agent is the expert with a habit. A habit is a generator that replaces one call of the expert: it yields the calls that
are really made, receives their replies, and returns the reply that the expert sees.
"""

from collections import Counter, defaultdict
from functools import lru_cache
from statistics import median_low
from typing import Any

import msgspec

from companyos.agents.adversaries.careless import Careless, Exchange, Habit, HabitState
from companyos.company import Policy
from companyos.core.calls import OK, Call, Reply
from companyos.core.errors import Stuck
from companyos.env import make

SEEDS = range(100)  # of the validation split; the agents know the policies of these companies

CHANGELOG = "Changelog"  # in the title of the policy that lists renamed fields of request forms

Version = tuple[str, int]  # a title, and the rank by age among the policies with this title


class Remembered(msgspec.Struct, frozen=True):
    """A version of a policy as other companies have it."""

    text: str
    terms: dict[str, int]


@lru_cache(maxsize=32)
def rulebook(family: str) -> dict[Version, Remembered]:
    """Return the policies of a family, with the typical number of each term."""
    texts: dict[Version, str] = {}
    numbers: dict[Version, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for seed in SEEDS:
        start = make(family, seed=seed, split="validation").setting  # the start state of the task
        policies = sorted(start.world.all(Policy), key=lambda policy: policy.since)
        older_versions: Counter[str] = Counter()  # by title: how many policies are older than this one
        for policy in policies:
            version = policy.title, older_versions[policy.title]
            older_versions[policy.title] += 1
            texts.setdefault(version, policy.text)
            for name, value in policy.terms.items():
                numbers[version][name].append(value)
    return {
        version: Remembered(text, {name: _typical(values) for name, values in numbers[version].items()})
        for version, text in texts.items()
    }


def _typical(values: list[int]) -> int:
    """Return the most frequent number. Among equally frequent ones, the one nearest to the median."""
    counts, median = Counter(values), median_low(values)
    return min(counts, key=lambda value: (-counts[value], abs(value - median), value))


class ListedPolicies:
    """The policies that searches have listed. Title and date of a row tell which remembered version it is.

    Searches also list the changelog, which names the renamed fields of forms. It states no rule, and the changelog of
    another company does not tell what changed here. So it is not recalled from memory: the agent opens it when needed.
    """

    def __init__(self) -> None:
        self._listed: dict[str, dict[str, Any]] = {}

    def hear(self, reply: Reply) -> None:
        """Add the policies that the reply to a search lists."""
        self._listed |= {row["id"]: row for row in reply.data["rows"]}

    def is_changelog(self, policy_id: str) -> bool:
        return CHANGELOG in self._listed[policy_id]["title"]

    def recall(self, family: str, policy_id: str) -> dict[str, Any]:
        """Return a listed policy with text and numbers from memory."""
        row, book = self._listed[policy_id], rulebook(family)
        title = row["title"]
        same_title = sorted((other for other in self._listed.values() if other["title"] == title), key=_since)
        versions = [book[title, rank] for rank in range(len(same_title)) if (title, rank) in book]
        if not versions:
            raise Stuck(f"no other company had a policy called {title}")
        # A version that is newer than all remembered ones is assumed to equal the newest of these.
        remembered = versions[min(same_title.index(row), len(versions) - 1)]
        return {**row, "text": remembered.text, **remembered.terms}


def _since(row: dict[str, Any]) -> str:
    return str(row["since"])


def recites_policies() -> Habit:
    """Never opens a policy. Searches give the ids, memory gives the texts and typical numbers."""
    listed = ListedPolicies()

    def habit(state: HabitState, call: Call) -> Exchange:
        if call.method == "read_policy" and not listed.is_changelog(call.params["policy_id"]):
            return Reply(True, OK, listed.recall(state.family, call.params["policy_id"]))
        reply = yield call
        if call.method == "search_policies" and reply.ok:
            listed.hear(reply)
        return reply

    return habit


def reads_numbers_only() -> Habit:
    """Opens policies for the numbers in their terms; their texts come from memory."""
    listed = ListedPolicies()

    def habit(state: HabitState, call: Call) -> Exchange:
        reply = yield call
        if call.method == "search_policies" and reply.ok:
            listed.hear(reply)
        if call.method != "read_policy" or not reply.ok or listed.is_changelog(call.params["policy_id"]):
            return reply
        recalled = listed.recall(state.family, call.params["policy_id"])
        return msgspec.structs.replace(reply, data={**reply.data, "text": recalled["text"]})

    return habit


def memoriser(seed: int) -> Careless:
    """Works as the expert does, but opens no policy: it knows all rules and typical numbers from other companies."""
    return Careless(recites_policies())


def numbers_only(seed: int) -> Careless:
    """Works as the expert does, but reads only the numbers of every policy: it knows all rules from other companies."""
    return Careless(reads_numbers_only())
