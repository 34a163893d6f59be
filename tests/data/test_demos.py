"""Tests of demonstrations: shares, labels and reproducibility."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from companyos.agents.adversaries.slips import FAILURES, MAX_SLIPS
from companyos.assurance.replay import replay
from companyos.core.episode import CANARY
from companyos.core.errors import Unsolvable
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.data import demos
from companyos.data.demos import KINDS, MIX, Demo, episodes
from companyos.families import SHORT_FAMILIES
from companyos.families.kit.goals import add_up

DOSES = (0.0, 0.5)


@cache
def sample() -> list[Demo]:
    return list(episodes(40, chaos=DOSES))


def of_kind(kind: str) -> list[Demo]:
    return [demo for demo in sample() if demo.kind == kind]


# -- each episode ------------------------------------------------------------------------------------------------------


def test_a_line_of_the_dataset_replays_to_what_its_label_says() -> None:
    for original in sample():
        demo = msgspec.json.decode(msgspec.json.encode(original), type=Demo)
        assert demo == original
        env = replay(demo.transcript)
        assert env.verdict is not None
        assert (demo.task_id, demo.steps, demo.success) == (env.task_id, env.step_count, env.success)
        assert demo.missed == tuple(goal for goal, holds in env.verdict.goals.items() if not holds)
        assert demo.damage == env.verdict.damage
        assert demo.total == add_up(turn.reward for turn in env.turns)
        assert (demo.version, demo.canary) == (BENCHMARK_VERSION, CANARY)
        assert len(demo.trainable) == demo.steps


def test_a_line_says_the_return_by_its_name() -> None:
    line = msgspec.json.decode(msgspec.json.encode(sample()[0]))
    assert line["return"] == line["transcript"]["footer"]["total"]


def test_an_expert_wins_and_all_of_it_may_be_imitated() -> None:
    for demo in of_kind("expert"):
        assert demo.success
        assert all(demo.trainable)


def test_after_slips_hardly_anything_is_read_twice() -> None:
    for demo in of_kind("recovered"):
        answered = [turn for turn in demo.transcript.turns if turn.reply.ok and turn.call.method != "wait"]
        told = {msgspec.json.encode((turn.call, turn.reply), order="deterministic") for turn in answered}
        assert len(answered) - len(told) <= 6, demo.task_id


def test_a_recovered_episode_is_won_after_a_few_slips_in_a_row_that_are_marked() -> None:
    for demo in of_kind("recovered"):
        assert demo.success
        slips = [number for number, worthy in enumerate(demo.trainable) if not worthy]
        assert 1 <= len(slips) <= MAX_SLIPS
        assert slips == list(range(slips[0], slips[-1] + 1))
        assert slips[-1] < demo.steps - 1
        assert all(demo.transcript.turns[number].reply.ok for number in slips)


def test_a_failure_says_what_was_missed_or_damaged_and_nothing_of_it_is_to_be_imitated() -> None:
    for demo in of_kind("failed"):
        assert not demo.success
        assert demo.missed or demo.damage
        assert not any(demo.trainable)


def test_failures_are_of_many_sorts() -> None:
    failed = list(episodes(40, mix={"failed": 1}))
    assert {demo.way for demo in failed} == set(FAILURES)
    assert len({demo.missed for demo in failed}) > 5
    assert any(demo.damage for demo in failed)


# -- the whole ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mix", [MIX, {"expert": 1, "failed": 1}, {"recovered": 0.5, "expert": 0.25}])
def test_every_length_has_the_stated_shares(mix: Mapping[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:  # so that it is quick: only the order is looked at
        monkeypatch.setitem(KINDS, kind, KINDS["expert"])
    counts: Counter[str] = Counter()
    for number, demo in enumerate(episodes(60, chaos=(0.0,), mix=mix), 1):
        counts[demo.kind] += 1
        for kind in KINDS:
            assert abs(counts[kind] - mix.get(kind, 0) / sum(mix.values()) * number) < 1


def test_each_kind_is_spread_evenly_over_families_and_doses() -> None:
    for kind in KINDS:
        tasks = [TaskId.parse(demo.task_id) for demo in of_kind(kind)]
        places = Counter((task.family, task.doses) for task in tasks)
        assert len(places) == min(len(tasks), len(SHORT_FAMILIES) * len(DOSES))
        assert max(places.values()) - min(places.values()) <= 1


def test_the_same_arguments_give_the_same_episodes_and_a_longer_set_begins_with_the_shorter() -> None:
    assert list(episodes(15, chaos=DOSES)) == sample()[:15]


def test_neither_the_mix_nor_another_dose_moves_an_episode() -> None:
    failed = [demo for demo in of_kind("failed") if TaskId.parse(demo.task_id).doses == "50"]
    assert failed
    assert list(episodes(len(failed), chaos=(0.5,), mix={"failed": 1})) == failed


def test_another_seed_gives_other_tasks() -> None:
    tasks_of_seed_0, tasks_of_seed_1 = ({demo.task_id for demo in episodes(5, seed=seed)} for seed in (0, 1))
    assert not tasks_of_seed_0 & tasks_of_seed_1


def test_no_task_comes_twice() -> None:
    assert len({demo.task_id for demo in sample()}) == len(sample())


def test_held_out_tasks_are_used_only_when_asked_for() -> None:
    assert {TaskId.parse(demo.task_id).split for demo in sample()} == {"train"}
    for split in ("validation", "test"):
        with pytest.raises(ValueError, match=f"{split} is held out"):
            episodes(1, split=split)
        [demo] = episodes(1, split=split, held_out=True)
        assert TaskId.parse(demo.task_id).split == split


@pytest.mark.parametrize(
    "wrong",
    [
        {"families": ["gardening"]},
        {"chaos": [2.0]},
        {"split": "moon", "held_out": True},
        {"reward": "fame"},
        {"mix": {"hero": 1}},
        {"mix": {"expert": 0}},
        {"mix": {"expert": 2, "failed": -1}},
        {"mix": {"expert": float("inf")}},
        {"mix": {"expert": float("nan")}},
        {"mix": {}},
    ],
)
def test_invalid_arguments_are_refused_before_any_work_begins(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"valid|dose"):
        episodes(1, **wrong)


def test_a_kind_of_episode_that_never_succeeds_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "failed", lambda env, streams: None)
    monkeypatch.setattr(demos, "_MAX_TRIES", 3)
    with pytest.raises(Unsolvable, match="no episode of kind failed in 3 tries"):
        list(episodes(1, mix={"failed": 1}))
