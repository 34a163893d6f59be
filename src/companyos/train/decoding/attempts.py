"""Episodes that a model plays for labelling or for an exam, and that can be cut off early."""

import math
import time
from collections.abc import Callable

from companyos.train.data.labels import EpisodeRecord
from companyos.train.data.repeats import changes_world
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent
from companyos.train.decoding.speakers import SpokenTurn

LOOP_CALLS = 10  # equal calls with equal replies that make an episode a loop; experts make up to 5 while they wait
# How an episode ended: the ticket was closed, the steps ran out, or it was cut off because it was lost, in a loop or late.
CLOSED, STEPS, LOST, LOOP, TIME = "closed", "steps", "lost", "loop", "time"


class BoundedEpisode(ModelEpisode):
    """An episode that records how it ended, and that can be cut off.

    `max_repeats`: cut it off when one call had the same reply this often with no write and no wait in between, or
    `LOOP_CALLS` times in all; 0 means never. `until`: cut it off at this time of `clock`. `stop_when_lost`: cut it off when
    it can no longer be won.
    """

    ended = ""  # how it ended, or empty
    max_repeats = 0
    until = math.inf
    stop_when_lost = False
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def take(self, turn: SpokenTurn, spent: TimeSpent) -> None:
        steps = self.env.step_count
        super().take(turn, spent)
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
        """Return why the episode must be cut off now, or an empty string."""
        turn = self.env.turns[-1]
        if self.stop_when_lost and turn.reply.ok and changes_world(turn.call, self.env.toolbox) and self.env.lost():
            return LOST
        in_loop = self._repeats.highest_count >= self.max_repeats or self.highest_count >= LOOP_CALLS
        if self.max_repeats and in_loop:
            return LOOP
        return TIME if self.clock() > self.until else ""

    def record(self) -> EpisodeRecord:
        """Return what a labeller needs."""
        windows = [
            (window.tokens, [(start, end) for (start, _), end in zip(window.turns, window.ends, strict=True)])
            for window in self.windows
        ]
        return EpisodeRecord(self.task_id, self.lines, windows)
