"""Baseline agents: one that waits, one that acts at random, and the experts."""

from typing import Any

from companyos.agents.choices.candidates import Candidates
from companyos.agents.routine import WAIT, Routine, reply_in
from companyos.company import toolbox_of
from companyos.core.calls import Call
from companyos.core.world import Streams
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation
from companyos.families import EpisodeSoFar, ExpertStyle, family_of


class Null:
    """Waits until the episode is over."""

    def __init__(self, seed: int) -> None:
        pass

    def act(self, obs: Observation) -> Call:
        return WAIT


class Random:
    """Makes random calls, filled in from what it was told."""

    def __init__(self, seed: int) -> None:
        self._streams = Streams(f"random/{seed}")
        self._knowledge: Knowledge | None = None

    def act(self, obs: Observation) -> Call:
        if self._knowledge is None:
            self._knowledge = Knowledge(obs.task)  # `obs.task` is the text of the brief
        self._knowledge.hear(reply_in(obs))
        return Candidates(self._knowledge, toolbox_of(obs.scene.offered)).sample(self._streams.at(obs.step))


class Expert(Routine):
    """The family's expert. It sees only what every agent sees."""

    def __init__(self, seed: int, style: ExpertStyle | None = None) -> None:
        super().__init__(lambda obs: family_of(obs.task).expert(EpisodeSoFar(obs.task, obs.now), style or ExpertStyle()))


class RandomStyle(ExpertStyle):
    """Chooses at random among the right ways to work."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def order(self, name: str, steps: list[Any]) -> list[Any]:
        return self._streams.at("order", name).shuffled(steps)

    def chooses(self, name: str) -> bool:
        return self._streams.at("fancy", name).chance(0.5)


class Jittered:
    """The expert with random variations: steps in another order, other valid routes, extra reads and waits."""

    def __init__(self, seed: int) -> None:
        self._streams = Streams(f"jittered/{seed}")
        self._expert = Expert(seed, RandomStyle(self._streams))
        self._knowledge: Knowledge | None = None
        self._postponed: Call | None = None  # the expert's call, while an extra call goes first
        self._extras = 0

    def act(self, obs: Observation) -> Call:
        if self._knowledge is None:
            self._knowledge = Knowledge(obs.task)
        self._knowledge.hear(reply_in(obs))
        if self._postponed is None:
            call = self._expert.act(obs)
            extra = self._extra_read(obs)
            if extra is None:
                return call
            self._postponed = call
            return extra
        call, self._postponed = self._postponed, None
        return call

    def _extra_read(self, obs: Observation) -> Call | None:
        """Return, at one step in four, a random call that writes nothing; at most six times per episode."""
        draw = self._streams.at("detour", obs.step)
        if self._extras >= 6 or not draw.chance(0.25):
            return None
        self._extras += 1
        toolbox = toolbox_of(obs.scene.offered)
        candidates = Candidates(self._knowledge or Knowledge(obs.task), toolbox)
        while True:
            call = candidates.sample(draw)
            if not toolbox.tools[call.app, call.method].writes:
                return call
