"""Views of a session: what its agent has seen (`render`), and everything about it, for the operator (`inspect`)."""

from collections.abc import Iterator
from html import escape
from typing import Any, Literal

import msgspec

from companyos.company import KINDS
from companyos.core.calls import Call
from companyos.core.episode import Turn
from companyos.env import CompanyEnv
from companyos.env.line_syntax import write_line
from companyos.env.observations import Observation
from companyos.serve.messages.bodies import agent_observation
from companyos.serve.sessions.screens import Picture
from companyos.serve.sessions.sessions import Session

View = Literal["text", "html", "json"]
MEDIA_TYPES: dict[View | Picture, str] = {
    "text": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "jpeg": "image/jpeg",
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>CompanyOS</title>
<style>body{{font:15px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}}pre{{white-space:pre-wrap}}</style>
<p>{brief}</p>
{turns}
<p>{now}, step {step} of {max_steps}</p>
</html>
"""
_TURN = "<h4>{number}. {call}</h4><pre>{text}</pre>"


def render(session: Session, view: View) -> str:
    """Return what the agent has seen: no task id, no reward, no verdict."""
    if view == "json":
        return msgspec.json.encode(agent_observation(session.last)).decode()
    env, last = session.env, session.last
    if view == "text":
        return last.text if last.step == 0 else f"{last.task}\n\n{last.text}"
    turns = "\n".join(
        _TURN.format(number=obs.step, call=escape(write_line(call)), text=escape(obs.text)) for call, obs in _history(env)
    )
    return _PAGE.format(brief=escape(last.task), turns=turns, now=last.now, step=last.step, max_steps=last.max_steps)


def _history(env: CompanyEnv) -> Iterator[tuple[Call, Observation]]:
    """Yield each call and the observation after it."""
    for number, turn in enumerate(env.turns, 1):
        yield turn.call, Observation(env.scene, turn.now, number, turn.reply, 0.0, False)


class Inspection(msgspec.Struct, frozen=True):
    """Everything about an episode, ground truth included. For the operator of the server, never for agents."""

    task_id: str
    reward: str
    digest: str
    done: bool
    success: bool | None
    lost: str | None
    causes: Any
    ending: str
    resolution: str
    reason: str
    goals: dict[str, bool]
    turns: list[Turn]
    records: dict[str, list[Any]]  # those that the case has added or changed, by type
    other_records: dict[str, int]  # how many others the company has, by type


def inspect(session: Session) -> Inspection:
    """Return everything about the episode of a session."""
    env = session.env
    world, ending = env.world, env.setting.ending
    return Inspection(
        task_id=env.task_id,
        reward=env.reward,
        digest=env.digest(),
        done=env.done,
        success=env.success,
        lost=env.lost(),
        causes=env.setting.causes,
        ending=ending.name,
        resolution=ending.resolution,
        reason=ending.reason,
        goals={name: goal.holds(world) for name, goal in ending.named_goals.items()},
        turns=env.turns,
        records={kind.__name__: list(world.own(kind).values()) for kind in KINDS},
        other_records={kind.__name__: world.count(kind) - len(world.own(kind)) for kind in KINDS},
    )
