"""Tests of policy drift: the new numbers of a policy's terms."""

import re
from itertools import combinations

import pytest

from companyos.chaos import DIALS
from companyos.company import Draft, Policy
from companyos.core.world import HOUR, Streams
from companyos.env import make
from companyos.families import FAMILIES
from tests.helpers import role

SEEDS = 30


def versions(name: str, seed: int) -> tuple[Policy, Policy]:
    """The policy of a case, and its new version."""
    env = make(name, seed=seed)
    old = env.world.get(Policy, role(env, "policy"))
    DIALS["policy_drift"].strike(env.world, old.id, True, Streams(f"drift/{name}").at(seed))
    env.world.advance(HOUR)
    return old, env.world.get(Policy, env.world.get(Draft, old.id).successor)


@pytest.mark.parametrize("name", FAMILIES)
def test_drifted_terms_keep_their_order_and_all_change(name: str) -> None:
    for seed in range(SEEDS):
        old, new = versions(name, seed)
        assert all(new.terms[term] != value for term, value in old.terms.items()), (seed, old.terms, new.terms)
        for one, other in combinations(old.terms, 2):
            before, after = old.terms[one] - old.terms[other], new.terms[one] - new.terms[other]
            assert (before > 0, before < 0) == (after > 0, after < 0), (seed, old.terms, new.terms)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_may_be_a_percentage_stays_one(name: str) -> None:
    for seed in range(SEEDS):
        old, new = versions(name, seed)
        for term, value in old.terms.items():
            assert (new.terms[term] > 100) == (value > 100), (seed, term)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_new_text_differs_in_the_terms_and_in_nothing_else(name: str) -> None:
    for seed in range(SEEDS):
        old, new = versions(name, seed)
        moved = {str(value): str(new.terms[term]) for term, value in old.terms.items()}
        said, told = (re.findall(r"[\w,]*\w", policy.text) for policy in (old, new))  # sev_3 and 10,000 are words
        assert told == [moved.get(word, word) for word in said], seed
