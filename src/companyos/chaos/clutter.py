"""The injector that offers distractor tools."""

from companyos.chaos.injector import Injector
from companyos.company import EXTRAS, Tool
from companyos.core.world import Streams


class ToolClutter(Injector):
    """The episode offers tools that the work does not need; nothing is changed; the usual tools are enough."""

    dial = "tool_clutter"
    letter = "t"

    def offer(self, dose: float, streams: Streams) -> tuple[Tool, ...]:
        return tuple(tool for tool in EXTRAS if self.level(streams.at(self.dial, tool.name), dose))
