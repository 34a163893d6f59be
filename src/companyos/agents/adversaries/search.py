"""A search for high rewards that tries calls on forks of the environment. Only for tests of the reward."""

from typing import NamedTuple

from companyos.agents.choices.candidates import Candidates
from companyos.core.world import Streams
from companyos.env import CompanyEnv
from companyos.env.knowledge import Knowledge


class _Track(NamedTuple):
    """One partial episode of the beam: its return so far, the environment, and what the replies have told."""

    episode_return: float
    env: CompanyEnv
    knowledge: Knowledge


class Search:
    """A beam search over random calls. It forks the environment, which no agent can do, so it is not a baseline.

    `width` is the number of tracks that go on after each step, `tries` the number of calls tried on each.
    """

    def __init__(self, env: CompanyEnv, seed: int, width: int = 1, tries: int = 12) -> None:
        self._streams = Streams(f"search/{seed}")
        self._width = width
        self._tries = tries
        knowledge = Knowledge(env.setting.case.brief)
        for turn in env.turns:
            knowledge.hear(turn.reply)
        self._beam = [_Track(0.0, env.fork(), knowledge)]

    def run(self) -> list[tuple[float, CompanyEnv]]:
        """Search until all tracks have ended. Return the finished episodes with their returns. Width 1 is greedy."""
        ended: list[tuple[float, CompanyEnv]] = []
        depth = 0
        while self._beam:
            longer = [new for index, track in enumerate(self._beam) for new in self._extend(track, depth, index)]
            ended += [(track.episode_return, track.env) for track in longer if track.env.done]
            unfinished = [track for track in longer if not track.env.done]
            self._beam = sorted(unfinished, key=lambda track: -track.episode_return)[: self._width]
            depth += 1
        return ended

    def _extend(self, track: _Track, depth: int, index: int) -> list[_Track]:
        """Return copies of a track with one more call each. They share the knowledge, to which the best one adds."""
        longer = []
        candidates = Candidates(track.knowledge)
        for attempt in range(self._tries):
            fork = track.env.fork()
            obs = fork.step(candidates.sample(self._streams.at(depth, index, attempt)))
            longer.append(_Track(track.episode_return + obs.reward, fork, track.knowledge))
        best = max(longer, key=lambda new: new.episode_return)
        track.knowledge.hear(best.env.turns[-1].reply)
        return longer
