"""Starts of the small learner's curriculum: states on the expert's way, some steps before the end of an episode.

The learner never sees what the expert does next. It first learns to finish from late states, then from earlier ones.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from companyos.agents.baselines import RandomStyle
from companyos.agents.choices.board import Board
from companyos.agents.choices.candidate_types import CandidateTypes
from companyos.agents.tiny import look
from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv
from companyos.families import family

REWARD = "dense"  # the reward profile that pays milestones on the way
_SCALE = 0.1
_FAILURE = (
    5.0  # the profile's penalty for a failure; it is added back, so that a failure is worth 0, like an endless episode
)
_SPARE_STEPS = 10  # beyond twice the expert's steps


class EndedEpisode(NamedTuple):
    """The result of an episode."""

    task_id: str
    success: bool
    steps: int


class TinyEpisode:
    """An episode that the small learner plays."""

    def __init__(self, env: CompanyEnv, board: Board, limit: int = 0) -> None:
        self.env = env
        self.board = board
        self.limit = limit  # most steps of the learner; 0 means the task's own limit
        self.steps = 0  # steps of the learner so far

    def step(self, number: int) -> tuple[float, bool]:
        """Make the call of a candidate. Return its reward, and whether the episode is over."""
        obs = self.hear(self.board.call(number))
        self.steps += 1
        return _SCALE * (obs.reward + (_FAILURE if obs.done and not self.env.success else 0.0)), self.over

    def hear(self, call: Call) -> Any:
        """Make a call of the learner or of the expert."""
        obs = self.env.step(call)
        self.board.hear(call, obs)
        return obs

    @property
    def over(self) -> bool:
        return self.env.done or self.steps == self.limit > 0

    def ended(self) -> EndedEpisode:
        return EndedEpisode(self.env.task_id, bool(self.env.success), self.steps)

    def fork(self) -> "TinyEpisode":
        look(self.board)  # cached in the board, so that the copies need not compute it again
        return TinyEpisode(self.env.fork(), self.board.fork(), self.limit)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def keep(self) -> list[Any]:
        """Return the state for a checkpoint: the task and the calls so far."""
        calls = [msgspec.to_builtins(turn.call) for turn in self.env.turns]
        return [self.env.task_id, calls, self.steps, self.limit]

    @staticmethod
    def take_up(kept: list[Any], types: CandidateTypes) -> "TinyEpisode":
        task_id, calls, steps, limit = kept
        episode = begin(TaskId.parse(task_id), types)
        for number, call in enumerate(msgspec.convert(calls, list[Call])):
            if number >= len(calls) - steps:
                look(episode.board)  # as the learner did, because types are numbered in the order in which they are seen
            episode.hear(call)
        if not steps:
            look(episode.board)
        episode.steps, episode.limit = steps, limit
        return episode


def begin(task: TaskId, types: CandidateTypes) -> TinyEpisode:
    """Return an episode at its beginning."""
    env = CompanyEnv(task, REWARD)
    return TinyEpisode(env, Board(env.reset(), types))


def starts(task: TaskId, left: Sequence[float], types: CandidateTypes) -> list[TinyEpisode]:
    """Return an episode of a task for each share of the expert's way that is to be left; 1 or more is the beginning."""
    whole = begin(task, types)
    made = [whole.fork() for share in left if share >= 1]
    calls = _way_of_an_expert(whole.env)
    for steps_left in sorted((max(1, round(len(calls) * share)) for share in left if share < 1), reverse=True):
        for call in calls[whole.env.step_count : len(calls) - steps_left]:
            whole.hear(call)
        whole.limit = 2 * steps_left + _SPARE_STEPS
        made.append(whole.fork())
    return made


def _way_of_an_expert(env: CompanyEnv) -> list[Call]:
    """Return the calls of an expert that varies its way of working and reads every policy that a search lists."""
    trial, streams = env.fork(), Streams(f"opening/{env.task_id}")
    program = family(TaskId.parse(env.task_id).family).expert(trial.so_far(), RandomStyle(streams))
    call = next(program)
    while not trial.step(call).done:
        reply = trial.turns[-1].reply
        if call.method == "search_policies" and reply.ok:
            listed = [str(row["id"]) for row in reply.data["rows"]]
            for policy_id in streams.at("reads", trial.step_count).shuffled(listed):
                trial.step(Call("datahub", "read_policy", {"policy_id": policy_id}))
        if trial.done:
            break
        call = program.send(reply)
    return [turn.call for turn in trial.turns]
