"""Variants: the expert's solution with one change. Harmless variants must win, wrong ones must lose.

A variation is a program that runs in place of a closing call. It may make its own calls, and returns the closing call to
make, or None if it does not apply to the episode. It cites and writes only what it has read in a reply, so any agent could
do the same. Add a function to `HARMLESS` or `WRONG`, and the laws run it on every family.
"""

from companyos.agents.variants.closing import ClosingContext, Variation, play_variant
from companyos.agents.variants.harmless import HARMLESS
from companyos.agents.variants.wrong import WRONG

__all__ = ["HARMLESS", "WRONG", "ClosingContext", "Variation", "play_variant"]
