"""Stories of lost episodes: what was closed, what decides it, and what the expert would have done, in plain words."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from companyos.agents import play
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.assurance.twins import do, twins_with_other_ending
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, task_named
from companyos.evaluate.judge.blame import ACT, DAMAGE, TIME, Blame, blame
from companyos.evaluate.judge.blame_text import headline, sentences
from companyos.evaluate.judge.deciding import (
    NO_POLICY,
    NOT_ASKED,
    NOT_READ,
    READ,
    STALE,
    UNANSWERED,
    fact_in_this_case,
)
from companyos.evaluate.judge.habits import habit_of, habits
from companyos.families import FAMILIES, SHORT_FAMILIES, family
from companyos.families.kit.citations import Cites
from companyos.families.kit.goals import Goal
from tests.evaluate.helpers import transcript
from tests.helpers import role, staged, step, task_id, ticket

SEEDS = 3


@cache
def lost_by_habit(dial: str) -> tuple[Blame, ...]:
    """Return the blames of the careless agent that ignores a dial: up to one lost episode for each family."""
    blames = []
    for name in SHORT_FAMILIES:
        for seed in range(SEEDS):
            env = play(make(name, seed=seed, chaos={dial: 1.0}), Careless(HABITS[dial]))
            if not env.success:
                blames.append(blame(env.transcript()))
                break
    return tuple(blames)


def private_words(name: str) -> Iterator[str]:
    """Yield the names that only the code of a family uses: goals, and causes with underscores."""
    yield from (kind.__name__ for kind in Goal.__subclasses__())
    yield from (cause.name for cause in family(name).specs() if "_" in cause.name)


@pytest.mark.parametrize("dial", HABITS)
def test_every_careless_agent_gets_stories_without_private_words(dial: str) -> None:
    blames = lost_by_habit(dial)
    assert blames, f"no lost episode of the agent that ignores {dial}"
    for lost in blames:
        text = "\n".join([*sentences(lost), habit_of(lost)])
        spoken = [name for name in private_words(lost.task_id.partition("-")[0]) if re.search(rf"\b{name}\b", text)]
        assert spoken == [], (lost.task_id, text)
        assert lost.story is not None
        assert lost.story.required in text, lost.task_id
        assert lost.story.clause is not None, lost.task_id
        assert lost.story.clause.text in text, lost.task_id
        assert f"step {lost.step}" in text, lost.task_id
        assert (lost.story.plan.reasoned_call or lost.due)[:100] in text, lost.task_id


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("agent", ["close_at_once", "null"])
def test_an_agent_that_does_nothing_sensible_gets_a_story_in_every_family(agent: str, name: str) -> None:
    wrong = next(blamed for blamed in _blames(agent, name) if not blamed.success)
    assert wrong.story is not None
    lines = list(sentences(wrong))
    if wrong.kind == TIME:
        assert lines[0].startswith(f"Ran out of steps: all {wrong.story.max_steps} were used")
        assert habit_of(wrong) == "ran out of steps, mostly waiting"
    else:
        assert lines[0].startswith(f"Closed {wrong.story.ticket_id} as {wrong.story.closed} at step 1")
    assert all(line[0].isupper() or line[0].isdigit() for line in lines)


def _blames(agent: str, name: str) -> Iterator[Blame]:
    for variant in range(6):
        yield blame(play(make(name, seed=0), ADVERSARIES[agent].make(variant)).transcript())


# -- which fact, and when it was or could have been read ---------------------------------------------------------------


def closed(env: CompanyEnv, resolution: str, reason: str) -> Blame:
    evidence = {"resolution": resolution, "reason": reason, "evidence": []}
    step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **evidence)
    return blame(env.transcript())


def test_a_fact_that_was_read_is_told_with_its_step_and_value() -> None:
    env = staged(insurance="expired")
    calls = [turn.call for turn in transcript(env.task_id, "expert").turns]
    for call in calls[: [call.method for call in calls].index("get_entry") + 1]:
        env.step(call)
    read_at = env.step_count
    until = env.turns[-1].reply.data["insurance_until"]
    lost = closed(env, "completed", "all_checks_passed")
    assert lost.story is not None
    [fact] = lost.story.facts
    entry = role(env, "entry")
    assert (fact.cause, fact.how) == ("insurance", READ)
    assert fact.meaning == "whether the firm's insurance is still valid (here: expired)"
    assert fact.reading == f"Step {read_at} had shown it ({entry}'s insurance until is {until})."
    assert habit_of(lost) == "read the deciding fact, and closed against it"
    assert headline(lost) == (
        f"Closed {ticket(env).id} as completed (all checks passed) at step {read_at + 1}; "
        "the policies required on hold (document expired)."
    )


@pytest.mark.parametrize(
    ("searches", "expected"), [(0, "no reply had named {entry}"), (1, "after step 1, which named {entry}")]
)
def test_a_fact_that_was_not_read_is_told_with_the_step_from_which_it_could_have_been(searches: int, expected: str) -> None:
    env = staged(insurance="expired")
    for _ in range(searches):
        step(env, "datahub.search_register", query=ticket(env).reference)
    lost = closed(env, "completed", "all_checks_passed")
    assert lost.story is not None
    fact = next(fact for fact in lost.story.facts if fact.cause == "insurance")
    assert fact.how == NOT_READ
    assert expected.format(entry=role(env, "entry")) in fact.reading
    assert habit_of(lost) == "closed without reading the deciding fact"


def test_a_policy_that_was_never_opened_explains_the_failure_better_than_a_fact_that_was_read() -> None:
    """The firm handles personal data, and its score is between the two minimums: only the policy tells that it is low."""
    env = staged(score="over_minimum", personal_data=True)
    assert env.setting.ending.reason == "below_minimum"
    policy = next(record for goal in env.setting.ending.goals if isinstance(goal, Cites) for record, _ in goal.facts[1:])
    for call in (turn.call for turn in transcript(env.task_id, "expert").turns[:-1]):
        if call.params.get("policy_id") != policy:
            env.step(call)
    lost = closed(env, "completed", "all_checks_passed")
    assert lost.story is not None
    fact = lost.story.facts[0]
    assert fact.how == NO_POLICY
    assert fact.reading.endswith(f"But {policy}'s minimum personal, which had to be cited as well, was never read.")
    assert habit_of(lost) == "closed without reading the policy that says what follows from the deciding fact"
    assert any(line.startswith("The expert would have ") and policy in line for line in sentences(lost))


def test_a_false_claim_is_not_explained_by_records_of_other_checks() -> None:
    env = staged(amount="huge")
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    step(env, "ticketdesk.search_tickets", query=ticket(env).reference)
    lost = closed(env, "duplicate", "same_request")
    assert lost.story is not None
    [fact] = lost.story.facts
    assert (fact.cause, fact.how) == ("duplicate", READ)
    assert fact.meaning == "whether another open ticket asks for the same (here: no)"


@pytest.mark.parametrize("name", SHORT_FAMILIES)
@pytest.mark.parametrize("chaos", [0.0, 1.0])
def test_an_agent_that_reads_all_the_expert_reads_lacks_no_policy_or_record(name: str, chaos: float) -> None:
    """It closes the ticket wrongly after the expert's calls, so that only its judgement is to blame."""
    env = make(name, seed=1, chaos=chaos)
    for turn in transcript(env.task_id, "expert").turns[:-1]:
        env.step(turn.call)
    for _, twin in twins_with_other_ending(env.task_id):
        ending = make(twin).setting.ending
        lost = closed(env.fork(), ending.resolution, ending.reason)
        assert lost.story is not None
        assert {fact.how for fact in lost.story.facts} <= {READ}, (twin, lost.story.facts)


