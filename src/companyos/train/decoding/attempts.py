"""Attempts: episodes that a model plays so that its states can be labelled, cut short where nothing more is to be seen."""

import math
import time
from collections.abc import Callable

from companyos.train.data.labels import Story
from companyos.train.data.repeats import moves
from companyos.train.decoding.rollout import Played, Spent
from companyos.train.decoding.speakers import Said

LOOPED = 10  # equal calls with equal replies that make an episode a loop; experts make up to 5 while they wait
# How an attempt ended: by its own act, for want of steps, or cut off: lost, caught in a loop, out of time.
CLOSED, STEPS, LOST, LOOP, TIME = "closed", "steps", "lost", "loop", "time"


class Attempt(Played):
    """An episode that knows how it ended, and that can be cut short.

    `loop`: it ends when one call had the same reply this often with no write and no wait in between, or `LOOPED` times in
    all; 0: never. `until`: it ends at this moment of the clock.
    `lost`: it ends when nobody could win it any more.
    """

    ended = ""
    loop = 0
    until = math.inf
    lost = False
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def take(self, said: Said, spent: Spent) -> None:
        steps = self.env.step_count
        super().take(said, spent)
        if self.env.step_count == steps:
            return  # the turn is drawn anew
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

    def story(self) -> Story:
        """What a labeller needs of it."""
        windows = [
            (window.tokens, [(start, end) for (start, _), end in zip(window.calls, window.ends, strict=True)])
            for window in self.windows
        ]
        return Story(self.task_id, self.lines, windows)
