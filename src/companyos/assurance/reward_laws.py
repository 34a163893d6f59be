"""A law on rewards: rewards during an episode reveal nothing about its right ending.

The law raises `LawBroken` with a message that names the task, its twin, the sequence of calls and the turn.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from companyos.agents.choices.candidates import Candidates
from companyos.assurance.laws import DOSES
from companyos.assurance.twins import twins_with_other_ending
from companyos.company import ALL_TOOLS, Entry, Metric, Person
from companyos.core.calls import Call
from companyos.core.errors import LawBroken
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.knowledge import Knowledge
from companyos.families.kit.goals import TicketIs

OUTCOME_FIELDS = ("duplicate_of", "escalated_to", "waiting_on", "assignee")
_PASS_TIME = Call("approvalflow", "list_approval_types", {})  # takes two minutes; its reply says nothing about requests

LabelledCalls = tuple[str, list[Call]]  # a description, and a sequence of calls


def rewards_tell_nothing(name: str, seeds: Iterable[int]) -> int:
    """For the same calls, a task and its `ending` twins give the same rewards until a reply differs or the episode ends.

    Returns the number of compared turns, so that a caller can check that the law was really tested.
    """
    compared = 0
    for seed in seeds:
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        for fact, twin_id in twins_with_other_ending(env.task_id):
            for label, calls in sequences(env, make(twin_id), seed):
                compared += _compare(env, make(twin_id), fact, label, calls)
    return compared


def _compare(env: CompanyEnv, twin_env: CompanyEnv, fact: str, label: str, calls: list[Call]) -> int:
    """Make the same calls in both episodes, and return how many turns were compared."""
    env.reset()
    for number, call in enumerate(calls):
        obs, twin_obs = env.step(call), twin_env.step(call)
        if env.turns[-1].reply != twin_env.turns[-1].reply or obs.done or twin_obs.done:
            return number
        if (obs.reward, env.turns[-1].parts) != (twin_obs.reward, twin_env.turns[-1].parts):
            raise LawBroken(
                f"{env.task_id}: the reward reveals {fact} before any reply does: {label}, turn {number + 1}, {call}: "
                f"{env.turns[-1].parts}, but {twin_env.turns[-1].parts} on {twin_env.task_id}"
            )
    return len(calls)


# -- sequences ---------------------------------------------------------------------------------------------------------


def sequences(env: CompanyEnv, twin_env: CompanyEnv, seed: int) -> Iterator[LabelledCalls]:
    """Yield the sequences for a task and its twin: both experts' calls, only their writes, guesses, and mixtures."""
    calls_of_experts = [_experts_calls(env), _experts_calls(twin_env)]
    for side, calls in zip(("of the task", "of the twin"), calls_of_experts, strict=True):
        writes = [
            call for call in calls if (tool := ALL_TOOLS.find(call)) and tool.writes and call.method != "resolve_ticket"
        ]
        yield f"the expert's calls, {side}", calls
        yield f"the expert's writes alone, {side}", writes
        yield f"the expert's writes, then idle calls, {side}", [*writes, *[_PASS_TIME] * 100]
        yield f"the expert's calls among random ones, {side}", _mixed(calls, _random_calls(env, seed, len(calls)))
    yield "random calls", _random_calls(env, seed, env.max_steps)
    yield "every outcome set blindly", _outcomes(env, twin_env)
    yield "every request submitted blindly", _requests(calls_of_experts)
    yield "verify and refresh everything", _preparations(env)


def _experts_calls(env: CompanyEnv) -> list[Call]:
    solved = make(env.task_id)
    run_expert(solved)
    return [turn.call for turn in solved.turns]


def _random_calls(env: CompanyEnv, seed: int, count: int) -> list[Call]:
    """Return random candidate calls, made from what the replies of this episode have told."""
    trial, streams = make(env.task_id), Streams(f"laws_rewards/{seed}")
    knowledge = Knowledge(trial.setting.case.brief)
    while not trial.done and trial.step_count < count:
        call = Candidates(knowledge, trial.toolbox).sample(streams.at(trial.step_count))
        trial.step(call)
        knowledge.hear(trial.turns[-1].reply)
    return [turn.call for turn in trial.turns]


def _mixed(calls: list[Call], other_calls: list[Call]) -> list[Call]:
    """Return calls of both lists in turn, without those that close a ticket."""
    pairs = zip_longest(calls, other_calls)
    return [call for pair in pairs for call in pair if call is not None and call.method != "resolve_ticket"]


def _outcomes(env: CompanyEnv, twin_env: CompanyEnv) -> list[Call]:
    """Set each outcome field to the value that either twin requires, and to some others, and clear it each time."""
    ticket_id, roles = env.setting.case.ticket_id, env.setting.case.roles
    required = [
        (goal.field, goal.value or "")
        for goal in (*env.setting.ending.goals, *twin_env.setting.ending.goals)
        if isinstance(goal, TicketIs) and goal.ticket_id == ticket_id
    ]
    people = [record for record in roles.values() if env.setting.world.peek(Person, record)]
    guesses = [(field, person) for field in OUTCOME_FIELDS[1:] for person in people]
    return [
        Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": value})
        for field, new_value in dict.fromkeys([*required, *guesses])
        for value in (new_value, "")
    ]


def _requests(calls_of_experts: list[list[Call]]) -> list[Call]:
    """Verify as the experts do, submit all their requests, and let time pass without reading the decisions."""
    calls = [call for expert_calls in calls_of_experts for call in expert_calls]
    verifications = [
        call for call in calls if call.method == "update_ticket" and call.params["field"] in ("priority", "verified")
    ]
    submissions = [call for call in calls if call.method == "submit_approval"]
    wait = Call("ticketdesk", "wait", {"hours": 1})
    with_pauses = [step for call in submissions for step in (call, wait, *[_PASS_TIME] * 15)]
    return [*verifications, *with_pauses, *[_PASS_TIME] * 60]


def _preparations(env: CompanyEnv) -> list[Call]:
    """Verify with every entry of the case, refresh every metric of it, and read the metrics some time later."""
    ticket_id, roles, world = env.setting.case.ticket_id, env.setting.case.roles, env.setting.world
    entries = [record for record in roles.values() if world.peek(Entry, record)]
    metrics = [record for record in roles.values() if world.peek(Metric, record)]
    updates = [("priority", "low"), ("blocked_by", ""), *(("verified", entry) for entry in entries)]
    return [
        *(
            Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": value})
            for field, value in updates
        ),
        *(Call("datahub", "refresh_data", {"metric_name": metric}) for metric in metrics),
        Call("ticketdesk", "wait", {"hours": 8}),
        *(Call("datahub", "query_metric", {"metric_name": metric}) for metric in metrics),
    ]
