"""Tests of several actors on one case under one clock."""

import pickle
import re
from collections.abc import Iterable

import pytest

from companyos.assurance.replay import replay
from companyos.company import TOOLBOX, Comment, Message, Mind, Person
from companyos.company.people import has_news
from companyos.core.calls import EPISODE_OVER, NO_STEPS_LEFT, OK, Call
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, ReplayDiffers
from companyos.core.world import HOUR
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.chat import messages
from companyos.env.multi_actor import chairs, cooperate, expert, play_round
from companyos.families import FAMILIES, SHORT_FAMILIES
from tests.helpers import me, ticket

# The families in which a colleague waits for the statements of others.
CROSSING = ("incident_response", "contract_renewal", "employee_offboarding", "data_deletion")
WAIT = Call("ticketdesk", "wait", {"hours": 24})
LIST = Call("ticketdesk", "list_tickets")


def handed_over(name: str, seed: int = 1, chaos: float = 0.0) -> CompanyEnv:
    task_id = make(name, seed=seed, chaos=chaos).task_id
    return make(task_id, actors=chairs(task_id))


def ask(env: CompanyEnv, actor: str) -> None:
    """Let the person who works the task ask a colleague about the ticket."""
    assert (
        env.step(Call("ticketdesk", "comment", {"ticket_id": ticket(env).id, "text": "Your part?", "to": actor})).code == OK
    )


def statements(env: CompanyEnv, author: str) -> list[dict[str, str]]:
    return [comment.facts for comment in env.world.all(Comment) if comment.author == author and comment.facts]


def without(env: CompanyEnv, silent: Iterable[str]) -> None:
    """Let experts play all actors except those who stay silent."""
    cooperate(env, {actor: expert(env, actor) for actor in env.actors if actor not in silent})


def needed(env: CompanyEnv) -> set[str]:
    """Return the actors who state something when experts play all of them."""
    solved = env.fork()
    cooperate(solved)
    return {actor for actor in env.actors if statements(solved, actor)}


# -- who can be handed over --------------------------------------------------------------------------------------------


def test_the_families_that_cross_departments_are_those_with_somebody_who_comes_after_others() -> None:
    found = []
    for name in SHORT_FAMILIES:
        world = make(name, seed=1).world
        if any(mind.after for mind in world.all(Mind)):
            found.append(name)
    assert sorted(found) == sorted(CROSSING)


@pytest.mark.parametrize("name", CROSSING)
def test_chairs_reach_into_other_departments_and_are_named_by_office_or_handle(name: str) -> None:
    env = make(name, seed=1)
    offered = chairs(env.task_id)
    assert len(offered) >= 2
    people = [env.world.get(Person, handle) for handle in offered.values()]
    assert [person.role for person in people] == list(offered)
    assert {person.department for person in people} - {env.world.get(Person, me(env)).department}
    by_office, by_handle = (make(env.task_id, actors=named) for named in (offered, offered.values()))
    assert by_office.actors == by_handle.actors == (me(env), *offered.values())


@pytest.mark.parametrize("actors", [["Astronaut"], ["@no.body"], [""], "Legal Counsel"])
def test_a_person_who_cannot_be_played_is_refused_with_a_list_of_those_who_can(actors: Iterable[str]) -> None:
    with pytest.raises(BadChoice, match=r"unknown actor .*; valid: .*Legal Counsel"):
        make("data_deletion", seed=1, actors=actors)


def test_nobody_acts_in_a_chair_that_was_not_handed_over() -> None:
    env = make("data_deletion", seed=1, actors=["Legal Counsel"])
    steward = chairs(env.task_id)["Data Steward"]
    for act in (lambda: env.step(LIST, steward), lambda: env.look(steward), lambda: play_round(env, {steward: LIST})):
        with pytest.raises(BadChoice, match="unknown actor"):
            act()
    assert not env.turns


# -- what somebody in a chair sees and may do --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CROSSING)
def test_a_brief_says_who_one_is_and_what_one_alone_knows_and_nobody_elses_does(name: str) -> None:
    env = handed_over(name)
    for actor in env.actors[1:]:
        brief, mind = env.look(actor).task, env.world.get(Mind, actor)
        assert actor in brief
        assert all(f"{fact}={value}" in brief for fact, value in mind.knows[ticket(env).id].items())
        assert all(f"{who} has stated {what}" in brief for who, what in mind.after.get(ticket(env).id, {}).items())
        others = [other for other in env.actors if other != actor]
        assert not any(
            f"{fact}={value}" in env.look(o).task for o in others for fact, value in mind.knows[ticket(env).id].items()
        )
        assert env.look(actor).tools == env.reset().tools
        assert env.look(actor).text.startswith(f"[{env.look().now}, step 0 of {env.max_steps}] ok\nYou are ")


