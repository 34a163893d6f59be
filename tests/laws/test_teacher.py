"""Law: the teacher wins from every state that is not lost, and continues the work instead of starting again."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from companyos.agents.adversaries.slips import slip
from companyos.agents.baselines import RandomStyle
from companyos.agents.choices.candidates import Candidates
from companyos.core.calls import Call
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make
from companyos.env.knowledge import Knowledge
from companyos.env.teacher import LOST, Teacher, work_aloud
from companyos.families import FAMILIES
from tests.laws import DOSES, NAMES, seeds

MOST = 60  # the number of turns of an episode that are tested


def start(name: str, seed: int) -> CompanyEnv:
    return make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")


def as_the_expert(env: CompanyEnv, streams: Streams) -> Iterator[None]:
    for _ in work_aloud(env):
        yield


def jittered(env: CompanyEnv, streams: Streams) -> Iterator[None]:
    for _ in work_aloud(env, RandomStyle(streams)):
        yield


def sloppily(env: CompanyEnv, streams: Streams) -> Iterator[None]:
    """Play a sloppy agent: the expert's next call in 60 % of turns, else a random one, rarely one that cannot be undone."""
    told, teacher = Knowledge(env.setting.case.brief), Teacher(env)
    for number in range(MOST):
        due: Call | None = teacher.due().call
        call = Candidates(told, env.toolbox).sample(streams.at("call", number)) if streams.at(number).chance(0.4) else due
        if call is None:
            return
        trial = env.fork()
        trial.step(call)
        env.step(due if due and trial.lost() and streams.at("harm", number).chance(0.9) else call)
        told.hear(env.turns[-1].reply)
        yield


def after_slips(env: CompanyEnv, streams: Streams) -> Iterator[None]:
    slip(env, streams, from_middle=streams.at("middle").chance(0.5))
    yield


def meddling(env: CompanyEnv, streams: Streams) -> Iterator[None]:
    """Do what is due until a request is submitted, then meddle with the request and with the ticket."""
    ticket_id = env.setting.case.ticket_id
    teacher = Teacher(env)
    while (due := teacher.due().call) is not None:
        env.step(due)
        request = env.turns[-1].reply
        if due.method != "submit_approval" or not request.ok:
            continue
        looks = [
            Call("approvalflow", "check_status", {"approval_id": request.data["id"]}),
            Call("approvalflow", "list_approvals"),
        ]
        waits = [Call("ticketdesk", "wait", {"hours": 24})] * streams.at("days").between(0, 6)
        fields = {"approval": request.data["id"], "waiting_on": request.data["approver"]}
        writes = [
            Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": value, "force": True})
            for field, value in fields.items()
        ]
        takes_back = [Call("approvalflow", "withdraw", {"approval_id": request.data["id"]}), due]
        chosen = [streams.at(part).pick(calls) for part, calls in (("look", looks), ("write", writes), ("back", takes_back))]
        for call in [chosen[0], *waits, *chosen[1 : 2 + streams.at("takes back").chance(0.3)]]:
            if env.done:
                return
            env.step(call)
            yield
        return


PLAYERS: dict[str, Callable[[CompanyEnv, Streams], Iterator[None]]] = {
    "expert": as_the_expert,
    "jittered": jittered,
    "sloppy": sloppily,
    "slips": after_slips,
    "meddler": meddling,
}


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", NAMES)
def test_the_teacher_wins_from_every_state_that_is_not_lost(name: str, player: str) -> None:
    seen: Counter[str] = Counter()
    often = {"expert": 0.1, "jittered": 0.1, "sloppy": 0.1, "slips": 1.0, "meddler": 0.1}[player]
    for seed in seeds(40, 300, name=name) if player in ("slips", "meddler") else seeds(4, 40, name=name):
        env, streams = start(name, seed), Streams(f"teacher/{name}/{seed}/{player}")
        teacher = Teacher(env)
        for number, _ in enumerate(PLAYERS[player](env, streams)):
            if env.done:
                break
            due, lost = teacher.due(), env.lost()
            seen["states"] += 1
            assert (due.call is None) == (lost is not None), (env.task_id, number, due)
            if lost is not None:
                assert due.why == LOST + lost
                break
            if streams.at("follow", number).chance(often):
                seen["followed"] += 1
                assert followed(env).success, (env.task_id, number)
        seen["requests"] += sum(turn.call.method == "submit_approval" for turn in env.turns)
    print(name, player, dict(seen))
    assert seen["followed"] or (player == "meddler" and not seen["requests"])  # some families need no signature


def followed(env: CompanyEnv) -> CompanyEnv:
    """Follow the teacher to the end of the episode, with a fresh budget, and return it."""
    again = env.fresh_budget()
    teacher = Teacher(again)
    while not again.done:
        due = teacher.due()
        assert due.call is not None, (env.task_id, due.why)
        again.step(due.call)
    return again


@pytest.mark.parametrize("name", NAMES)
def test_on_the_experts_own_way_its_next_call_is_due_with_its_working_lines(name: str) -> None:
    for seed in seeds(5, 50, name=name):
        solved = start(name, seed)
        way = list(work_aloud(solved))
        env = start(name, seed)
        teacher, unverified = Teacher(env), Teacher(env)
        for number, spoken in enumerate(way):
            due = teacher.due()
            assert (due.call, due.working) == (spoken.call, spoken.working), (env.task_id, number)
            assert due.steps == len(way) - number
            guess = unverified.due(verify=False)
            assert (guess.call, guess.working) == (spoken.call, spoken.working), (env.task_id, number)
            env.step(spoken.call)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if not family.long])
def test_a_teacher_that_joins_in_the_middle_gives_the_same_advice(name: str) -> None:
    for seed in range(3):
        env = start(name, seed)
        follows = Teacher(env)
        for number, _ in enumerate(sloppily(env, Streams(f"joins/{name}/{seed}"))):
            if env.done or env.lost():
                break
            if number % 5 == 0:
                joins = Teacher(env)
                assert follows.due(verify=False).call == joins.due(verify=False).call, (env.task_id, number)


def test_a_request_that_was_read_while_pending_is_read_again_after_a_wait() -> None:
    env = make("expense_report", seed=5, chaos=0.0, reward="sparse")
    teacher = Teacher(env)
    while not env.turns or env.turns[-1].call.method != "submit_approval":
        due = teacher.due().call
        assert due is not None
        env.step(due)
    look = Call("approvalflow", "check_status", {"approval_id": env.turns[-1].reply.data["id"]})
    wait = teacher.due().call
    assert wait is not None
    assert wait.method == "wait"
    for call in (look, wait):
        env.step(call)
    assert teacher.due().call == look
