"""Together: several at work on one case, each in a chair of their own, under one clock.

One acts at a time: `env.step(call, actor)` carries out a call at once, and its minutes pass for everybody. A round is made
of such steps, so a transcript is one line after the other, however its turns came about.
"""

from collections.abc import Mapping
from typing import Any

from companyos.company.clerk import advance
from companyos.company.colleagues import attend, desk_of
from companyos.company.people import has_news
from companyos.core.calls import Call, Program, parse
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.chairs import chairs_of
from companyos.env.observations import Observation
from companyos.families import Taste, family, setting


def chairs(task_id: str) -> dict[str, str]:
    """The chairs of a task that can be handed over, by office, with the handle of who sits there."""
    return chairs_of(setting(TaskId.parse(task_id)))


def play_round(env: CompanyEnv, calls: Mapping[str, Call | Mapping[str, Any] | object]) -> dict[str, Observation]:
    """Lets everybody act who has a call, in the order of `env.actors`; gives what those see who made a step.

    Whoever waits makes none while others are at work, unless mail has come for them. Where all wait, the shortest wait is
    made, and ends when something comes for anybody.
    """
    awake = {actor: calls[actor] for actor in env.actors if actor in calls and env.steps_left(actor)}
    for stranger in calls.keys() - set(env.actors):
        env.steps_left(stranger)  # says who there is
    waits = {actor: _hours(call) for actor, call in awake.items()}
    acting = [actor for actor, hours in waits.items() if not hours or has_news(env.world, actor)]
    if not acting and awake:
        acting = [min(awake, key=lambda actor: waits[actor])]
    made: dict[str, Observation] = {}
    for actor in acting:
        if not env.done:
            made[actor] = env.step(awake[actor], actor)
    return made


def _hours(action: object) -> int:
    """How long an action would wait; 0 for one that does something, were it a mistake."""
    call = parse(action)
    if not isinstance(call, Call) or call.tool != "ticketdesk.wait":
        return 0
    hours = call.params.get("hours", 8)
    return hours if isinstance(hours, int) and hours > 0 else 0


def expert(env: CompanyEnv, actor: str = "") -> Program:
    """Whoever does right in this chair, from here on: the family's expert, or what the colleague would have done."""
    memory = env.memory(actor)
    if actor in ("", env.actors[0]):
        return family(TaskId.parse(env.task_id).family).expert(memory, Taste())
    return attend(desk_of(env.setting.world, actor), anew=bool(memory.turns))


def cooperate(env: CompanyEnv, programs: Mapping[str, Program] | None = None) -> None:
    """Lets programs work side by side until it is over or none has anything left to do; where none are given, experts."""
    at_work = dict(programs) if programs is not None else {actor: expert(env, actor) for actor in env.actors}
    due = {actor: next(program) for actor, program in at_work.items()}
    while (made := play_round(env, due)) and not env.done:
        for actor, obs in made.items():
            call = advance(at_work[actor], obs.reply)
            if call is None:
                del due[actor]
            else:
                due[actor] = call
