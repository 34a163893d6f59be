"""A taskset for verifiers 0.4 (`verifiers.v1`), for its evaluations and for prime-rl.

`vf-eval companyos-verifiers` imports the module `companyos_verifiers`, which re-exports `CompanyTaskset` from here. The loop
of model and tools belongs to verifiers. It calls the tools on an MCP server that runs beside each rollout: a
`VerifiersToolset`. That server adds the calls to the state of the rollout, and the score is computed by replaying them.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
import verifiers.v1 as vf
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, TextContent, Tool

from companyos.agents.llm.replies import ModelReply, parse_tool_calls
from companyos.core.calls import OK
from companyos.data.splits import CHAOS
from companyos.env import CompanyEnv, make
from companyos.env.chat import SYSTEM
from companyos.evaluate.judge.outcome import INVALID
from companyos.integrations.lists import replayed, tasks_of


class CompanyData(vf.TaskData):
    task_id: str


class VerifiersState(vf.State):
    """The state that the tool server returns: the calls that were made, and whether the episode has ended."""

    actions: list[Any] = []
    over: bool = False


class VerifiersToolset(vf.Toolset[vf.ToolsetConfig, VerifiersState]):
    """The tools of one episode. An invalid call costs a step, as everywhere."""

    TOOL_PREFIX = None
    company: CompanyEnv

    async def setup_task(self, task: CompanyData) -> None:
        self.company = make(task.task_id)

    def register(self, mcp: MCPServer) -> None:
        # The tools depend on the task, so they cannot be registered one by one: replace the server's methods instead.
        server = cast("Any", mcp)  # the type checker forbids to assign methods
        server.list_tools, server.call_tool = self.list_tools, self._with_state(self.call_tool)

    async def list_tools(self) -> list[Tool]:
        functions = [schema["function"] for schema in self.company.toolbox.schemas]
        return [
            Tool(name=tool["name"], description=tool["description"], input_schema=tool["parameters"]) for tool in functions
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context | None = None) -> CallToolResult:
        tool_call = {"function": {"name": name, "arguments": arguments}}
        [request] = parse_tool_calls(ModelReply(tool_calls=(tool_call,)), self.company.toolbox).calls
        obs = request.with_parse_error(self.company.step(request.action))
        if len(self.company.turns) > len(self.state.actions):  # a call after the end of the episode adds no turn
            self.state.actions.append(msgspec.to_builtins(request.action))
        self.state.over = obs.done
        return CallToolResult(content=[TextContent(type="text", text=obs.text)], is_error=obs.code != OK)


class VerifiersTask(vf.Task[CompanyData, VerifiersState, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [VerifiersToolset(vf.ToolsetConfig())]

    @vf.stop
    async def over(self, trace: vf.Trace) -> bool:
        return bool(trace.state.over)

    @vf.reward
    async def company_score(self, trace: vf.Trace) -> float:
        return self._replayed(trace).turns[-1].reward

    @vf.metric
    async def success(self, trace: vf.Trace) -> float:
        return float(bool(self._replayed(trace).success))

    @vf.metric
    async def invalid_calls(self, trace: vf.Trace) -> float:
        """The share of invalid calls."""
        # Without the turns that `replayed` adds to end an episode that the model has left unfinished.
        turns = self._replayed(trace).turns[: len(trace.state.actions)]
        return sum(turn.reply.code in INVALID for turn in turns) / max(1, len(turns))

    def _replayed(self, trace: vf.Trace) -> CompanyEnv:
        """Return the episode of a rollout, replayed and at its end."""
        return replayed(self.data.task_id, trace.state.actions)


class CompanyConfig(vf.TasksetConfig):
    tasks: str = "train"
    """A split (train, validation, test) or a suite (core, smoke, ...)."""
    chaos: float = CHAOS
    """The dose of every dial. Only for a split: the tasks of a suite have their own doses."""


class CompanyTaskset(vf.Taskset[VerifiersTask, CompanyConfig]):
    def load(self) -> Iterator[VerifiersTask]:
        for task_id in tasks_of(self.config.tasks, self.config.chaos):
            brief = make(task_id).look().text
            yield VerifiersTask(
                CompanyData(id=task_id, name=task_id, prompt=brief, system_prompt=SYSTEM, task_id=task_id), self.config.task
            )


__all__ = ["CompanyTaskset"]

if __name__ == "__main__":
    VerifiersToolset.run()