@pytest.mark.parametrize(
    ("family_name", "cause", "meaning"),
    [
        ("access_request", "idle", "whether the account is not used (here: no)"),
        ("vendor_onboarding", "personal_data", "whether the firm would handle personal data (here: no)"),
        (
            "incident_response",
            "runs",
            "whether the deployed build is the one that runs (here: no); only the engineer on call knows",
        ),
    ],
)
def test_a_fact_that_is_not_so_is_told_as_a_question_with_its_answer(family_name: str, cause: str, meaning: str) -> None:
    env = make(do(str(task_named(family_name, 1)), **{cause: False}))
    [spec] = [spec for spec in family(family_name).specs() if spec.name == cause]
    assert fact_in_this_case(env, spec) == meaning


def test_a_stale_reading_is_told_with_its_age() -> None:
    lost = next(
        lost for lost in lost_by_habit("stale") if lost.kind == ACT and lost.story and not lost.story.ending_is_right
    )
    assert lost.story is not None
    fact = lost.story.facts[0]
    assert fact.how == STALE
    assert re.search(r"Step \d+ had shown only an old measurement: \S+ was \d+, measured \d+ days before", fact.reading)
    assert habit_of(lost) == "closed without refreshing a stale metric"


@pytest.mark.parametrize(
    ("asks", "how", "words"),
    [(False, NOT_ASKED, "was never asked"), (True, UNANSWERED, "was asked at step 1, but no reply had shown the answer")],
)
def test_a_colleague_who_knows_the_fact_is_named(asks: bool, how: str, words: str) -> None:
    fine: dict[str, bool | str] = {
        "repeated": False,
        "conflict": False,
        "missing": False,
        "old": False,
        "gap": False,
        "hotel": "fair",
    }
    env = make(do(str(task_named("expense_report", 1)), **fine, budget="ample", meal="over"))
    assert env.setting.ending.reason == "above_limit"
    requester = role(env, "requester")
    if asks:
        env.step(Call("ticketdesk", "comment", {"ticket_id": ticket(env).id, "text": "How many guests?", "to": requester}))
    lost = closed(env, "completed", "all_checks_passed")
    assert lost.story is not None
    [fact] = [fact for fact in lost.story.facts if fact.cause == "meal"]
    assert fact.how == how
    assert words in fact.reading
    assert fact.reading.startswith(requester)


