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

Named = tuple[str, list[Call]]  # a description, and a sequence of calls


def rewards_tell_nothing(name: str, seeds: Iterable[int]) -> int:
    """For the same calls, a task and its `ending` twins give the same rewards until a reply differs or the episode ends.

    Returns the number of compared turns, so that a caller can check that the law was really tested.
    """
    compared = 0
    for seed in seeds:
        ours = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        for fact, other in twins_with_other_ending(ours.task_id):
            for label, calls in sequences(ours, make(other), seed):
                compared += _compare(ours, make(other), fact, label, calls)
    return compared


def _compare(ours: CompanyEnv, theirs: CompanyEnv, fact: str, label: str, calls: list[Call]) -> int:
    ours.reset()
    for number, call in enumerate(calls):
        mine, other = ours.step(call), theirs.step(call)
        if ours.turns[-1].reply != theirs.turns[-1].reply or mine.done or other.done:
            return number
        if (mine.reward, ours.turns[-1].parts) != (other.reward, theirs.turns[-1].parts):
            raise LawBroken(
                f"{ours.task_id}: the reward reveals {fact} before any reply does: {label}, turn {number + 1}, {call}: "
                f"{ours.turns[-1].parts}, but {theirs.turns[-1].parts} on {theirs.task_id}"
            )
    return len(calls)


# -- sequences ---------------------------------------------------------------------------------------------------------


def sequences(ours: CompanyEnv, theirs: CompanyEnv, seed: int) -> Iterator[Named]:
    """Yield the sequences for a task and its twin: both experts' calls, only their writes, guesses, and mixtures."""
    ways = [_experts_calls(env) for env in (ours, theirs)]
    for side, calls in zip(("ours", "theirs"), ways, strict=True):
        writes = [
            call for call in calls if (tool := ALL_TOOLS.find(call)) and tool.writes and call.method != "resolve_ticket"
        ]
        yield f"the expert's calls, {side}", calls
        yield f"the expert's writes alone, {side}", writes
        yield f"the expert's writes, then idle calls, {side}", [*writes, *[_PASS_TIME] * 100]
        yield f"the expert's calls among random ones, {side}", _mixed(calls, _random_calls(ours, seed, len(calls)))
    yield "random calls", _random_calls(ours, seed, ours.max_steps)
    yield "every outcome set blindly", _outcomes(ours, theirs)
    yield "every request submitted blindly", _requests(ways)
    yield "verify and refresh everything", _preparations(ours)


def _experts_calls(env: CompanyEnv) -> list[Call]:
    solved = make(env.task_id)
    run_expert(solved)
    return [turn.call for turn in solved.turns]


def _random_calls(env: CompanyEnv, seed: int, count: int) -> list[Call]:
    """Return random candidate calls, made from what the replies of this episode have told."""
    trial, streams = make(env.task_id), Streams(f"laws_rewards/{seed}")
    told = Knowledge(trial.setting.case.brief)
    while not trial.done and trial.step_count < count:
        call = Candidates(told, trial.toolbox).sample(streams.at(trial.step_count))
        trial.step(call)
        told.hear(trial.turns[-1].reply)
    return [turn.call for turn in trial.turns]


def _mixed(one: list[Call], other: list[Call]) -> list[Call]:
    pairs = zip_longest(one, other)
    return [call for pair in pairs for call in pair if call is not None and call.method != "resolve_ticket"]


def _outcomes(ours: CompanyEnv, theirs: CompanyEnv) -> list[Call]:
    """Set each outcome field to the value that either twin requires, and to some others, and clear it each time."""
    ticket_id, roles = ours.setting.case.ticket_id, ours.setting.case.roles
    asked = [
        (goal.field, goal.value or "")
        for env in (ours, theirs)
        for goal in env.setting.ending.goals
        if isinstance(goal, TicketIs) and goal.ticket_id == ticket_id
    ]
    people = [record for record in roles.values() if ours.setting.world.peek(Person, record)]
    guesses = [(field, person) for field in OUTCOME_FIELDS[1:] for person in people]
    return [
        Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": value})
        for field, wanted in dict.fromkeys([*asked, *guesses])
        for value in (wanted, "")
    ]


def _requests(ways: list[list[Call]]) -> list[Call]:
    """Verify as the experts do, submit all their requests, and let time pass without reading the decisions."""
    calls = [call for way in ways for call in way]
    verified = [
        call for call in calls if call.method == "update_ticket" and call.params["field"] in ("priority", "verified")
    ]
    submitted = [call for call in calls if call.method == "submit_approval"]
    wait = Call("ticketdesk", "wait", {"hours": 1})
    return [*verified, *(step for call in submitted for step in (call, wait, *[_PASS_TIME] * 15)), *[_PASS_TIME] * 60]


def _preparations(env: CompanyEnv) -> list[Call]:
    """Verify with every entry of the case, refresh every metric of it, and read the metrics some time later."""
    ticket_id, roles, world = env.setting.case.ticket_id, env.setting.case.roles, env.setting.world
    entries = [record for record in roles.values() if world.peek(Entry, record)]
    figures = [record for record in roles.values() if world.peek(Metric, record)]
    fields = [("priority", "low"), ("blocked_by", ""), *(("verified", entry) for entry in entries)]
    return [
        *(Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": f, "value": v}) for f, v in fields),
        *(Call("datahub", "refresh_data", {"metric_name": figure}) for figure in figures),
        Call("ticketdesk", "wait", {"hours": 8}),
        *(Call("datahub", "query_metric", {"metric_name": figure}) for figure in figures),
    ]
