"""Bodies: what requests and replies look like on the wire."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from companyos.core.calls import Call
from companyos.core.task import MAX_SEED
from companyos.env.observations import Observation
from companyos.serve.errors import ServeError, SessionOver
from companyos.serve.steps import Outcome

MOST_STEPS = 4096  # of one rollout
MOST_FORKS = 256

SessionId = Annotated[str, Meta(max_length=64, description="of the session; may stand in a header or the query as well")]
Name = Annotated[str, Meta(max_length=120)]
TurnNumber = Annotated[int, Meta(ge=1, le=10**9, description="of this call, from 1; sent twice it happens once")]
Params = Annotated[dict[str, Any], Meta(description="the tool's arguments, as /manifest describes them")]


class ResetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begins a session."""

    task: Annotated[str, Meta(max_length=120, description="a family (else vendor_onboarding), or a task id")] | UnsetType = (
        UNSET
    )
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] | UnsetType = UNSET
    chaos: float | Name | dict[Name, float] | UnsetType = UNSET
    split: Name | UnsetType = UNSET
    index: (
        Annotated[int, Meta(ge=0, le=MAX_SEED, description="of a task in its split, in place of task and seed")] | UnsetType
    ) = UNSET
    reward: Name = "dense"
    progress: Annotated[
        bool, Meta(description="show the agent which milestones stand; only where the server's COMPANYOS_PROGRESS allows it")
    ] = False
    observation: Annotated[
        Literal["text", "screenshot"],
        Meta(description="screenshot: a picture of the agent's page beside the words; calls to app `screen` beside tools"),
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
    """One call of a rollout, which says itself in which session."""

    session_id: SessionId


class RolloutBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls in many sessions."""

    steps: Annotated[list[RolloutStep], Meta(max_length=MOST_STEPS)]


class ForkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for sessions that go on from where one stands."""

    session_id: SessionId | None = None
    count: Annotated[int, Meta(ge=1, le=MOST_FORKS)] = 1


class CloseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Forgets a session."""

    session_id: SessionId | None = None


class Seen(msgspec.Struct, frozen=True, gc=False):
    """An observation as its agent sees it. The tools are in /manifest, those of a session where it is named."""

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
    """What a step brought: the agent's observation, and beside it what only a trainer is sent."""

    session_id: str
    turn: int
    observation: Seen
    done: bool
    reward: float | UnsetType = UNSET  # for trainers
    success: bool | UnsetType = UNSET  # for trainers, once it is done


class ResetReply(msgspec.Struct, frozen=True, gc=False):
    """A session that has begun, and its tools, by `app.method`.

    An agent is sent neither `task_id` nor `reward`. `agent_token` is for a trainer to hand to the agent: it is good for
    stepping in this session and looking at it, and for nothing else.
    """

    session_id: str
    turn: int
    observation: Seen
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
    """An error: its code never changes."""

    code: str
    message: str
    what_next: str


class ErrorReply(msgspec.Struct, frozen=True):
    error: Problem
    result: StepReply | UnsetType = UNSET  # how a session that is over has ended


class RolloutAnswer(msgspec.Struct, frozen=True):
    """What came of one step of a rollout: the status that it would have had by itself, its reply or its error."""

    status: int
    result: StepReply | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class RolloutReply(msgspec.Struct, frozen=True):
    """One answer for each step, in their order."""

    answers: list[RolloutAnswer]


def seen(obs: Observation, screenshot: bytes | None = None) -> Seen:
    scene, reply = obs.scene, obs.reply
    shot = UNSET if screenshot is None else screenshot
    left, progress = scene.max_steps - obs.step, UNSET if obs.progress is None else obs.progress
    return Seen(
        scene.task, obs.now, obs.step, scene.max_steps, left, reply.code, reply.message, reply.data, obs.text, progress, shot
    )  # fmt: skip


def agents_reset(session_id: str, obs: Observation, screenshot: bytes | None = None) -> ResetReply:
    """What an agent is sent of a session that has begun."""
    return ResetReply(session_id, 0, seen(obs, screenshot), obs.done, obs.scene.offered)


def trainers_reset(
    session_id: str, obs: Observation, task_id: str, agent_token: str = "", screenshot: bytes | None = None
) -> ResetReply:
    """What a trainer is sent of it."""
    begun = agents_reset(session_id, obs, screenshot)
    return msgspec.structs.replace(begun, task_id=task_id, reward=obs.reward, agent_token=agent_token or UNSET)


def step_reply(outcome: Outcome, agent: bool) -> StepReply:
    """What a step brought, as an agent or a trainer is sent it."""
    obs = outcome.observation
    shown = seen(obs, outcome.screenshot)
    if agent:
        return StepReply(outcome.session_id, obs.step, shown, obs.done)
    success = UNSET if outcome.success is None else outcome.success
    return StepReply(outcome.session_id, obs.step, shown, obs.done, obs.reward, success)


def rollout_answer(answer: Outcome | ServeError) -> RolloutAnswer:
    """One answer of a rollout; only trainers send those."""
    if isinstance(answer, Outcome):
        return RolloutAnswer(200, step_reply(answer, agent=False))
    said = error_reply(answer, agent=False)
    return RolloutAnswer(answer.status, said.result, said.error)


def error_reply(error: ServeError, agent: bool) -> ErrorReply:
    result = step_reply(error.result, agent) if isinstance(error, SessionOver) else UNSET
    return ErrorReply(Problem(error.code, error.message, error.what_next), result)
