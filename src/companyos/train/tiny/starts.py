"""Starts of the small learner: an episode may begin where an expert would be some steps before its end.

The learner is never shown what the expert does next; it finds out for itself what leads from there to the end, and then what
leads to there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from companyos.agents.baselines import RandomTaste
from companyos.agents.choices.board import Board
from companyos.agents.choices.candidate_types import CandidateTypes
from companyos.agents.tiny import look
from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv
from companyos.families import family

REWARD = "dense"  # whose milestones are paid on the way
_SCALE = 0.1
_FAILURE = 5.0  # what the profile takes for an end without success: here that is worth nothing, as going on for ever is
_SPARE_STEPS = 10


class Ended(NamedTuple):
    """An episode that is over."""

    task_id: str
    success: bool
    steps: int


class Episode:
    """One episode at work."""

    def __init__(self, env: CompanyEnv, board: Board, limit: int = 0) -> None:
        self.env = env
        self.board = board
        self.limit = limit  # steps that the learner may take; 0: as many as the task allows
        self.steps = 0  # those that it has taken

    def step(self, number: int) -> tuple[float, bool]:
        """Makes the call that a candidate stands for; what it paid, and whether that was the last."""
        obs = self.hear(self.board.call(number))
        self.steps += 1
        return _SCALE * (obs.reward + (_FAILURE if obs.done and not self.env.success else 0.0)), self.over

    def hear(self, call: Call) -> Any:
        """Makes a call, whoever chose it."""
        obs = self.env.step(call)
        self.board.hear(call, obs)
        return obs

    @property
    def over(self) -> bool:
        return self.env.done or self.steps == self.limit > 0

    def ended(self) -> Ended:
        return Ended(self.env.task_id, bool(self.env.success), self.steps)

    def fork(self) -> "Episode":
        look(self.board)  # so that not every copy has to find out what there is to see
        return Episode(self.env.fork(), self.board.fork(), self.limit)

    # -- to go on from -------------------------------------------------------------------------------------------------

    def keep(self) -> list[Any]:
        """All that its next steps hang on: an episode is its task and its calls."""
        calls = [msgspec.to_builtins(turn.call) for turn in self.env.turns]
        return [self.env.task_id, calls, self.steps, self.limit]

    @staticmethod
    def take_up(kept: list[Any], types: CandidateTypes) -> "Episode":
        task_id, calls, steps, limit = kept
        episode = begin(TaskId.parse(task_id), types)
        for number, call in enumerate(msgspec.convert(calls, list[Call])):
            if number >= len(calls) - steps:
                look(episode.board)  # as the learner did: candidates' types are numbered in the order of being met
            episode.hear(call)
        if not steps:
            look(episode.board)
        episode.steps, episode.limit = steps, limit
        return episode


def begin(task: TaskId, types: CandidateTypes) -> Episode:
    """An episode from its beginning."""
    env = CompanyEnv(task, REWARD)
    return Episode(env, Board(env.reset(), types))


def starts(task: TaskId, left: Sequence[float], types: CandidateTypes) -> list[Episode]:
    """Episodes of one task from where these shares of an expert's way are still to go; from 1 on, that is all of it."""
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
    """The calls of an expert who works in any of the right ways, and reads every policy that a search has listed."""
    trial, streams = env.fork(), Streams(f"opening/{env.task_id}")
    program = family(TaskId.parse(env.task_id).family).expert(trial.memory(), RandomTaste(streams))
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
