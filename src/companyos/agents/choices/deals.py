"""Deals: the table of possible calls as numbered cards, for agents that pick and do not write.

Every tool has as many cards as any other, at the same numbers in every episode. Which arguments stand on them is drawn at
each step, from what was told so far. A tool has none while nothing is known that would fit.
"""

from companyos.agents.choices.candidates import Candidates
from companyos.agents.routine import heard
from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.core.world import Draw, Streams
from companyos.env import CompanyEnv
from companyos.env.knowledge import Told
from companyos.env.observations import Observation

CARDS = 16  # of each tool
_TOOLS = tuple(ALL_TOOLS)
ALL_CARDS = CARDS * len(_TOOLS)


class Deal:
    """What lies on the table in one episode. It hears what the agent is told, and nothing else."""

    def __init__(self, env: CompanyEnv, brief: Observation) -> None:
        self._streams = Streams(f"deal/{env.task_id}")
        self._table = Candidates(Told(brief.task), env.toolbox)
        self._offered = set(env.toolbox)
        self._step = brief.step

    def hear(self, obs: Observation) -> None:
        """Takes in a reply, and deals anew."""
        self._table.told.hear(heard(obs))
        self._step = obs.step

    def mask(self) -> list[bool]:
        """For each number, whether there is a card."""
        return [there for tool in _TOOLS for there in [self._fill(tool, 0) is not None] * CARDS]

    def call(self, card: int) -> Call | None:
        """The call on a card, None where there is none."""
        tool, number = divmod(card, CARDS)
        return self._fill(_TOOLS[tool], number)

    def _fill(self, tool: Tool, number: int) -> Call | None:
        return self._table.fill(tool, self._draw(tool, number)) if tool in self._offered else None

    def _draw(self, tool: Tool, number: int) -> Draw:
        return self._streams.at(self._step, tool.name, number)
