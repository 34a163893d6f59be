"""Law: twins, that is, tasks with the same seed and one cause changed, differ in nothing else."""

from collections import Counter

import pytest

from companyos.assurance import laws
from companyos.assurance.twins import twin_tasks, twins, twins_with_other_ending, weathers
from companyos.env import make
from tests.laws import NAMES, seeds


@pytest.mark.parametrize("name", NAMES)
def test_twins_have_the_same_first_observation_to_the_byte(name: str) -> None:
    laws.twins_look_alike(name, seeds(40, 300, fresh=5, name=name))


@pytest.mark.parametrize("name", NAMES)
def test_the_worlds_of_twins_differ_inside_the_declared_footprint_only(name: str) -> None:
    laws.causes_keep_to_their_footprint(name, seeds(40, 300, fresh=5, name=name))


@pytest.mark.parametrize("name", NAMES)
def test_every_relevance_occurs_and_three_causes_change_the_ending_and_three_the_way(name: str) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for seed in seeds(25, 300, name=name):
        for twin in twins(make(name, seed=seed, chaos=0.5).task_id):
            found[twin.relevance, twin.cause] += 1
    causes = {relevance: {c for r, c in found if r == relevance} for relevance in ("ending", "way", "none")}
    assert len(causes["ending"]) >= 3
    assert len(causes["way"]) >= 3
    assert len(causes["none"]) >= 1
    for relevance, names in causes.items():
        print(name, relevance, {cause: found[relevance, cause] for cause in sorted(names)})


@pytest.mark.parametrize("name", NAMES)
def test_no_trouble_and_no_dose_changes_the_ending_and_every_fact_can(name: str) -> None:
    laws.facts_decide(name, seeds(60, 300, name=name), more_seeds=range(300))


@pytest.mark.parametrize("name", NAMES)
def test_a_family_has_four_facts_five_troubles_and_four_endings(name: str) -> None:
    laws.is_large_enough(name)


@pytest.mark.parametrize("name", NAMES)
def test_weathers_have_the_same_facts_ending_and_first_observation_and_other_troubles(name: str) -> None:
    laws.weathers_differ_in_trouble(name, seeds(5, 60, fresh=2, name=name))


def test_the_weathers_of_a_twin_keep_its_facts_and_draw_an_overridden_trouble_anew() -> None:
    env = make("vendor_onboarding", seed=7, chaos=0.5)
    fact, twin = twins_with_other_ending(env.task_id)[0]
    for other in weathers(twin, 3)[1:]:
        assert getattr(make(other).setting.causes, fact) == getattr(make(twin).setting.causes, fact)
        assert getattr(make(other).setting.causes, fact) != getattr(env.setting.causes, fact)
    struck = next(other for cause, _, other in twin_tasks(twin) if cause.name == "score_stale")
    assert weathers(struck, 3)[1:] == weathers(twin, 3)[1:]
