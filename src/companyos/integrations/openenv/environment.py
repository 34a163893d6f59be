"""CompanyOS as an OpenEnv `Environment`, for OpenEnv's own server or for use without a server.

OpenEnv's `create_app(CompanyEnvironment, CompanyAction, CompanyObservation, state_cls=CompanyState)` serves it.
`companyos serve` speaks the same protocol, is faster, and its sessions survive lost sockets and restarts.
"""

import os
from typing import Any, Generic, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation

from companyos.company import TOOLBOX, Toolbox
from companyos.core.calls import Call
from companyos.data.splits import TASK_COUNTS, size_of
from companyos.env import CompanyEnv
from companyos.env import observations as observe
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState
from companyos.serve.errors import NotBegun
from companyos.serve.messages.tools import call_named, listed, tool_result
from companyos.serve.messages.wire import checked
from companyos.serve.openenv.catalog import METADATA, task_spec
from companyos.serve.ops.settings import PREFIX, Settings
from companyos.serve.sessions.begin import episode, read_reset

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
TOOL_ERRORS = {"unknown_tool": ToolErrorType.TOOL_NOT_FOUND, "bad_arguments": ToolErrorType.INVALID_ARGS}


class _Company(Environment[ActT, ObsT, CompanyState], Generic[ActT, ObsT]):
    """An episode, and the list of tasks. The two subclasses differ in how a call is written."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        name = f"{PREFIX}PROGRESS"
        self._may_show_progress = Settings.read({name: os.environ.get(name, "")}).progress  # clients cannot change this
        self._env: CompanyEnv | None = None
        self._last: observe.Observation | None = None
        self._episode_id: str | None = None
        self.mcp_client = _McpClient(self)  # MCP calls are normal steps

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        task: str | None = None,
        chaos: float | str | dict[str, float] | None = None,
        reward: str | None = None,
        split: str | None = None,
        size: str | None = None,
        index: int | None = None,
        progress: bool | None = None,
        **unknown: Any,
    ) -> CompanyObservation:
        """Begin a task: by task id; by family, seed, chaos, split and size; or by split and index."""
        task_fields = {"task": task, "seed": seed, "chaos": chaos, "split": split, "size": size, "index": index}
        body = read_reset({**task_fields, "reward": reward, "progress": progress, **unknown})
        self._env, self._episode_id = episode(body, self._may_show_progress), episode_id
        self._last = self._env.reset()
        return CompanyObservation.of(self._last, {})

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> CompanyObservation:
        return self.reset(seed, episode_id, **more)

    async def step_async(self, action: ActT, timeout_s: float | None = None, **more: Any) -> ObsT:
        return self.step(action, timeout_s, **more)  # takes microseconds, so no thread is needed

    @property
    def state(self) -> CompanyState:
        if self._env is None or self._last is None:
            return CompanyState()
        last = self._last
        return CompanyState(
            episode_id=self._episode_id, step_count=last.step, now=last.now, max_steps=last.max_steps, done=last.done
        )

    def make_call(self, call: Call) -> observe.Observation:
        """Make a step with a call. After the end of the episode it changes nothing."""
        if self._env is None:
            raise NotBegun
        self._last = self._env.step(checked(call))
        return self._last

    @property
    def toolbox(self) -> Toolbox:
        """The tools of the episode; before it begins, those that every episode has."""
        return TOOLBOX if self._env is None else self._env.toolbox

    def _metadata(self) -> dict[str, Any]:
        return {} if self._env is None or self._env.success is None else {"success": self._env.success}

    # -- tasks -----------------------------------------------------------------------------------------------------

    def list_splits(self) -> list[str]:
        return list(TASK_COUNTS)

    def num_tasks(self, split: str) -> int:
        return size_of(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        if not 0 <= index < size_of(split):
            raise IndexError(index)
        return task_spec(split, index)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return [task_spec(split, index) for index in range(size_of(split))[start:stop]]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return self.get_task_range(split)

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(**METADATA)


class CompanyEnvironment(_Company[CompanyAction, CompanyObservation]):
    """Actions in the form of CompanyOS: app, method, params."""

    def step(self, action: CompanyAction, timeout_s: float | None = None, **more: Any) -> CompanyObservation:
        obs = self.make_call(Call(action.app, action.method, action.params))
        return CompanyObservation.of(obs, self._metadata())


class CompanyTools(_Company[Action, Observation]):
    """Actions for hosts that list tools: `CallToolAction` and `ListToolsAction`."""

    def step(self, action: Action, timeout_s: float | None = None, **more: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return list_of_tools(self.toolbox, self._last is not None and self._last.done)
        assert isinstance(action, CallToolAction)
        obs = self.make_call(call_named(action.tool_name, action.arguments))
        error_type = TOOL_ERRORS.get(obs.code)
        return CallToolObservation(
            tool_name=action.tool_name,
            result=obs.text,
            error=None if error_type is None else ToolError(error_type=error_type, message=obs.message),
            done=obs.done,
            reward=obs.reward,
            metadata={
                "step": obs.step,
                "code": obs.code,
                "last_result": obs.last_result,
                "message": obs.message,
                **self._metadata(),
            },
        )


def list_of_tools(toolbox: Toolbox, done: bool) -> ListToolsObservation:
    """Return the observation for `ListToolsAction`, which costs no step."""
    tools = [Tool(**tool) for tool in listed(toolbox, "input_schema")]
    return ListToolsObservation(tools=tools, done=done, reward=0.0)


class _McpClient:
    """The methods of an MCP client that OpenEnv's server uses."""

    def __init__(self, company: "_Company[Any, Any]") -> None:
        self._company = company

    def is_connected(self) -> bool:
        return True

    async def __aenter__(self) -> "_McpClient":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_tools(self) -> list[dict[str, Any]]:
        return listed(self._company.toolbox)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return tool_result(self._company.make_call(call_named(name, arguments)))