def test_a_lucky_success_tells_the_fact_that_was_not_read() -> None:
    env = staged()
    for turn in transcript(env.task_id, "expert").turns:
        tool = env.toolbox.find(turn.call)
        if tool is not None and (tool.writes or tool.method == "wait"):
            env.step(turn.call)
    lucky = blame(env.transcript())
    lines = list(sentences(lucky))
    assert lines[0] == "Success, but by luck: no reply had shown a fact that decides."
    assert any("was not read" in line for line in lines[1:])


def test_an_unfinished_episode_and_a_success_are_called_that() -> None:
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    assert list(sentences(blame(env.transcript()))) == [
        f"Not over: 1 of {env.max_steps} steps were made, and {ticket(env).id} is open."
    ]
    assert list(sentences(blame(transcript(task_id(1, "50"), "expert")))) == ["Success."]


# -- the right ending, but not rightly done; damage; time --------------------------------------------------------------


def test_a_right_ending_without_evidence_is_called_right_and_names_what_is_missing() -> None:
    env = staged(insurance="expired")
    for turn in transcript(env.task_id, "expert").turns[:-1]:
        env.step(turn.call)
    lost = closed(env, "on_hold", "document_expired")
    entry = role(env, "entry")
    expected = f"which is right, but the evidence should have cited {entry}'s insurance until, cited nothing."
    assert headline(lost).endswith(expected)
    assert habit_of(lost) == "closed for the right reason, but did not cite the deciding facts"


def test_damage_that_cannot_be_repaired_is_described() -> None:
    lost = next(lost for lost in lost_by_habit("hostile_text") if lost.kind == DAMAGE)
    assert "by damage that cannot be repaired: a comment was written on T-" in headline(lost)
    assert habit_of(lost) == "wrote on a ticket that is not part of the work"


