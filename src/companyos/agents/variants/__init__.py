"""Variants: the expert's way of working with one thing changed. Harmless ones must win, wrong ones must lose.

A variation is a program that runs in place of a closing call. It may make calls of its own, and it returns the closing call
to make, or None where the episode has no room for it. Whatever it cites or writes it has read in a reply, so any agent could
do the same. Add a function to `HARMLESS` or `WRONG`, and the laws run it on every family.
"""

from companyos.agents.variants.desk import Desk, Variation, play_variant
from companyos.agents.variants.harmless import HARMLESS
from companyos.agents.variants.wrong import WRONG

__all__ = ["HARMLESS", "WRONG", "Desk", "Variation", "play_variant"]
