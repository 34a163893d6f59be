"""Demonstrations: sessions in which the server itself plays an agent, so that visitors can watch it at once.

The agent is one of the roster. It gets the observations that it gets in an evaluation, and its calls go through the same
work queue as those of any client. The browser asks for each step, so it decides on the pace, and nothing runs on when the
visitor leaves. Nobody else can make a call in the session: visitors get a watch link and never the session id.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from companyos.agents import AGENTS, Agent
from companyos.agents.adversaries.careless import HABITS
from companyos.agents.custom import AgentRaised
from companyos.core.calls import Call, Reply, as_json, parse
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, task_named
from companyos.env.observations import Observation
from companyos.evaluate.runs.roster import agent_named
from companyos.evaluate.runs.run import unrewarded
from companyos.serve.access.roles import Client
from companyos.serve.errors import AgentFailed, Malformed, SessionOver, TaskInUse, TurnAhead, TurnTaken
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin
from companyos.serve.sessions.demonstrations import demonstration_prefix, demonstrator
from companyos.serve.sessions.sessions import Session
from companyos.serve.sessions.truth import TruthAccess
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest

EXPERT, CARELESS = "expert", "naive"
_LOG = logging.getLogger("companyos.demonstrations")
CHAOS = 0.5
# Tasks that the expert solves and the careless agent fails, in few steps: family and seed.
FIRST_TASKS = (
    ("access_request", 4),
    ("data_deletion", 3),
    ("vendor_onboarding", 2),
    ("bug_escalation", 1),
    ("incident_response", 7),
)
_TRAINED_KINDS = ("local:", "tiny:")
_MAX_PLAYERS = 64  # agents in memory; one that was dropped is made again and shown the episode so far
_THREADS = 2  # in which agents choose their calls


class Player(NamedTuple):
    """An agent in the middle of an episode."""

    agent: Agent
    seen: int  # the number of observations that the agent has answered


class Demonstrations:
    """Starts demonstrations and makes their steps."""

    def __init__(self, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._queue, self._metrics, self._settings = queue, metrics, settings
        self._truth_access = TruthAccess()
        self._players: OrderedDict[str, Player] = OrderedDict()  # by session id, the least recently used first
        self._locks: dict[str, asyncio.Lock] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "agents")
        self.groups = (
            ("Built in", tuple(AGENTS)),
            ("Careless about one kind of trouble", tuple(f"careless:{dial}" for dial in HABITS)),
            ("Of this server", settings.agents),
        )
        self.names = frozenset(name for _, names in self.groups for name in names)
        for name in settings.agents:
            agent_named(name)  # a wrong name is an error of the operator, so the server does not start

    @property
    def trained(self) -> str:
        """The name of the trained model that this server offers, or an empty text."""
        return next((name for name in self._settings.agents if name.startswith(_TRAINED_KINDS)), "")

    async def start(self, agent: str, client: Client, body: ResetBody | None = None) -> Session:
        """Begin a demonstration of a task, or of one of the first tasks that nobody works on."""
        if agent not in self.names:
            # The names of other agents can load files and import code, so only the operator of the server may add them.
            raise Malformed(f"this server offers no agent {agent!r} - at `$.agent`")
        if body is None:
            body = ResetBody(task=str(await self._free_task(client)))
        prefix = demonstration_prefix(agent)
        session = await begin(self._queue, self._settings, body, client.owner, name=prefix)
        try:
            await self.check_access(session.header.session_id, TaskId.parse(session.header.task_id), client)
        except TaskInUse:
            await self._queue.run(lambda sessions: sessions.close(session.header.session_id, client.owner))
            raise
        return session

    async def check_access(self, session_id: str, task: TaskId, client: Client) -> None:
        """Raise `TaskInUse` if somebody works on the task of a demonstration, which would show the solution."""
        if demonstrator(session_id) and not await self._queue.run(
            lambda sessions: self._truth_access.may_see(sessions, client, task)
        ):
            raise TaskInUse

    async def step(self, session_id: str, turn: int, client: Client) -> Session:
        """Let the agent make a turn, unless it was made already. Return the session after it."""
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            session = await self._observe(session_id, client)
            if session.env.step_count >= turn or session.env.done:
                return session
            await self.check_access(session_id, TaskId.parse(session.header.task_id), client)
            try:
                call = await asyncio.get_running_loop().run_in_executor(self._threads, self._choose, session)
            except AgentRaised as raised:
                _LOG.error("%s raised in %s: %s", demonstrator(session_id), session.header.task_id, raised)
                raise AgentFailed from None
            try:
                await self._queue.step(StepRequest(session_id, call, session.env.step_count + 1, session.header.owner))
                self._metrics.steps(1)
            except (TurnTaken, TurnAhead, SessionOver):  # another worker made the step
                self._players.pop(session_id, None)
            return await self._observe(session_id, client)

    def close(self) -> None:
        """Stop the threads. A call that an agent is choosing is not made."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _observe(self, session_id: str, client: Client) -> Session:
        owner = None if client.admin else client.owner
        return await self._queue.run(lambda sessions: sessions.observe(session_id, owner))

    async def _free_task(self, client: Client) -> TaskId:
        """Return one of the first tasks whose solution the client may see now."""
        tasks = [task_named(family, seed, CHAOS) for family, seed in FIRST_TASKS]
        in_use = await self._queue.run(lambda sessions: self._truth_access.unfinished(sessions, tasks))
        free = [task for task in tasks if client.trusted or task.key not in in_use]
        if not free:
            raise TaskInUse
        return secrets.choice(free)

    def _choose(self, session: Session) -> Call:
        """Return the agent's next call."""
        session_id, task_id, turns = session.header.session_id, session.header.task_id, session.env.turns
        player = self._players.pop(session_id, None)
        if player is None or player.seen != len(turns):
            agent = agent_named(demonstrator(session_id)).open().agent(task_id, 0)
            _show(agent, TaskId.parse(task_id), [turn.call for turn in turns])
        else:
            agent = player.agent
        call = as_call(agent.act(unrewarded(session.last)))
        self._players[session_id] = Player(agent, len(turns) + 1)
        if len(self._players) > _MAX_PLAYERS:
            forgotten, _ = self._players.popitem(last=False)
            self._locks.pop(forgotten, None)
        return call


def _show(agent: Agent, task: TaskId, calls: Sequence[Call]) -> None:
    """Show an agent the observations of an episode that was played up to now, so that it can go on."""
    env = CompanyEnv(task)
    observation: Observation = env.reset()
    for call in calls:
        agent.act(unrewarded(observation))
        observation = env.step(call)


def as_call(action: object) -> Call:
    """Return an agent's action as a call. A value that is not a call becomes a call of an unknown tool, which is refused."""
    parsed = parse(action)
    return Call("", str(as_json(action))[:200]) if isinstance(parsed, Reply) else parsed
