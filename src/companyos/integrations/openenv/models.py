"""OpenEnv's models: the action, the observation and the state.

The server sends the same messages without these classes. `python -m companyos.integrations.openenv.schemas` writes their
JSON schemas.
"""

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

from companyos.env import observations as observe


class CompanyAction(Action):
    """One tool call. `metadata` may contain its `turn`, from 1: if the action is sent again, the call is made once."""

    app: str = Field(description="ticketdesk, datahub or approvalflow")
    method: str = Field(description="a tool of the app")
    params: dict[str, Any] = Field(default_factory=dict, description="the tool's arguments")


class CompanyObservation(Observation):
    """What the agent sees: the brief, the clock, the budget and the last reply.

    `metadata` is for the trainer: `session_id` after a reset, `success` at the end. It has no task id, because hosts show
    whole observations to agents.
    """

    task: str = Field(description="the brief")
    now: str = Field(description="the company's clock")
    step: int = Field(description="how many calls were made")
    max_steps: int = Field(description="how many there may be")
    steps_remaining: int
    code: str = Field(description="`ok`, or a stable word for what went wrong")
    message: str = Field(description="what went wrong, in a sentence")
    last_result: Any = Field(description="what the tool gave back")
    text: str = Field(description="all of it in a compact and stable text")
    progress: list[str] | None = Field(default=None, description="the milestones that stand, where the trainer shows them")

    @staticmethod
    def of(obs: observe.Observation, metadata: dict[str, Any]) -> "CompanyObservation":
        return CompanyObservation(
            done=obs.done,
            reward=obs.reward,
            metadata=metadata,
            task=obs.task,
            now=obs.now,
            step=obs.step,
            max_steps=obs.max_steps,
            steps_remaining=obs.steps_remaining,
            code=obs.code,
            message=obs.message,
            last_result=obs.last_result,
            text=obs.text,
            progress=None if obs.progress is None else list(obs.progress),
        )


class CompanyState(State):
    """The progress of an episode. Every client can read it, so it contains nothing that the agent has not seen."""

    now: str = Field(default="", description="the company's clock")
    max_steps: int = Field(default=0, ge=0, description="how many calls there may be")
    done: bool = Field(default=False, description="whether the episode is over")
