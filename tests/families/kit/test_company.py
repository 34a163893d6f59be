"""Tests of shared companies: who shares one, that no episode writes into it, and that every process builds the same one."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companyos.agents.agent import play
from companyos.agents.baselines import Random
from companyos.company import KINDS, Entry, Metric, Person, Policy, Ticket
from companyos.core.task import SIZES, SPLITS
from companyos.core.world import Streams, World
from companyos.env import make, run_expert
from companyos.families import FAMILIES, SHORT_FAMILIES
from companyos.families.kit import company as company_module
from companyos.families.kit.company import COMPANIES, SEEDS_PER_COMPANY, SharedCompany, company_of
from tests.helpers import STEADY

SHOWN = tuple(kind for kind in KINDS if not kind.hidden)


def fingerprint(company: SharedCompany) -> int:
    """A number that changes if any record of a company changes. It is computed from the records, not from a cache."""
    world = World(Streams("fingerprint"), 0, KINDS)
    for table in company.tables.values():
        for record in table.rows.values():
            world.put_at_start(record)
    return int(world.digest(), 16)


def untouched(split: str = "train") -> World:
    """A world on top of a company of the default size, without a case."""
    return World(Streams("untouched"), 0, KINDS, company_of(split, 0, SIZES[0]).tables)


# -- who shares one ----------------------------------------------------------------------------------------------------


def test_consecutive_seeds_and_all_families_share_a_company_and_others_do_not() -> None:
    last = SEEDS_PER_COMPANY - 1
    assert company_of("train", 0, "small") is company_of("train", last, "small")
    assert company_of("train", 0, "small") is not company_of("train", last + 1, "small")
    assert company_of("train", 0, "small") is company_of("train", COMPANIES * SEEDS_PER_COMPANY, "small")
    tables = [make(name, seed=3, size="small").world._tables[Person].shared for name in FAMILIES]
    assert all(table is tables[0] for table in tables)


def test_the_splits_have_companies_of_their_own() -> None:
    people = {split: {person.id for person in untouched(split).all(Person)} for split in SPLITS}
    vendors = {split: {entry.name for entry in untouched(split).all(Entry) if entry.kind == "vendor"} for split in SPLITS}
    assert people["train"].isdisjoint(people["test"])
    assert vendors["train"].isdisjoint(vendors["test"])
    assert people["validation"] != people["test"]


@pytest.mark.parametrize(
    ("size", "least", "most"), [("small", 80, 200), ("office", 9_500, 10_500), ("large", 15_000, 20_000)]
)
def test_a_company_has_as_many_records_as_its_size_says(size: str, least: int, most: int) -> None:
    world = make("vendor_onboarding", size=size).world
    assert least <= sum(world.count(kind) for kind in SHOWN) <= most


@pytest.mark.parametrize("size", SIZES)
def test_a_task_id_names_the_size_unless_it_is_the_default(size: str) -> None:
    env = make("vendor_onboarding", seed=5, chaos=0.5, size=size)
    assert (f"-{size}" in env.task_id) == (size != SIZES[0])
    assert make(env.task_id).reset() == env.reset()


# -- nobody writes into it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT_FAMILIES)
def test_an_expert_leaves_the_shared_records_as_they_were(name: str) -> None:
    company = company_of("train", 1, "small")
    before = fingerprint(company)
    env = make(name, seed=1, chaos=1.0, size="small")
    run_expert(env)
    assert env.done
    assert env.world.journal
    assert fingerprint(company) == before


@settings(STEADY, max_examples=30)
@given(st.sampled_from(SHORT_FAMILIES), st.integers(0, SEEDS_PER_COMPANY - 1), st.integers(0, 2**32))
def test_random_calls_leave_the_shared_records_as_they_were(name: str, seed: int, luck: int) -> None:
    company = company_of("train", seed, "small")
    before = fingerprint(company)
    env = make(name, seed=seed, chaos=1.0, size="small")
    play(env, Random(luck))
    assert fingerprint(company) == before


# -- the same everywhere -----------------------------------------------------------------------------------------------

_PRINT_DIGESTS = """
from companyos.env import make
for family in ("vendor_onboarding", "refund_dispute"):
    print(make(family, seed=70, chaos=1.0).digest())
