"""Clutter: trouble in what one is offered."""

from companyos.chaos.injector import Injector
from companyos.company import EXTRAS, Tool
from companyos.core.world import Streams


class ToolClutter(Injector):
    """More tools are offered than the work needs; nothing was written; the company's own do all of it."""

    dial = "tool_clutter"
    letter = "t"

    def offer(self, dose: float, streams: Streams) -> tuple[Tool, ...]:
        return tuple(tool for tool in EXTRAS if self.level(streams.at(self.dial, tool.name), dose))
