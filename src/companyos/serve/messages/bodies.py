"""The bodies of requests and replies. Fields that are UNSET are left out of the JSON."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from companyos.core.calls import Call
from companyos.core.task import MAX_SEED
from companyos.env.observations import Observation
from companyos.serve.errors import ServeError, SessionOver
from companyos.serve.steps import StepResult

MAX_STEPS = 4096  # of one rollout
MAX_FORKS = 256

SessionId = Annotated[
    str, Meta(max_length=64, description="the session id; it may also be given in the header or the query")
]
Name = Annotated[str, Meta(max_length=120)]
TurnNumber = Annotated[
    int, Meta(ge=1, le=10**9, description="the number of this call, from 1; if sent again, the call is still made once")
]
Params = Annotated[dict[str, Any], Meta(description="the arguments of the tool; /manifest describes them")]


class ResetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for a new session."""

    task: (
        Annotated[str, Meta(max_length=120, description="a family (default: vendor_onboarding) or a task id")] | UnsetType
    ) = UNSET
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] | UnsetType = UNSET
    chaos: float | Name | dict[Name, float] | UnsetType = UNSET
    split: Name | UnsetType = UNSET
    size: Annotated[Name, Meta(description="of the company: office (the default), small or large")] | UnsetType = UNSET
    index: (
        Annotated[int, Meta(ge=0, le=MAX_SEED, description="the number of a task in its split, instead of task and seed")]
        | UnsetType
    ) = UNSET
    reward: Name = "dense"
    progress: Annotated[
        bool, Meta(description="show the agent the milestones it has reached; needs COMPANYOS_PROGRESS on the server")
    ] = False
    observation: Annotated[
        Literal["text", "screenshot"],
        Meta(description="screenshot: add a screenshot of the agent's page, and accept calls to the app `screen`"),
    ] = "text"


class StepBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call in a session."""

    app: str
    method: str
    params: Params = {}
    turn: TurnNumber | None = None
    session_id: SessionId | None = None

    @property
    def call(self) -> Call:
        return Call(self.app, self.method, self.params)


class RolloutStep(StepBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call of a rollout, with its session."""

    session_id: SessionId


class RolloutBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls in many sessions."""

    steps: Annotated[list[RolloutStep], Meta(max_length=MAX_STEPS)]


class ForkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for sessions that continue from the current turn of a session."""

    session_id: SessionId | None = None
    count: Annotated[int, Meta(ge=1, le=MAX_FORKS)] = 1


class CloseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Deletes a session."""

    session_id: SessionId | None = None


class AgentObservation(msgspec.Struct, frozen=True, gc=False):
    """An observation as its agent sees it. /manifest lists the tools."""

    task: str
    now: str
    step: int
    max_steps: int
    steps_remaining: int
    code: str
    message: str
    last_result: Any
    text: str
    progress: tuple[str, ...] | UnsetType = UNSET
    screenshot: bytes | UnsetType = UNSET  # a JPEG


class StepReply(msgspec.Struct, frozen=True, gc=False):
    """The result of a step: the observation of the agent, and fields that only a trainer gets."""

    session_id: str
    turn: int
    observation: AgentObservation
    done: bool
    reward: float | UnsetType = UNSET  # for trainers
    success: bool | UnsetType = UNSET  # for trainers, once the episode has ended


class ResetReply(msgspec.Struct, frozen=True, gc=False):
    """A new session, and its tools as `app.method`.

    Agents get neither `task_id` nor `reward`. A trainer can give `agent_token` to the agent: it only allows to step in this
    session and to look at it.
    """

    session_id: str
    turn: int
    observation: AgentObservation
    done: bool
    tools: tuple[str, ...]
    task_id: str | UnsetType = UNSET
    reward: float | UnsetType = UNSET
    agent_token: str | UnsetType = UNSET


class ForkReply(msgspec.Struct, frozen=True):
    session_ids: list[str]
    turn: int


class CloseReply(msgspec.Struct, frozen=True):
    session_id: str
    closed: bool = True


class Problem(msgspec.Struct, frozen=True):
    """An error. Its code is stable."""

    code: str
    message: str
    what_next: str


class ErrorReply(msgspec.Struct, frozen=True):
    error: Problem
    result: StepReply | UnsetType = UNSET  # the last step of a session that has ended


class RolloutAnswer(msgspec.Struct, frozen=True):
    """The answer to one step of a rollout: the status of a single /step, and its reply or its error."""

    status: int
    result: StepReply | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class RolloutReply(msgspec.Struct, frozen=True):
    """One answer for each step, in the same order."""

    answers: list[RolloutAnswer]


def agent_observation(obs: Observation, screenshot: bytes | None = None) -> AgentObservation:
    """Return an observation as its agent sees it."""
    scene, reply = obs.scene, obs.reply
    return AgentObservation(
        task=scene.brief,
        now=obs.now,
        step=obs.step,
        max_steps=scene.max_steps,
        steps_remaining=scene.max_steps - obs.step,
        code=reply.code,
        message=reply.message,
        last_result=reply.data,
        text=obs.text,
        progress=UNSET if obs.progress is None else obs.progress,
        screenshot=UNSET if screenshot is None else screenshot,
    )


def reset_reply_for_agent(session_id: str, obs: Observation, screenshot: bytes | None = None) -> ResetReply:
    """Return the reply to an agent's reset."""
    return ResetReply(session_id, 0, agent_observation(obs, screenshot), obs.done, obs.scene.offered)


def reset_reply_for_trainer(
    session_id: str, obs: Observation, task_id: str, agent_token: str = "", screenshot: bytes | None = None
) -> ResetReply:
    """Return the reply to a trainer's reset."""
    reply = reset_reply_for_agent(session_id, obs, screenshot)
    return msgspec.structs.replace(reply, task_id=task_id, reward=obs.reward, agent_token=agent_token or UNSET)


def step_reply(result: StepResult, agent: bool) -> StepReply:
    """Return the reply to a step, for an agent or a trainer."""
    obs = result.observation
    observation = agent_observation(obs, result.screenshot)
    if agent:
        return StepReply(result.session_id, obs.step, observation, obs.done)
    success = UNSET if result.success is None else result.success
    return StepReply(result.session_id, obs.step, observation, obs.done, obs.reward, success)


def rollout_answer(answer: StepResult | ServeError) -> RolloutAnswer:
    """Return one answer of a rollout. Only trainers send rollouts."""
    if isinstance(answer, StepResult):
        return RolloutAnswer(200, step_reply(answer, agent=False))
    reply = error_reply(answer, agent=False)
    return RolloutAnswer(answer.status, reply.result, reply.error)


def error_reply(error: ServeError, agent: bool) -> ErrorReply:
    """Return the body of an error. For an agent it contains no reward and no verdict."""
    result = step_reply(error.result, agent) if isinstance(error, SessionOver) else UNSET
    return ErrorReply(Problem(error.code, error.message, error.what_next), result)
