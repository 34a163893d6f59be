"""Inspect tasks, one for each suite: `inspect eval companyos/core --model ...`.

A model works as in `companyos evaluate`: the tools are normal Inspect tools, a message without a call costs a step, and an
episode ends when the ticket is resolved or the budget is used up. The calls are saved in the store of the sample, and the
scorers replay them.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef, ToolParams

from companyos.agents.llm.replies import ModelReply, RequestedCall, parse_tool_calls
from companyos.env import CompanyEnv, make
from companyos.env.chat import SYSTEM
from companyos.evaluate.suites.suite import frozen_names
from companyos.integrations.lists import replayed, tasks_of
from companyos.integrations.trl_env import meaning

ACTIONS = "actions"  # the key in the store of a sample


def task_of(tasks: str) -> Task:
    """Return the tasks of a suite or a split as one Inspect task."""
    return Task(dataset=list(map(_sample, tasks_of(tasks))), solver=works(), scorer=[company_score(), success()])


def _sample(task_id: str) -> Sample:
    brief = make(task_id).look().text
    return Sample(id=task_id, input=[ChatMessageSystem(content=SYSTEM), ChatMessageUser(content=brief)])


@solver
def works() -> Solver:
    """Let the model work until the episode has ended."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        company = make(str(state.sample_id))
        state.store.set(ACTIONS, [])
        state.tools = [_tool(company, state, schema["function"]) for schema in company.toolbox.schemas]
        while not company.done:
            before = len(company.turns)
            state = await generate(state, tool_calls="single")
            if len(company.turns) == before:  # no call, or none that Inspect could parse
                [request] = parse_tool_calls(ModelReply(state.output.completion), company.toolbox).calls
                state.messages.append(ChatMessageUser(content=_step(company, state, request)))
        return state

    return solve


def _tool(company: CompanyEnv, state: TaskState, function: dict[str, Any]) -> Tool:
    async def execute(**arguments: Any) -> str:
        tool_call = {"function": {"name": function["name"], "arguments": arguments}}
        [request] = parse_tool_calls(ModelReply(tool_calls=(tool_call,)), company.toolbox).calls
        return _step(company, state, request)

    arguments = function["parameters"]["properties"].items()
    described = {name: schema | {"description": meaning(name, schema)} for name, schema in arguments}  # Inspect requires it
    parameters = ToolParams.model_validate(function["parameters"] | {"properties": described})
    return ToolDef(execute, name=function["name"], description=function["description"], parameters=parameters).as_tool()


def _step(company: CompanyEnv, state: TaskState, request: RequestedCall) -> str:
    """Make a call, save it in the store, and return the text that the model reads."""
    if not company.done:
        state.store.get(ACTIONS).append(msgspec.to_builtins(request.action))
    return request.with_parse_error(company.step(request.action)).text


@scorer(metrics=[mean(), stderr()])
def company_score() -> Scorer:
    """Return a scorer with the score, from 0 to 1."""
    return _scored(lambda env: env.turns[-1].reward)


@scorer(metrics=[mean(), stderr()])
def success() -> Scorer:
    """Return a scorer with 1 if the task was solved, else 0."""
    return _scored(lambda env: float(bool(env.success)))


def _scored(value: Callable[[CompanyEnv], float]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        env = replayed(str(state.sample_id), state.store.get(ACTIONS, []))
        return Score(value=value(env), metadata={"steps": env.step_count, "success": bool(env.success)})

    return score


def _suite_task(name: str) -> Callable[[], Task]:
    def suite_task() -> Task:
        return task_of(name)

    suite_task.__name__ = name
    registered: Callable[[], Task] = task(name=name)(suite_task)
    return registered


SUITE_TASKS = {name: _suite_task(name) for name in frozen_names()}
