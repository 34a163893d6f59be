"""NeMo Gym: a resources server whose rows name their tasks.

NeMo Gym's own server for OpenEnv environments begins every session alike, whatever its row says; so this is one of our own.
A row (`rows`) has the brief and the tools of its task, `task_id` begins it, a tool is a POST to its name, and `verify` gives
the score. Who stops before the end has given up: time passes until the budget is spent.
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

from companyos.agents.llm.replies import ModelReply, by_tools
from companyos.chaos import Chaos
from companyos.data.splits import CHAOS
from companyos.env import CompanyEnv, make
from companyos.env.chat import SYSTEM
from companyos.integrations.lists import closed, tasks_of


def rows(tasks: str = "train", chaos: Chaos = CHAOS) -> Iterator[dict[str, Any]]:
    """A dataset of the tasks of a split or a suite, a line of JSON each."""
    for task_id in tasks_of(tasks, chaos):
        env = make(task_id)
        said = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": env.look().text}]
        tools = [{"type": "function", "strict": False, **schema["function"]} for schema in env.toolbox.schemas]
        yield {"task_id": task_id, "responses_create_params": {"input": said, "tools": tools}}


class SeedSessionRequest(BaseSeedSessionRequest):
    task_id: str


class VerifyResponse(BaseVerifyResponse):
    success: bool


class CompanyOSResourcesServer(SimpleResourcesServer):
    """Episodes by session."""

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
        [asked] = by_tools(ModelReply(tool_calls=({"function": {"name": tool, "arguments": body}},)), env.toolbox).calls
        return asked.hears(env.step(asked.action)).text

    async def verify(self, request: Request, body: BaseVerifyRequest) -> VerifyResponse:
        env = closed(self._episodes.pop(request.session[SESSION_ID_KEY]))
        return VerifyResponse(**body.model_dump(), reward=env.turns[-1].reward, success=bool(env.success))


if __name__ == "__main__":
    CompanyOSResourcesServer.run_webserver()
