"""Several agents at work on one case, each playing another person, under one clock.

They act one after the other: `env.step(call, actor)` carries out a call at once, and its minutes pass for everybody. A
round is a series of such steps, so a transcript looks the same whether its turns were made in rounds or singly.
"""

from collections.abc import Mapping
from typing import Any

from companyos.company.colleagues import attend, colleague_of
from companyos.company.people import has_news
from companyos.company.programs import advance
from companyos.core.calls import Call, Program, parse
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.chairs import chairs_of
from companyos.env.observations import Observation
from companyos.families import ExpertStyle, family, setting


def chairs(task_id: str) -> dict[str, str]:
    """Return the handles of the colleagues whom an agent can play in a task, by office."""
    return chairs_of(setting(TaskId.parse(task_id)))


def play_round(env: CompanyEnv, calls: Mapping[str, Call | Mapping[str, Any] | object]) -> dict[str, Observation]:
    """Carry out one call per actor, in the order of `env.actors`, and return the observations of those who made a step.

    An actor whose call is `wait` makes no step while others act, unless it has a new message. If all wait, only the
    shortest wait is carried out; it ends when a message comes for anybody.
    """
    ready_calls = {actor: calls[actor] for actor in env.actors if actor in calls and env.steps_left(actor)}
    for stranger in calls.keys() - set(env.actors):
        env.steps_left(stranger)  # raises an error that lists the actors
    hours_by_actor = {actor: _hours(call) for actor, call in ready_calls.items()}
    acting = [actor for actor, hours in hours_by_actor.items() if not hours or has_news(env.world, actor)]
    if not acting and ready_calls:
        acting = [min(ready_calls, key=lambda actor: hours_by_actor[actor])]
    observations: dict[str, Observation] = {}
    for actor in acting:
        if not env.done:
            observations[actor] = env.step(ready_calls[actor], actor)
    return observations


def _hours(action: object) -> int:
    """Return for how many hours an action waits; 0 for every action that is not a valid wait."""
    call = parse(action)
    if not isinstance(call, Call) or call.tool != "ticketdesk.wait":
        return 0
    hours = call.params.get("hours", 8)
    return hours if isinstance(hours, int) and hours > 0 else 0


def expert(env: CompanyEnv, actor: str = "") -> Program:
    """Return a program that plays an actor correctly from here on: the family's expert, or the colleague's own program."""
    so_far = env.so_far(actor)
    if actor in ("", env.actors[0]):
        return family(TaskId.parse(env.task_id).family).expert(so_far, ExpertStyle())
    return attend(colleague_of(env.setting.world, actor), anew=bool(so_far.turns))


def cooperate(env: CompanyEnv, programs: Mapping[str, Program] | None = None) -> None:
    """Run one program per actor until the episode or all programs have ended. By default, the programs are experts."""
    running = dict(programs) if programs is not None else {actor: expert(env, actor) for actor in env.actors}
    next_calls = {actor: next(program) for actor, program in running.items()}
    while (observations := play_round(env, next_calls)) and not env.done:
        for actor, obs in observations.items():
            call = advance(running[actor], obs.reply)
            if call is None:
                del next_calls[actor]
            else:
                next_calls[actor] = call
