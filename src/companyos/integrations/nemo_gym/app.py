"""A NeMo Gym resources server in which each row of the dataset names its task.

NeMo Gym's own server for OpenEnv environments begins every session in the same way, whatever its row says, so it cannot be
used here. A row (see `rows`) has the brief and the tools of its task; `task_id` begins the task. A tool call is a POST to
the tool's name, and `verify` returns the score. A model that stops early has given up: the remaining steps are spent
waiting.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY

from companyos.agents.llm.replies import ModelReply, parse_tool_calls
from companyos.chaos import Chaos
from companyos.data.splits import CHAOS
from companyos.env import CompanyEnv, make
from companyos.env.chat import SYSTEM
from companyos.integrations.lists import closed, tasks_of


def rows(tasks: str = "train", chaos: Chaos = CHAOS) -> Iterator[dict[str, Any]]:
    """Yield one row of a dataset for each task of a split or a suite."""
    for task_id in tasks_of(tasks, chaos):
        env = make(task_id)
        messages = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": env.look().text}]
        tools = [{"type": "function", "strict": False, **schema["function"]} for schema in env.toolbox.schemas]
        yield {"task_id": task_id, "responses_create_params": {"input": messages, "tools": tools}}


class SeedSessionRequest(BaseSeedSessionRequest):
    task_id: str


class VerifyResponse(BaseVerifyResponse):
    success: bool


class CompanyOSResourcesServer(SimpleResourcesServer):
    """Holds one episode for each session of NeMo Gym."""

    config: BaseResourcesServerConfig

    def model_post_init(self, context: Any) -> None:
        self._episodes: dict[str, CompanyEnv] = {}

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/{tool}", response_class=PlainTextResponse)(self.call)
        return app

    async def seed_session(self, request: Request, body: SeedSessionRequest) -> BaseSeedSessionResponse:
        self._episodes[request.session[SESSION_ID_KEY]] = make(body.task_id, reward="score")
        return BaseSeedSessionResponse()

    async def call(self, request: Request, tool: str, body: dict[str, Any]) -> str:
        env = self._episodes[request.session[SESSION_ID_KEY]]
        tool_call = {"function": {"name": tool, "arguments": body}}
        [requested_call] = parse_tool_calls(ModelReply(tool_calls=(tool_call,)), env.toolbox).calls
        return requested_call.with_parse_error(env.step(requested_call.action)).text

    async def verify(self, request: Request, body: BaseVerifyRequest) -> VerifyResponse:
        env = closed(self._episodes.pop(request.session[SESSION_ID_KEY]))
        return VerifyResponse(**body.model_dump(), reward=env.turns[-1].reward, success=bool(env.success))


if __name__ == "__main__":
    CompanyOSResourcesServer.run_webserver()