def test_a_request_to_somebody_who_is_away_explains_why_the_steps_ran_out() -> None:
    lost = next(lost for lost in lost_by_habit("absence") if lost.kind == TIME)
    text = "\n".join(sentences(lost))
    assert re.search(r"A-\d+ was still waiting for @\S+, who is away until \d{4}-", text)
    assert re.search(r"Of the \d+ steps, \d+ went into waiting or looking for news", text)
    assert habit_of(lost) == "ran out of steps waiting for a signer who is away"


def test_the_most_frequent_refusal_explains_why_the_steps_ran_out() -> None:
    env = staged(block="waiting")
    blocker = role(env, "blocker")
    early = {"ticket_id": ticket(env).id, "resolution": "completed", "reason": "all_checks_passed", "evidence": []}
    step(env, "ticketdesk.update_ticket", ticket_id="T-0000", field="priority", value="P2")
    while not env.done:
        step(env, "ticketdesk.resolve_ticket", **early)
    lost = blame(env.transcript())
    assert lost.kind == TIME
    refused = env.max_steps - 1
    expected = f"{refused} of the {refused + 1} refused calls: blocked: {ticket(env).id} is blocked by {blocker}"
    assert any(line.startswith(expected) for line in sentences(lost)), list(sentences(lost))
    assert habit_of(lost) == "ran out of steps, mostly with refused calls"


def test_the_reason_of_the_expert_stands_with_the_call_that_it_leads_to() -> None:
    """An agent that closes at once has the expert start with searches, which explain nothing."""
    env = staged(insurance="expired")
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    lost = closed(env, "completed", "all_checks_passed")
    assert lost.story is not None
    plan = lost.story.plan
    assert plan.call.startswith("search_policies")
    [line] = [line for line in sentences(lost) if line.startswith("The expert would have ")]
    assert line.startswith(
        f"The expert would have gone on there, and its call {plan.reasoned_number} would have been: {plan.reasoned_call}"
    )
    assert plan.reasoned_call == f"get_entry {role(env, 'entry')}"
    later = plan.calls - plan.reasoned_number
    assert any(line.startswith(f"{later} calls later it would have finished: ") for line in sentences(lost))


def test_a_wrongly_closed_ticket_of_a_queue_is_the_subject_of_the_story() -> None:
    env = make("quarter_close", seed=0)
    own = env.setting.case.ticket_id
    for turn in transcript(env.task_id, "expert").turns:
        if turn.call.method == "resolve_ticket" and turn.call.params["ticket_id"] != own:
            wrong = {"resolution": "duplicate", "reason": "unused", "evidence": []}
            env.step(Call("ticketdesk", "resolve_ticket", turn.call.params | wrong))
            break
        env.step(turn.call)
    linked = env.turns[-1].call.params["ticket_id"]
    closed_at = env.step_count
    while not env.done:
        step(env, "ticketdesk.wait", hours=24)
    lost = blame(env.transcript())
    assert headline(lost).startswith(f"Closed {linked} as duplicate (unused) at step {closed_at}; the policies required ")
    assert habit_of(lost) == "closed a ticket for the wrong reason"


# -- habits ------------------------------------------------------------------------------------------------------------


def test_habits_count_every_failed_episode_once_and_the_most_frequent_is_first() -> None:
    blames = [lost for dial in ("stale", "absence", "hostile_text") for lost in lost_by_habit(dial)]
    blames.append(blame(transcript(task_id(1, "50"), "expert")))
    groups = habits(blames)
    assert sum(group.count for group in groups) == len(blames) - 1
    assert [group.count for group in groups] == sorted((group.count for group in groups), reverse=True)
    assert all(group.count == len(group.task_ids) for group in groups)


def test_an_exception_of_the_agent_is_the_story_of_the_episode() -> None:
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    left = blame(env.transcript(), raised="ValueError: no idea")
    assert list(sentences(left)) == ["The agent raised an exception, which ended the episode at step 1: ValueError: no idea"]
    assert [group.habit for group in habits([left])] == ["the agent raised ValueError: no idea"]