"""


def test_two_processes_build_the_same_company() -> None:
    code = [sys.executable, "-c", _PRINT_DIGESTS]
    runs = [subprocess.run(code, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}) for seed in "12"]
    assert runs[0].stdout == runs[1].stdout
    assert len(set(runs[0].stdout.split())) == 2


@pytest.mark.parametrize("name", SHORT_FAMILIES)
def test_the_digest_is_that_of_a_world_that_shares_nothing(name: str) -> None:
    world = make(name, seed=2, chaos=1.0, size="small").world
    flat = World(world.streams, world.now, KINDS)
    for kind in KINDS:
        for record in world.all(kind):
            flat.put_at_start(record)
    mask = 2**128 - 1
    rest = world.digest_of_rest() - flat.digest_of_rest()
    assert int(world.digest(), 16) == (int(flat.digest(), 16) + rest) & mask


def test_a_pickled_episode_takes_no_shared_records_along() -> None:
    env = make("vendor_onboarding", seed=9, chaos=0.5)
    env.reset()
    packed = pickle.dumps(env.world)
    assert len(packed) < 60_000
    again = pickle.loads(packed)
    assert again.digest() == env.world.digest()
    assert again._tables[Ticket].shared is env.world._tables[Ticket].shared


# -- memory ------------------------------------------------------------------------------------------------------------


def test_only_recent_companies_are_kept_but_those_in_use_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company_module, "_MAX_RECORDS", 400)
    monkeypatch.setattr(company_module, "_recent", type(company_module._recent)())
    first, *_ = companies = [company_of("train", number * SEEDS_PER_COMPANY, "small") for number in range(5)]
    kept = sum(company.record_count for company in company_module._recent.values())
    assert kept <= 400
    assert first not in company_module._recent.values()
    assert company_of("train", 0, "small") is first
    assert len(companies) == 5


# -- what it holds -----------------------------------------------------------------------------------------------------


def test_no_record_of_a_company_has_the_reference_of_a_case() -> None:
    for name in SHORT_FAMILIES:
        for seed in range(20):
            env = make(name, seed=seed)
            reference = env.world.get(Ticket, env.setting.case.ticket_id).reference
            for kind in (Ticket, Entry):
                shared = env.world._tables[kind].shared.search("made", reference)
                assert not shared, f"{env.task_id}: {reference} finds {shared}"


def test_every_ticket_names_people_and_entries_that_exist() -> None:
    world = untouched()
    tickets = list(world.all(Ticket))
    assert all(world.peek(Person, ticket.requester) and world.peek(Person, ticket.assignee or "") for ticket in tickets)
    assert all(world.peek(Entry, ticket.verified) for ticket in tickets if ticket.verified)
    assert all(ticket.status == "done" for ticket in tickets if ticket.resolution)
    vendors = [entry for entry in world.all(Entry) if entry.kind == "vendor"]
    assert all(world.peek(Metric, vendor.details["score_metric"]) for vendor in vendors)


def test_every_policy_has_one_version_in_force_and_most_have_older_ones() -> None:
    policies = list(untouched().all(Policy))
    in_force = [policy.title for policy in policies if policy.status == "in force"]
    assert len(set(in_force)) == len(in_force)
    assert {policy.title for policy in policies} == set(in_force)
    assert len(policies) > 2 * len(in_force)


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_that_ask_for_a_company_at_the_same_time_share_it() -> None:
    seed = 900 * SEEDS_PER_COMPANY
    assert not company_module.is_built("train", seed, "small")
    with ThreadPoolExecutor(8) as pool:
        companies = list(pool.map(lambda _: company_of("train", seed, "small"), range(32)))
    assert company_module.is_built("train", seed, "small")
    assert all(company is companies[0] for company in companies)