def test_each_has_their_own_desk_permissions_inbox_and_changes() -> None:
    env = make("data_deletion", seed=1, actors=["Legal Counsel"])
    counsel = env.actors[1]
    ask(env, counsel)
    inbox = env.step(Call("ticketdesk", "read_inbox"), counsel).last_result["rows"]
    assert [letter["sender"] for letter in inbox] == [me(env)]
    assert counsel not in str(env.step(Call("ticketdesk", "read_inbox")).last_result)
    write = {"ticket_id": ticket(env).id, "field": "priority", "value": "low"}
    assert env.step(Call("ticketdesk", "update_ticket", write), counsel).code == "other_desk"
    said = {"ticket_id": ticket(env).id, "text": "Let me see.", "to": me(env)}
    assert env.step(Call("ticketdesk", "comment", said), counsel).last_result["author"] == counsel
    assert env.step(Call("ticketdesk", "my_changes"), counsel).last_result["total"] == 1
    assert env.step(Call("ticketdesk", "my_changes")).last_result["total"] == 1


def test_a_program_no_longer_acts_in_a_chair_that_was_handed_over_and_does_in_the_others() -> None:
    env = make("data_deletion", seed=1, actors=["Legal Counsel"])
    counsel, steward = env.actors[1], chairs(env.task_id)["Data Steward"]
    ask(env, counsel)
    ask(env, steward)
    env.world.advance(200 * HOUR)
    senders = {message.sender for message in env.world.all(Message) if message.to == me(env) and message.topic == "comment"}
    assert senders == {steward}
    assert has_news(env.world, counsel)


@pytest.mark.parametrize("name", CROSSING)
def test_the_expert_of_a_chair_uses_only_what_its_brief_and_the_replies_to_it_said(name: str) -> None:
    used = 0
    for seed in range(12):
        env = handed_over(name, seed, chaos=0.5)
        cooperate(env)
        for actor in env.actors[1:]:
            told = env.look(actor).task
            for turn in env.turns:
                if turn.actor != actor:
                    continue
                facts = turn.call.params.get("facts") or {}
                for value in (*facts, *facts.values(), *re.findall(r"[A-Z]-\d+|@[a-z]+\.[a-z]+", str(turn.call.params))):
                    assert value in told
                    used += 1
                told += f" {turn.reply.data} {turn.reply.message}"
    assert used > 20


# -- working together --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dose", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", CROSSING)
def test_experts_in_all_chairs_win_every_case(name: str, dose: float) -> None:
    for seed in range(60):
        env = handed_over(name, seed, dose)
        cooperate(env)
        assert env.success, (env.task_id, env.verdict)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in CROSSING])
def test_experts_in_all_chairs_win_in_every_family_with_chairs(name: str) -> None:
    for seed in range(6):
        env = handed_over(name, seed, 0.5)
        cooperate(env)
        assert env.success, (env.task_id, env.verdict)


@pytest.mark.parametrize("name", CROSSING)
def test_a_chair_that_stays_silent_loses_the_case_that_needs_it_and_no_other(name: str) -> None:
    lost = 0
    for seed in range(12):
        env = handed_over(name, seed, (0.0, 0.5, 1.0)[seed % 3])
        needs = needed(env)
        for silent in env.actors[1:]:
            tried = env.fork()
            without(tried, {silent})
            assert tried.done
            assert tried.success is (silent not in needs), (env.task_id, silent)
            lost += not tried.success
    assert lost >= 4


def test_with_all_other_chairs_silent_the_expert_runs_out_of_steps_and_nothing_crashes() -> None:
    for name in CROSSING:
        env = handed_over(name, 3)
        lone = needed(env)
        run_expert(env)
        assert env.done
        assert env.success is (not lone)


@pytest.mark.parametrize("name", CROSSING)
def test_the_same_calls_by_the_same_actors_give_the_same_bytes(name: str) -> None:
    env_a, env_b = (handed_over(name, 5, 0.5) for _ in range(2))
    cooperate(env_a)
    cooperate(env_b)
    assert env_a.transcript().to_jsonl() == env_b.transcript().to_jsonl()


@pytest.mark.parametrize("name", FAMILIES)
def test_without_actors_nothing_is_different(name: str) -> None:
    for seed in range(3):
        plain, empty = make(name, seed=seed, chaos=0.5), make(name, seed=seed, chaos=0.5, actors=[])
        run_expert(plain)
        cooperate(empty)
        assert plain.turns == empty.turns
        assert not re.search(r'"actors?":', plain.transcript().to_jsonl())
        assert handed_over(name, seed, 0.5).digest() == make(name, seed=seed, chaos=0.5).digest()


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_in_a_round_all_act_in_the_order_of_their_seats() -> None:
    env = handed_over("employee_offboarding")
    observations = play_round(env, dict.fromkeys(reversed(env.actors), LIST))
    assert tuple(observations) == env.actors
    assert [turn.actor for turn in env.turns] == ["", *env.actors[1:]]
    assert all(obs.code == OK for obs in observations.values())


def test_an_actor_who_waits_makes_no_step_while_others_work() -> None:
    env = handed_over("data_deletion")
    counsel, steward = env.actors[1:]
    before = env.world.now
    assert set(play_round(env, {me(env): WAIT, counsel: LIST, steward: WAIT})) == {counsel}
    assert env.world.now - before == TOOLBOX.tools["ticketdesk", "list_tickets"].minutes
    assert (env.step_count, env.steps_left(counsel), env.steps_left(steward)) == (0, env.max_steps - 1, env.max_steps)


