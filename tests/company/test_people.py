"""Tests of people: working hours, absences, delegates and messages."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from companyos.company import Message, Mind, Person
from companyos.company.people import answer_minute, away, inbox_counter, next_working_minute, post, seen_counter, stand_in
from companyos.core.world import DAY, HOUR
from companyos.env import CompanyEnv, make
from companyos.families.kit.company import SEEDS_PER_COMPANY
from tests.helpers import STEADY, at_work, letters, me, role, staged, task_id

minutes = st.integers(0, 400 * DAY)
SOMEBODY = Person("@a.b", "A B", "Clerk", "Finance", "finance", None, None, None, "CC-1")


def person(env: CompanyEnv, name: str) -> Person:
    return env.world.get(Person, role(env, name))


def test_somebody_is_away_from_the_first_minute_to_the_last_and_no_longer() -> None:
    gone = replace(SOMEBODY, away_from=100, away_until=200)
    assert [away(gone, minute) for minute in (99, 100, 199, 200)] == [False, True, True, False]
    assert not away(SOMEBODY, 150)


@STEADY
@given(minutes)
def test_work_goes_on_at_the_next_working_minute_and_not_before(minute: int) -> None:
    found = next_working_minute(SOMEBODY, minute)
    assert at_work(found)
    assert not any(at_work(passed) for passed in range(minute, found, 15))
    assert found - minute < 3 * DAY
    assert (found == minute) == at_work(minute)


@STEADY
@given(minutes, st.integers(1, 60))
def test_an_absent_person_works_again_only_after_returning(minute: int, days: int) -> None:
    back = minute // DAY * DAY + days * DAY
    gone = replace(SOMEBODY, away_from=minute - DAY, away_until=back)
    found = next_working_minute(gone, minute)
    assert found >= back
    assert at_work(found)
    assert not away(gone, found)


def test_the_chain_of_delegates_ends_at_the_first_who_is_in() -> None:
    in_office = staged()
    assert stand_in(in_office.world, person(in_office, "cfo")).id == role(in_office, "cfo")
    one_away = staged(cfo_away=True)
    assert stand_in(one_away.world, person(one_away, "cfo")).id == role(one_away, "controller")
    two_away = staged(cfo_away=True, controller_away=True)
    assert stand_in(two_away.world, person(two_away, "cfo")).id == role(two_away, "treasurer")
    delegate_away = staged(controller_away=True)
    assert stand_in(delegate_away.world, person(delegate_away, "cfo")).id == role(delegate_away, "cfo")


def test_nobody_stands_in_for_a_person_without_a_delegate() -> None:
    env = staged(cfo_away=True, controller_away=True)
    treasurer = person(env, "treasurer")
    env.world.put_at_start(replace(treasurer, away_from=0, away_until=env.world.now + DAY))
    assert stand_in(env.world, person(env, "cfo")).id == treasurer.id


@STEADY
@given(st.integers(0, 14 * DAY), st.sampled_from(["head", "cfo", "treasurer", "compliance"]))
def test_an_answer_comes_in_working_hours_and_not_before_ones_pace(later: int, who: str) -> None:
    env = staged()
    env.world.advance(later)
    due = answer_minute(env.world, role(env, who), me(env))
    assert at_work(due)
    assert due >= env.world.now + env.world.get(Mind, role(env, who)).pace


def test_in_working_hours_an_answer_takes_exactly_ones_pace() -> None:
    env = staged()
    start_of_week = env.world.now - env.world.now % (7 * DAY)
    env.world.advance(start_of_week + 7 * DAY + 10 * HOUR - env.world.now)
    due = answer_minute(env.world, role(env, "head"), me(env))
    assert due == env.world.now + env.world.get(Mind, role(env, "head")).pace


def test_a_colleague_handles_a_message_and_an_agents_message_waits_to_be_read() -> None:
    env = staged()
    serial = env.world._serial
    post(env.world, me(env), role(env, "cfo"), "bulletin", None, "Cake in the kitchen.")
    assert env.world._serial == serial
    got, seen = env.world.counter(inbox_counter(me(env))), env.world.counter(seen_counter(me(env)))
    assert got - seen == 1
    assert letters(env)[-1].text == "Cake in the kitchen."
    post(env.world, role(env, "cfo"), me(env), "decision", None, "Thanks.")
    assert env.world._serial == serial + 1


def test_messages_are_numbered_in_order() -> None:
    env = staged()
    numbers = [int(post(env.world, me(env), role(env, "cfo"), "bulletin", None, "x").id[2:]) for _ in range(3)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert numbers[0] > max(int(message.id[2:]) for message in env.setting.world.all(Message))


# -- the backdrop ------------------------------------------------------------------------------------------------------


def test_every_company_has_at_least_12_people_with_a_mind_each() -> None:
    for seed in range(0, 20 * SEEDS_PER_COMPANY, SEEDS_PER_COMPANY):
        world = make(task_id(seed)).world
        people = list(world.all(Person))
        assert len(people) >= 12
        assert {mind.id for mind in world.all(Mind)} == {someone.id for someone in people}


def test_managers_delegates_and_roles_of_every_company_are_in_order() -> None:
    for seed in range(0, 20 * SEEDS_PER_COMPANY, SEEDS_PER_COMPANY):
        people = {someone.id: someone for someone in make(task_id(seed, "100")).world.all(Person)}
        signing = [someone.role for someone in people.values() if someone.limit is not None]
        assert len(set(signing)) == len(signing)
        assert [someone.role for someone in people.values() if someone.manager is None] == ["CEO"]
        for someone in people.values():
            above, steps = someone, 0
            while above.manager is not None:
                above, steps = people[above.manager], steps + 1
                assert steps < len(people)
            chain = [someone.id]
            while (delegate := people[chain[-1]].delegate) is not None:
                assert delegate not in chain
                chain.append(delegate)


def test_every_company_starts_on_a_working_morning() -> None:
    for seed in range(50):
        now = make(task_id(seed)).world.now
        assert at_work(now)
        assert now // DAY % 7 <= 3
