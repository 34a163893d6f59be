"""Episodes that a model plays for labelling or for an exam, and that can be cut off early."""

import math
import time
from collections.abc import Callable

from companyos.train.data.labels import EpisodeRecord
from companyos.train.data.repeats import moves
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent
from companyos.train.decoding.speakers import SpokenTurn

LOOPED = 10  # equal calls with equal replies that make an episode a loop; experts make up to 5 while they wait
# How an episode ended: the ticket was closed, the steps ran out, or it was cut off because it was lost, in a loop or late.
CLOSED, STEPS, LOST, LOOP, TIME = "closed", "steps", "lost", "loop", "time"


class BoundedEpisode(ModelEpisode):
    """An episode that records how it ended, and that can be cut off.

    `loop`: cut it off when one call had the same reply this often with no write and no wait in between, or `LOOPED` times
    in all; 0 means never. `until`: cut it off at this time of `clock`. `lost`: cut it off when it can no longer be won.
    """

    ended = ""
    loop = 0
    until = math.inf
    lost = False
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def take(self, said: SpokenTurn, spent: TimeSpent) -> None:
        steps = self.env.step_count
        super().take(said, spent)
        if self.env.step_count == steps:
            return  # the turn is sampled again
        if self.over:
            self.ended = CLOSED if self.env.resolved else STEPS
            return
        with spent.on("cut"):
            self.ended = self._why_cut()
        if self.ended:
            self.over = True
            if self._window.ends:
                self._close(self.script.tokens[: self._window.ends[-1]])

    def _why_cut(self) -> str:
        turn = self.env.turns[-1]
        if self.lost and turn.reply.ok and moves(turn.call, self.env.toolbox) and self.env.lost():
            return LOST
        if self.loop and (self._repeats.most >= self.loop or self.most_alike >= LOOPED):
            return LOOP
        return TIME if self.clock() > self.until else ""

    def story(self) -> EpisodeRecord:
        """Return what a labeller needs."""
        windows = [
            (window.tokens, [(start, end) for (start, _), end in zip(window.calls, window.ends, strict=True)])
            for window in self.windows
        ]
        return EpisodeRecord(self.task_id, self.lines, windows)
