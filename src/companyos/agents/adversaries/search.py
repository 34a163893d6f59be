"""A search for high rewards that tries calls on forks of the environment. Only for tests of the reward."""

from companyos.agents.choices.candidates import Candidates
from companyos.core.world import Streams
from companyos.env import CompanyEnv
from companyos.env.knowledge import Knowledge


class Search:
    """A beam search over random calls. It forks the environment, which no agent can do, so it is not a baseline."""

    def __init__(self, env: CompanyEnv, seed: int, width: int = 1, tries: int = 12) -> None:
        self._streams = Streams(f"search/{seed}")
        self._width = width
        self._tries = tries
        told = Knowledge(env.setting.case.brief)
        for turn in env.turns:
            told.hear(turn.reply)
        self._beam: list[tuple[float, CompanyEnv, Knowledge]] = [(0.0, env.fork(), told)]

    def run(self) -> list[tuple[float, CompanyEnv]]:
        """Search until all tracks have ended. Return the finished episodes with their returns. Width 1 is greedy."""
        ended: list[tuple[float, CompanyEnv]] = []
        depth = 0
        while self._beam:
            grown = [step for track, entry in enumerate(self._beam) for step in self._grow(*entry, depth, track)]
            ended += [(paid, env) for paid, env, _ in grown if env.done]
            alive = sorted((step for step in grown if not step[1].done), key=lambda step: -step[0])
            self._beam = alive[: self._width]
            depth += 1
        return ended

    def _grow(
        self, paid: float, env: CompanyEnv, told: Knowledge, depth: int, track: int
    ) -> list[tuple[float, CompanyEnv, Knowledge]]:
        grown = []
        table = Candidates(told)
        for attempt in range(self._tries):
            fork = env.fork()
            obs = fork.step(table.sample(self._streams.at(depth, track, attempt)))
            grown.append((paid + obs.reward, fork, told))
        best = max(grown, key=lambda step: step[0])
        told.hear(best[1].turns[-1].reply)
        return grown
