"""Twins: same morning, one truth changed, nothing else."""

from collections import Counter

import pytest

from companyos.env import make
from companyos.families import FAMILIES
from companyos.families.case import Fact, Trouble
from companyos.families.family import cause_specs
from companyos.proof import solve
from companyos.twins import differences, footprint, opposites, same_ending, siblings, twins, weathers
from tests.laws import DOSES, NAMES, seeds


@pytest.mark.parametrize("name", NAMES)
def test_twins_have_the_same_brief_and_first_observation_to_the_byte(name: str) -> None:
    for seed in seeds(40, 300, fresh=5):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        first = env.reset()
        for cause, value, other in siblings(env.task_id):
            theirs = make(other).reset()
            assert theirs == first, (env.task_id, cause.name, value)
            assert theirs.text.encode() == first.text.encode()


@pytest.mark.parametrize("name", NAMES)
def test_the_worlds_of_twins_differ_inside_the_declared_footprint_only(name: str) -> None:
    for seed in seeds(40, 300, fresh=5):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        for cause, value, other in siblings(env.task_id):
            found = differences(env.setting.world, make(other).setting.world)
            assert found <= footprint(env.task_id, cause), (env.task_id, cause.name, value)


@pytest.mark.parametrize("name", NAMES)
def test_every_relevance_occurs_and_three_causes_change_the_ending_and_three_the_way(name: str) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for seed in seeds(25, 300):
        for twin in twins(make(name, seed=seed, chaos=0.5).task_id):
            found[twin.relevance, twin.cause] += 1
    causes = {relevance: {c for r, c in found if r == relevance} for relevance in ("ending", "way", "none")}
    assert len(causes["ending"]) >= 3
    assert len(causes["way"]) >= 3
    assert len(causes["none"]) >= 1
    for relevance, names in causes.items():
        print(name, relevance, {cause: found[relevance, cause] for cause in sorted(names)})


@pytest.mark.parametrize("name", NAMES)
def test_a_trouble_never_changes_the_ending_and_every_fact_can(name: str) -> None:
    changed: set[str] = set()
    for seed in seeds(60, 300):
        env = make(name, seed=seed, chaos=0.5)
        for cause, _, other in siblings(env.task_id):
            if not same_ending(env, make(other)):
                assert isinstance(cause.mark, Fact), cause.name
                changed.add(cause.name)
    assert changed == {c.name for c in cause_specs(FAMILIES[name].causes) if isinstance(c.mark, Fact)}


@pytest.mark.parametrize("name", NAMES)
def test_a_family_has_four_facts_five_troubles_and_four_endings(name: str) -> None:
    specs = cause_specs(FAMILIES[name].causes)
    assert sum(isinstance(cause.mark, Fact) for cause in specs) >= 4
    assert sum(isinstance(cause.mark, Trouble) for cause in specs) >= 5
    shares = Counter(make(name, seed=seed).setting.ending.name for seed in range(400))
    assert len(shares) >= 4
    assert max(shares.values()) <= 0.4 * 400, shares


@pytest.mark.parametrize("name", NAMES)
def test_the_right_ending_of_a_seed_is_the_same_at_every_dose(name: str) -> None:
    for seed in seeds(60, 1000):
        endings = {make(name, seed=seed, chaos=dose).setting.ending.name for dose in DOSES}
        assert len(endings) == 1, seed


@pytest.mark.parametrize("name", NAMES)
def test_weathers_have_the_same_facts_ending_and_first_observation_and_other_troubles(name: str) -> None:
    facts = [c.name for c in cause_specs(FAMILIES[name].causes) if isinstance(c.mark, Fact)]
    redrawn = 0
    for seed in seeds(5, 60):
        env = make(name, seed=seed, chaos=0.5)
        for other in weathers(env.task_id, 3)[1:]:
            theirs = make(other)
            assert theirs.task_id == other
            assert theirs.reset() == env.reset()
            assert same_ending(env, theirs)
            ours, causes = env.setting.causes, theirs.setting.causes
            assert all(getattr(ours, fact) == getattr(causes, fact) for fact in facts)
            redrawn += ours != causes
            solve(theirs)
    assert redrawn


def test_the_weathers_of_a_twin_keep_its_facts_and_draw_an_overridden_trouble_anew() -> None:
    env = make("vendor_onboarding", seed=7, chaos=0.5)
    twin = next(other for cause, other in opposites(env.task_id) if cause == "conflict")
    for other in weathers(twin, 3)[1:]:
        assert make(other).setting.causes.conflict != env.setting.causes.conflict
    struck = next(other for cause, _, other in siblings(twin) if cause.name == "score_stale")
    assert weathers(struck, 3)[1:] == weathers(twin, 3)[1:]
