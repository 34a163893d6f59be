"""Starts of the small learner's curriculum: states of an expert's episode, some steps before its end.

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
_REWARD_SCALE = 0.1
# The profile's penalty for a failure. It is added back, so that a failure is worth 0, as an episode that is cut off is.
_FAILURE_PENALTY = 5.0
_SPARE_STEPS = 10  # that the learner may take beyond twice the expert's steps


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
        self.steps = 0  # steps of the learner so far, without those of the expert

    def step(self, candidate: int) -> tuple[float, bool]:
        """Make the call of the candidate with this index. Return the reward, and whether the episode is over."""
        obs = self.make(self.board.call(candidate))
        self.steps += 1
        return _REWARD_SCALE * (obs.reward + (_FAILURE_PENALTY if obs.done and not self.env.success else 0.0)), self.over

    def make(self, call: Call) -> Any:
        """Make a call of the learner or of the expert. Return the observation."""
        obs = self.env.step(call)
        self.board.hear(call, obs)
        return obs

    @property
    def over(self) -> bool:
        """Whether the episode has ended or the learner has reached its limit of steps."""
        return self.env.done or self.steps == self.limit > 0

    def result(self) -> EndedEpisode:
        return EndedEpisode(self.env.task_id, bool(self.env.success), self.steps)

    def fork(self) -> "TinyEpisode":
        look(self.board)  # cached in the board, so that the copies need not compute it again
        return TinyEpisode(self.env.fork(), self.board.fork(), self.limit)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        """Return the state for a checkpoint: the task, the calls so far, and the learner's steps and limit."""
        calls = [msgspec.to_builtins(turn.call) for turn in self.env.turns]
        return [self.env.task_id, calls, self.steps, self.limit]

    @staticmethod
    def resumed(state: list[Any], types: CandidateTypes) -> "TinyEpisode":
        """Return the episode of a checkpoint. Its calls are made again.

        `look` is called where the learner called it, because types of candidates are numbered in the order in which they are
        seen.
        """
        task_id, calls, steps, limit = state
        episode = begin(TaskId.parse(task_id), types)
        for number, call in enumerate(msgspec.convert(calls, list[Call])):
            if number >= len(calls) - steps:
                look(episode.board)
            episode.make(call)
        if not steps:
            look(episode.board)
        episode.steps, episode.limit = steps, limit
        return episode


def begin(task: TaskId, types: CandidateTypes) -> TinyEpisode:
    """Return an episode at its beginning."""
    env = CompanyEnv(task, REWARD)
    return TinyEpisode(env, Board(env.reset(), types))


def starts(task: TaskId, shares_left: Sequence[float], types: CandidateTypes) -> list[TinyEpisode]:
    """Return an episode of a task for each share of the expert's calls that is left to do; 1 or more is the beginning."""
    episode = begin(task, types)
    forks = [episode.fork() for share in shares_left if share >= 1]
    calls = _expert_calls(episode.env)
    for steps_left in sorted((max(1, round(len(calls) * share)) for share in shares_left if share < 1), reverse=True):
        for call in calls[episode.env.step_count : len(calls) - steps_left]:
            episode.make(call)
        episode.limit = 2 * steps_left + _SPARE_STEPS
        forks.append(episode.fork())
    return forks


def _expert_calls(env: CompanyEnv) -> list[Call]:
    """Return the calls of an expert that works in a random style and reads every policy that a search lists."""
    trial, streams = env.fork(), Streams(f"opening/{env.task_id}")
    program = family(TaskId.parse(env.task_id).family).expert(trial.so_far(), RandomStyle(streams))
    call = next(program)
    while not trial.step(call).done:
        reply = trial.turns[-1].reply
        if call.method == "search_policies" and reply.ok:
            policy_ids = [str(row["id"]) for row in reply.data["rows"]]
            for policy_id in streams.at("reads", trial.step_count).shuffled(policy_ids):
                trial.step(Call("datahub", "read_policy", {"policy_id": policy_id}))
        if trial.done:
            break
        call = program.send(reply)
    return [turn.call for turn in trial.turns]
