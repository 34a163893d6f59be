"""Variants: the expert's solution with one change. Harmless variants must win, wrong ones must lose.

A variant is a function that returns a program. This runs in place of a closing call, may make its own calls, and returns the
closing call to make, or None if the variant does not apply to the episode. It cites and writes only what it has read in a
reply, so any agent could do the same. Add a function to `HARMLESS` or `WRONG`, and the laws run it on every family.
"""

from companyos.agents.variants.closing import ClosingContext, Variant, play_variant
from companyos.agents.variants.harmless import HARMLESS
from companyos.agents.variants.wrong import WRONG

__all__ = ["HARMLESS", "WRONG", "ClosingContext", "Variant", "play_variant"]
