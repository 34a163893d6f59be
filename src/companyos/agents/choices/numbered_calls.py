"""Possible calls by number, for agents with a discrete action space.

Every tool has the same count of numbers, and they are the same in every episode. The arguments behind a number are drawn
at each step from what the agent was told so far. A tool is masked while nothing was told that fits its arguments.
"""

from companyos.agents.choices.candidates import Candidates
from companyos.agents.routine import reply_in
from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.core.world import Draw, Streams
from companyos.env import CompanyEnv
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation

PER_TOOL = 16  # count of numbers of each tool
_TOOLS = tuple(ALL_TOOLS)
CALL_NUMBERS = PER_TOOL * len(_TOOLS)


class NumberedCalls:
    """The numbered calls of one episode, made from the brief and the replies only."""

    def __init__(self, env: CompanyEnv, first: Observation) -> None:
        self._streams = Streams(f"deal/{env.task_id}")
        self._candidates = Candidates(Knowledge(first.task), env.toolbox)  # `first.task` is the text of the brief
        self._offered = set(env.toolbox)
        self._step = first.step

    def hear(self, obs: Observation) -> None:
        """Take in a reply and draw the arguments of all numbers again."""
        self._candidates.knowledge.hear(reply_in(obs))
        self._step = obs.step

    def mask(self) -> list[bool]:
        """Return, for each number, whether it stands for a call."""
        return [valid for tool in _TOOLS for valid in [self._fill(tool, 0) is not None] * PER_TOOL]

    def call(self, action: int) -> Call | None:
        """Return the call with this number, or None if it is masked."""
        tool_index, number = divmod(action, PER_TOOL)
        return self._fill(_TOOLS[tool_index], number)

    def _fill(self, tool: Tool, number: int) -> Call | None:
        """Return the call with this number among those of a tool, or None if it is masked."""
        return self._candidates.fill(tool, self._draw(tool, number)) if tool in self._offered else None

    def _draw(self, tool: Tool, number: int) -> Draw:
        return self._streams.at(self._step, tool.name, number)
