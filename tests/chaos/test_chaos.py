"""Tests of dials and doses: how they are written, and that higher doses are never milder."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from companyos.assurance.twins import differences
from companyos.chaos import DIALS, INJECTORS, doses_of, read_doses, write_doses
from companyos.chaos.faults import Flaky
from companyos.chaos.injector import MAX_CHANCE
from companyos.company import TOOLBOX
from companyos.core.calls import NO_ANSWER, Call
from companyos.core.errors import BadDose
from companyos.core.task import TaskId
from companyos.core.world import Streams
from companyos.env import make, task_named
from companyos.families import FAMILIES
from companyos.families.kit.case import Fact, Trouble
from tests.helpers import FAMILY, STEADY, played, role, step, strikes, task_id

SPECS = FAMILIES[FAMILY].specs()
TROUBLES = [cause for cause in SPECS if isinstance(cause.annotation, Trouble)]
FACTS = [cause for cause in SPECS if isinstance(cause.annotation, Fact)]
DOSES = (0.0, 0.1, 0.3, 0.6, 1.0)

percents = st.fixed_dictionaries({dial: st.integers(0, 100) for dial in DIALS})


def causes(seed: int, chaos: float) -> Any:
    """Return the causes of a task, without making its start state."""
    task = task_named(FAMILY, seed, chaos)
    streams = Streams(task.key)
    return FAMILIES[FAMILY].draw_causes(streams, streams, read_doses(task.doses), task.split)


def rank(cause: Any, drawn: Any) -> int:
    """Return the level of a trouble, where 0 means that it does not occur."""
    return int(DIALS[cause.annotation.dial].levels.index(getattr(drawn, cause.name)))


# -- doses -------------------------------------------------------------------------------------------------------------


@STEADY
@given(percents)
def test_doses_read_back_as_they_were_written(doses: dict[str, int]) -> None:
    assert read_doses(write_doses(doses)) == doses


@STEADY
@given(st.one_of(st.from_regex(r"([a-z]\d{1,3}){1,4}|\d{1,4}", fullmatch=True), st.text(max_size=6)))
@example("")
@example("s")
@example("s50s60")
@example("s50a50")
@example("s0")
@example("s050")
@example("050")
@example("101")
@example("s101")
@example("z50")
@example("50s")
@example("\N{SUPERSCRIPT TWO}")
@example("\N{ARABIC-INDIC DIGIT THREE}")
@example("s\N{ARABIC-INDIC DIGIT THREE}")
@example("-5")
def test_doses_that_are_not_written_the_one_way_are_refused(text: str) -> None:
    try:
        doses = read_doses(text)
    except BadDose:
        return
    assert write_doses(doses) == text


def test_equal_doses_are_written_as_one_number() -> None:
    assert write_doses(doses_of(0.5)) == "50"
    assert write_doses(doses_of(0)) == write_doses(doses_of({})) == "0"
    assert write_doses(doses_of(dict.fromkeys(DIALS, 0.25))) == "25"


def test_different_doses_are_written_by_letter_and_only_those_that_are_not_0() -> None:
    assert write_doses(doses_of({"stale": 0.5})) == "s50"
    assert write_doses(doses_of({"stale": 0.5, "flaky": 1.0, "absence": 0.0})) == "f100s50"


def test_letters_tell_dials_apart() -> None:
    letters = [injector.letter for injector in INJECTORS]
    assert len(set(letters)) == len(letters) == len(DIALS)
    assert all(len(letter) == 1 and letter.isascii() and letter.islower() for letter in letters)


@pytest.mark.parametrize("dose", [-0.01, 1.01, math.nan, math.inf, -math.inf, True, False, None, "0.5", [0.5], 50])
def test_a_dose_is_a_number_from_0_to_1(dose: Any) -> None:
    with pytest.raises(BadDose, match="from 0 to 1"):
        doses_of(dose)
    with pytest.raises(BadDose, match="stale takes a dose from 0 to 1"):
        doses_of({"stale": dose})


@pytest.mark.parametrize("dials", [{"weather": 0.5}, {"stale": 0.5, "weather": 0.5}, {1: 0.5}, {1: 0.5, "weather": 0.5}])
def test_an_unknown_dial_is_refused_with_those_there_are(dials: Any) -> None:
    with pytest.raises(BadDose, match=r"valid: .*stale.*flaky"):
        doses_of(dials)


# -- doses nest --------------------------------------------------------------------------------------------------------


def test_what_strikes_at_a_dose_strikes_at_a_higher_one_and_never_milder() -> None:
    struck = 0
    for seed in range(300):
        drawn = [causes(seed, dose) for dose in DOSES]
        for trouble in TROUBLES:
            ranks = [rank(trouble, one) for one in drawn]
            assert ranks == sorted(ranks)
            struck += ranks[-1] > 0
    assert struck > 300


def test_at_dose_0_nothing_strikes() -> None:
    for seed in range(300):
        assert all(rank(trouble, causes(seed, 0.0)) == 0 for trouble in TROUBLES)


def test_facts_are_the_same_at_every_dose() -> None:
    for seed in range(300):
        drawn = [causes(seed, dose) for dose in DOSES]
        for fact in FACTS:
            assert len({getattr(one, fact.name) for one in drawn}) == 1


def test_at_dose_1_no_trouble_is_more_likely_than_three_in_four_and_every_level_occurs() -> None:
    drawn = [causes(seed, 1.0) for seed in range(2000)]
    for trouble in TROUBLES:
        ranks = Counter(rank(trouble, one) for one in drawn)
        assert 1 - ranks[0] / 2000 <= 0.79, trouble.name
        assert all(ranks[level] > 100 for level in range(len(DIALS[trouble.annotation.dial].levels))), trouble.name  # type: ignore[union-attr]


def test_no_injector_declares_a_chance_above_three_in_four() -> None:
    for injector in INJECTORS:
        assert len(injector.level_chances) == len(injector.levels) - 1
        assert list(injector.level_chances) == sorted(injector.level_chances, reverse=True)
        assert max(injector.level_chances) <= MAX_CHANCE == 0.75


def test_more_troubles_strike_at_a_higher_dose() -> None:
    means = [sum(rank(trouble, causes(seed, dose)) for seed in range(200) for trouble in TROUBLES) for dose in DOSES]
    assert means == sorted(set(means))


def test_the_right_ending_is_the_same_at_every_dose() -> None:
    for seed in range(60):
        endings = [make(FAMILY, seed=seed, chaos=dose).setting.ending for dose in DOSES]
        assert len({(ending.name, ending.decider) for ending in endings}) == 1


def test_the_brief_and_the_first_clock_are_the_same_at_every_dose() -> None:
    for seed in range(20):
        first = [make(FAMILY, seed=seed, chaos=dose).reset() for dose in DOSES]
        assert len({(obs.task, obs.now) for obs in first}) == 1


@pytest.mark.parametrize("dial", dict.fromkeys(trouble.annotation.dial for trouble in TROUBLES))  # type: ignore[union-attr]
def test_a_trouble_that_strikes_as_hard_strikes_the_same_way_at_a_higher_dose(dial: str) -> None:
    struck = 0
    for seed in range(20):
        low, high = (make(FAMILY, seed=seed, chaos={dial: dose}).setting for dose in (0.6, 1.0))
        calm = make(FAMILY, seed=seed).setting
        if low.causes == high.causes:
            assert differences(low.world, high.world) == set()
            struck += low.causes != calm.causes
    assert struck > 0


@pytest.mark.parametrize("dial", DIALS)
def test_a_dial_touches_its_own_footprint_and_nothing_else(dial: str) -> None:
    for seed in range(15):
        calm, struck = make(FAMILY, seed=seed).setting, make(FAMILY, seed=seed, chaos={dial: 1.0}).setting
        touched = {(kind, field) for kind, _, field in differences(calm.world, struck.world)}
        footprint = set(DIALS[dial].footprint)
        assert {pair for pair in touched if (pair[0], "*") not in footprint} <= footprint


# -- flaky calls -------------------------------------------------------------------------------------------------------


def test_calls_that_go_unanswered_at_a_dose_do_so_at_a_higher_one_in_the_same_way() -> None:
    struck = 0
    for seed in range(40):
        env = played("random" if seed % 2 else "expert", seed)
        calls = [turn.call for turn in env.turns] * 3
        by_dose = [strikes(env.setting.world.fork(), calls, dose) for dose in (0.01, 0.3, 0.6, 1.0)]
        for milder, harder in pairwise(by_dose):
            assert milder.items() <= harder.items()
        struck += len(by_dose[-1])
    assert struck > 200


def test_no_more_than_two_calls_in_a_row_at_one_target_go_unanswered() -> None:
    longest = 0
    for seed in range(150):
        env = make(FAMILY, seed=seed, chaos={"flaky": 1.0})
        run = 0
        while not env.done:
            obs = step(env, "ticketdesk.get_ticket", ticket_id=role(env, "ticket"))
            run = run + 1 if obs.code == NO_ANSWER else 0
            longest = max(longest, run)
            assert run <= 2
    assert longest == 2


@pytest.mark.parametrize("dose", [0.0, 0.25, 0.5, 1.0])
def test_calls_go_unanswered_as_often_as_the_dose_says(dose: float) -> None:
    world = make(FAMILY, seed=1).setting.world.fork()
    calls = [Call("ticketdesk", "get_ticket", {"ticket_id": f"T-{number}"}) for number in range(4000)]
    expected = 4000 * Flaky.max_share * dose
    assert abs(len(strikes(world, calls, dose)) - expected) <= 5 * expected**0.5


def test_at_dose_0_every_call_is_answered() -> None:
    for seed in range(20):
        for agent in ("expert", "random"):
            assert all(turn.reply.code != NO_ANSWER for turn in played(agent, seed, chaos=0.0).turns)


def test_an_unanswered_read_wrote_nothing_and_an_unanswered_write_did_or_did_not() -> None:
    outcomes = set()
    for seed in range(60):
        env = make(FAMILY, seed=seed, chaos={"flaky": 1.0})
        journal = len(env.world.journal)
        if step(env, "ticketdesk.get_ticket", ticket_id=role(env, "ticket")).code == NO_ANSWER:
            assert len(env.world.journal) == journal
        params = {"ticket_id": role(env, "ticket"), "text": "?"}
        if step(env, "ticketdesk.comment", **params).code == NO_ANSWER:
            outcomes.add(len(env.world.journal) - journal)
    assert outcomes == {0, 1}


def test_an_unanswered_closing_did_not_close() -> None:
    silent = 0
    closing: dict[str, Any] = {"resolution": "declined", "reason": "no_budget", "evidence": []}
    for seed in range(40):
        env = make(FAMILY, seed=seed, chaos={"flaky": 1.0})
        if step(env, "ticketdesk.resolve_ticket", ticket_id=role(env, "ticket"), **closing).code == NO_ANSWER:
            silent += 1
            assert not env.done
    assert silent > 0


def test_waiting_is_always_answered() -> None:
    env = make(FAMILY, seed=1, chaos=1.0)
    while not env.done:
        assert step(env, "ticketdesk.wait", hours=1).code == "ok"


def test_reading_one_record_more_shifts_no_fault_elsewhere() -> None:
    for seed in range(20):
        calls = [turn.call for turn in played("expert", seed).turns]
        extra = [Call("datahub", "read_policy", {"policy_id": "P-0"})]
        world = make(FAMILY, seed=seed).setting.world
        plain, longer = strikes(world.fork(), calls, 1.0), strikes(world.fork(), extra * 5 + calls, 1.0)
        assert plain == {number - 5: carried for number, carried in longer.items() if number >= 5}


# -- task ids ----------------------------------------------------------------------------------------------------------


@STEADY
@given(percents)
def test_any_doses_make_a_task_id_of_at_most_120_characters_that_reads_back(doses: dict[str, int]) -> None:
    task = task_named(FAMILY, 10**12 - 1, {dial: percent / 100 for dial, percent in doses.items()}, "validation")
    assert len(str(task)) <= 120
    assert TaskId.parse(str(task)) == task
    assert read_doses(task.doses) == doses


def test_the_budget_grows_with_the_highest_dial_and_never_with_the_causes() -> None:
    budgets = [make(task_id(3, dose)).max_steps for dose in ("0", "25", "50", "75", "100")]
    assert budgets == sorted(set(budgets))
    for dose in ("0", "50", "100"):
        assert len({make(task_id(seed, dose)).max_steps for seed in range(20)}) == 1
    assert make(task_id(3, "s50")).max_steps == make(task_id(3, "50")).max_steps


def test_an_injector_of_mess_lets_every_call_through() -> None:
    world = make(FAMILY, seed=1).setting.world.fork()
    call = Call("ticketdesk", "list_tickets", {})
    tool = TOOLBOX.tools["ticketdesk", "list_tickets"]
    for injector in INJECTORS:
        if not isinstance(injector, Flaky):
            assert injector.intercept(1.0, world, tool, call) is None
