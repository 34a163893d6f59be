"""Law: the floor, that is, the success rate of strategies that do not do the work, stays low."""

from collections import Counter
from functools import lru_cache
from itertools import product
from pathlib import Path

import pytest

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.agents.adversaries import ADVERSARIES, KNOWN
from companyos.agents.adversaries.careless import HABITS
from companyos.agents.adversaries.fixed_endings import experts_ending, known_endings
from companyos.assurance.floor import CHAOS, SHORT_SOLUTION, FloorJob, Tally, tally
from companyos.assurance.twins import twins_with_other_ending
from companyos.chaos import DIALS
from companyos.core.wilson import wilson_interval
from companyos.env import make, par, task_named
from companyos.families import FAMILIES
from tests.laws import FULL, NAMES, share, size

EPISODES = size(60, 500)


@lru_cache(maxsize=1024)
def reached(policy: str, name: str, variant: int | None = None) -> Tally:
    # A script or a fixed ending has several variants. A sample contains all of them together; LAWS=full plays each in full.
    variants = ADVERSARIES[policy].variants
    shared = variants(name) if variants and not FULL else 1
    return tally(FloorJob(policy, name, tuple(range(max(6, share(EPISODES, name) // shared))), variant, with_twins=True))


def variants(policy: str, name: str) -> list[int | None]:
    count = ADVERSARIES[policy].variants
    return list(range(count(name))) if count else [None]


@pytest.mark.parametrize("policy", [a.name for a in ADVERSARIES.values() if a.group == "blind"])
@pytest.mark.parametrize("name", NAMES)
def test_agents_that_do_not_read_do_not_win(name: str, policy: str) -> None:
    found = [reached(policy, name, variant) for variant in variants(policy, name)]
    best = max(found, key=lambda t: t.share)
    mean = sum(t.total for t in found) / sum(len(t.job.seeds) for t in found)
    print(f"{name} {policy}: best {best.wins} of {len(best.job.seeds)}, mean return {mean:.2f}")
    assert sum(t.wins for t in found) <= 0.01 * sum(len(t.job.seeds) for t in found)
    assert not FULL or best.share <= 0.01


@pytest.mark.parametrize("name", NAMES)
def test_a_fixed_ending_wins_no_more_often_than_it_is_right(name: str) -> None:
    for variant in variants("constant", name):
        found = reached("constant", name, variant)
        assert variant is not None
        close = known_endings(name)[variant]
        right = sum(experts_ending(make(name, seed=seed, chaos=CHAOS)) == close for seed in found.job.seeds)
        print(f"{name} {close}: right in {right}, won {found.wins} of {len(found.job.seeds)}")
        assert found.wins <= right
        assert not FULL or right <= 0.4 * len(found.job.seeds)


@pytest.mark.parametrize("name", NAMES)
def test_a_checklist_that_ignores_values_rarely_wins(name: str) -> None:
    found = [reached("checklist", name, variant) for variant in variants("checklist", name)]
    print(f"{name} checklist: best {max(t.share for t in found):.3f}")
    assert sum(t.wins for t in found) <= 0.15 * sum(len(t.job.seeds) for t in found)
    assert not FULL or max(t.share for t in found) <= 0.15


@pytest.mark.parametrize("name", NAMES)
def test_refusing_everything_wins_no_more_often_than_refusing_is_right(name: str) -> None:
    found = [reached("refuse_everything", name, variant) for variant in variants("refuse_everything", name)]
    for tally_of in found:
        endings = [make(name, seed=seed, chaos=CHAOS).setting.ending for seed in tally_of.job.seeds]
        refused = sum(ending.resolution == "cannot_be_done" for ending in endings)
        print(f"{name} refuse_everything: right in {refused}, won {tally_of.wins} of {len(tally_of.job.seeds)}")
        assert tally_of.wins <= refused


@pytest.mark.parametrize("name", NAMES)
def test_requesting_every_signature_does_not_reveal_the_ending(name: str) -> None:
    """It sees who signs, so it may pass both tasks of a pair that differs only in that, but no other pair."""
    won = 0
    episodes = share(EPISODES, name)
    for seed, variant in product(range(episodes), variants("ask_around", name)):
        policy = FloorJob("ask_around", name, (seed,), variant)
        env = play(make(name, seed=seed, chaos=CHAOS), policy.agent(seed))
        won += bool(env.success)
        for other in (make(task) for _, task in (twins_with_other_ending(env.task_id) if env.success else ())):
            if other.setting.ending.name != env.setting.ending.name:
                assert not play(other, policy.agent(seed)).success, other.task_id
    print(f"{name} ask_around: won {won} of {episodes}")
    assert won <= 0.3 * episodes


@pytest.mark.parametrize("name", NAMES)
def test_watching_the_reward_wins_no_more_often_than_the_most_frequent_ending_is_right(name: str) -> None:
    found = reached("reward_watcher", name)
    right = Counter(make(name, seed=seed, chaos=CHAOS).setting.ending.name for seed in found.job.seeds)
    [(ending, most)] = right.most_common(1)
    print(f"{name} reward_watcher: won {found.wins} of {len(found.job.seeds)}, {ending} is right in {most}")
    assert found.wins <= most


def test_a_memoriser_opens_no_policy() -> None:
    recited = 0
    for name, seed in product(NAMES, range(2)):
        env = play(make(name, seed=seed, chaos=CHAOS), make_agent("memoriser", seed))
        opened = [turn.reply.data["title"] for turn in env.turns if turn.call.method == "read_policy" and turn.reply.ok]
        assert all("Changelog" in title for title in opened)
        recited += bool(env.success)
    assert recited > len(NAMES) / 2  # it works only with what it remembers


def test_every_adversary_has_its_numbers_published() -> None:
    page = (Path(__file__).parents[2] / "docs" / "floor.md").read_text()
    assert [name for name in ADVERSARIES if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("policy", [a.name for a in ADVERSARIES.values() if a.group not in ("naive", "asking", KNOWN)])
@pytest.mark.parametrize("name", NAMES)
def test_no_cheap_strategy_solves_both_tasks_of_a_pair_with_different_endings(name: str, policy: str) -> None:
    found = [reached(policy, name, variant) for variant in variants(policy, name)]
    print(f"{name} {policy}: both in {sum(t.both for t in found)} of {sum(t.pairs for t in found)} pairs")
    assert sum(t.pairs for t in found)
    assert not any(t.both for t in found)


@pytest.mark.parametrize("name", NAMES)
def test_at_most_a_fifth_of_tasks_is_short(name: str) -> None:
    episodes = share(EPISODES, name)
    assert sum(par(task_named(name, seed, CHAOS)) < SHORT_SOLUTION for seed in range(episodes)) <= 0.2 * episodes


def test_a_naive_expert_loses_at_least_20_points_to_chaos() -> None:
    calm, struck = (
        sum(tally(FloorJob("naive", name, tuple(range(size(30, 200, name))), chaos=dose)).share for name in NAMES)
        / len(NAMES)
        for dose in (0.0, 1.0)
    )
    print(f"naive: {calm:.3f} at dose 0, {struck:.3f} at dose 1")
    assert calm - struck >= 0.2


@pytest.mark.parametrize("dial", DIALS)
def test_every_dial_alone_lowers_the_success_of_an_agent_that_ignores_it(dial: str) -> None:
    seeds = {name: tuple(range(size(30, 200, name))) for name in NAMES}
    calm, struck = (
        sum(tally(FloorJob(dial, name, seeds[name], chaos=chaos)).share for name in NAMES) / len(NAMES)
        for chaos in (0.0, {dial: 1.0})
    )
    print(f"{dial}: {calm:.3f} without it, {struck:.3f} with it")
    assert calm - struck >= 0.05


def test_every_dial_has_an_agent_that_ignores_it() -> None:
    assert set(HABITS) == set(DIALS)


def test_adversaries_play_any_family_and_never_crash() -> None:
    for name in FAMILIES:
        for policy in ADVERSARIES:
            assert play(make(name, seed=1, chaos=1.0), make_agent(policy, 1)).done


def test_an_interval_holds_the_share_and_never_leaves_0_to_1() -> None:
    for wins, played in [(0, 500), (1, 500), (250, 500), (500, 500), (0, 1)]:
        low, high = wilson_interval(wins / played, played)
        assert -1e-9 <= low - 1e-9 <= wins / played <= high + 1e-9 <= 1 + 1e-9
        assert low < high