def test_an_actor_with_a_new_message_gets_it_at_once() -> None:
    env = handed_over("data_deletion")
    counsel, steward = env.actors[1:]
    ask(env, counsel)
    before = env.world.now
    observations = play_round(env, {me(env): WAIT, counsel: WAIT, steward: WAIT})
    assert set(observations) == {counsel}
    assert [letter["sender"] for letter in observations[counsel].last_result["arrived"]] == [me(env)]
    assert env.world.now == before


def test_where_all_wait_the_shortest_wait_is_made_and_ends_with_anybodys_mail() -> None:
    env = handed_over("data_deletion")
    counsel, steward = env.actors[1:]
    before = env.world.now
    assert set(play_round(env, {me(env): WAIT, counsel: Call("ticketdesk", "wait", {"hours": 2}), steward: WAIT})) == {
        counsel
    }
    assert env.world.now - before == 2 * HOUR
    alone = handed_over("data_deletion", chaos=1.0)  # much news comes in on such days, for everybody
    start = alone.world.now
    play_round(alone, {me(alone): Call("ticketdesk", "wait", {"hours": 72})})
    assert alone.world.now - start < 72 * HOUR
    assert all(has_news(alone.world, actor) for actor in alone.actors[1:])


@pytest.mark.parametrize(
    "bad", [{}, "nonsense", {"app": "ticketdesk", "method": "wait", "params": {"hours": "long"}}, None, 7]
)
def test_a_bad_action_is_a_step_that_is_answered(bad: object) -> None:
    env = handed_over("data_deletion")
    counsel = env.actors[1]
    [(actor, obs)] = play_round(env, {counsel: bad}).items()
    assert (actor, obs.done) == (counsel, False)
    assert obs.code in ("bad_action", "bad_arguments")
    assert replay(env.transcript()).transcript() == env.transcript()


def test_no_chair_can_hold_up_an_episode_for_ever() -> None:
    env = handed_over("data_deletion")
    counsel = env.actors[1]
    rounds = 0
    while not env.done:
        play_round(env, {me(env): WAIT, counsel: LIST})
        rounds += 1
    assert rounds == 2 * env.max_steps
    assert env.steps_left(counsel) == 0
    assert env.step(LIST, counsel).code == EPISODE_OVER
    fresh = env.fresh_budget()
    assert fresh.step(LIST, counsel).code == OK


def test_an_actor_without_steps_left_is_told_so_and_nothing_happens() -> None:
    env = handed_over("data_deletion")
    counsel = env.actors[1]
    for _ in range(env.max_steps):
        assert env.step(LIST, counsel).code == OK
    digest, turns = env.digest(), len(env.turns)
    obs = env.step(LIST, counsel)
    assert (obs.code, obs.reward, obs.done) == (NO_STEPS_LEFT, 0.0, False)
    assert (env.digest(), len(env.turns)) == (digest, turns)
    assert env.step(LIST).code == OK


# -- forks, transcripts, taking over -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CROSSING)
def test_an_episode_forks_and_pickles_anywhere_and_experts_that_take_over_all_chairs_win(name: str) -> None:
    env = handed_over(name, 2, 0.5)
    solved = env.fork()
    cooperate(solved)
    for number, turn in enumerate(solved.turns[:-1]):
        assert env.step(turn.call, turn.actor).reply == turn.reply
        if number % 7 == 0:
            for again in (env.fork(), pickle.loads(pickle.dumps(env))):
                rest = again.fork()
                for later in solved.turns[number + 1 :]:
                    rest.step(later.call, later.actor)
                assert rest.transcript() == solved.transcript()
                fresh = again.fresh_budget()
                cooperate(fresh)
                assert fresh.success, (env.task_id, number)
    assert len(env.turns) == len(solved.turns) - 1


@pytest.mark.parametrize("name", CROSSING)
def test_a_transcript_says_who_called_and_replays(name: str) -> None:
    env = next(env for env in (handed_over(name, seed, 0.5) for seed in range(20)) if needed(env))
    cooperate(env)
    text = env.transcript().to_jsonl()
    recorded = Transcript.from_jsonl(text)
    assert recorded.header.actors == env.actors[1:]
    assert {turn.actor for turn in recorded.turns} <= {"", *env.actors[1:]}
    assert len({turn.actor for turn in recorded.turns}) > 1
    assert replay(text).transcript().to_jsonl() == text
    someone = next(turn.actor for turn in recorded.turns if turn.actor)
    with pytest.raises((ReplayDiffers, BadChoice)):
        replay(text.replace(f'"actor":"{someone}"', f'"actor":"{env.actors[0]}"', 1))


def test_a_chat_is_what_one_of_them_read_and_wrote() -> None:
    env = handed_over("contract_renewal", 4, 0.5)
    cooperate(env)
    for actor in ("", *env.actors[1:]):
        chat = messages(env.transcript(), actor)
        assert len(chat) == 2 + 2 * sum(turn.actor == actor for turn in env.turns)
        assert chat[1]["content"].endswith(env.look(actor).task)
