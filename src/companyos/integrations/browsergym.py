"""BrowserGym tasks, one for each family: `browsergym/companyos.<family>`. Importing this module registers them.

`gymnasium.make("browsergym/companyos.vendor_onboarding", task_kwargs={"chaos": 0.5})` makes an environment; the seed of
`reset` is the seed of the task. This process serves the pages. The reward depends on the end state of the company, not on
the clicks.
"""

import atexit
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

from companyos.chaos import Chaos
from companyos.core.errors import install_hint
from companyos.core.task import MAX_SEED
from companyos.env import CompanyEnv, task_named
from companyos.families import FAMILIES, ExpertStyle, family
from companyos.families.kit.goals import add_up
from companyos.serve.errors import UnknownSession
from companyos.serve.ops.settings import NO_LEDGER, Settings
from companyos.serve.sessions.sessions import Session
from companyos.web.local_server import LocalServer, served
from companyos.web.screen.driver import OfficeDriver
from companyos.web.screen.gestures import HEIGHT, WIDTH

try:
    from browsergym.core.registration import register_task
    from browsergym.core.task import AbstractBrowserTask
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(f"BrowserGym's tasks need {missing.name}: {install_hint('browsergym')}") from None


@cache
def _server() -> LocalServer:
    """Start the server that all tasks of this process share."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(served(Settings(ledger=NO_LEDGER)))


class CompanyTask(AbstractBrowserTask):
    """A task of a family, worked in the web pages. It ends when its ticket is resolved or the budget is used up."""

    def __init__(
        self, seed: int | None, family: str, chaos: Chaos = 0.5, split: str = "train", reward: str = "score"
    ) -> None:
        super().__init__(seed)
        self.viewport = {"width": WIDTH, "height": HEIGHT}
        self.slow_mo = 0  # ms; no pause between clicks is needed, because a page is complete once it has loaded
        self.timeout = 30_000  # ms; long enough for a busy machine
        self._task = task_named(family, int(self.random.randint(MAX_SEED)) if seed is None else seed, chaos, split)
        self._reward = reward
        self._session_id = ""
        self._steps_paid = 0  # steps whose rewards `validate` has returned

    def setup(self, page: Any) -> tuple[str, dict[str, Any]]:
        """Begin a session and open its first page. The goal is the brief."""
        session = _server().run(lambda sessions: sessions.create(self._task, self._reward))
        self._session_id = session.header.session_id
        page.goto(f"{_server().url}/office/{self._session_id}/0")
        return session.env.scene.brief, {"task_id": str(self._task)}

    def validate(self, page: Any, chat_messages: list[Any]) -> tuple[float, bool, str, dict[str, Any]]:
        """Return the rewards since the last call, and whether the episode has ended."""
        env = self.session.env
        unpaid = env.turns[self._steps_paid :]
        self._steps_paid = env.step_count
        info = {"step": env.step_count, "max_steps": env.max_steps, "success": env.success}
        return add_up(turn.reward for turn in unpaid), env.done, "", info

    def cheat(self, page: Any, chat_messages: list[Any]) -> None:
        """Solve the task with the expert, by clicks and forms. It reads replies from its own copy of the episode."""
        env = CompanyEnv(self._task, self._reward)
        for call in self.session.calls:
            env.step(call)
        driver = OfficeDriver(page)
        program = family(self._task.family).expert(env.so_far(), ExpertStyle())
        call = next(program)
        while not env.done:
            sent = driver.perform(call)  # in the browser; the page may send the citations in another order
            env.step(sent)
            if not env.done:
                call = program.send(env.turns[-1].reply)

    def teardown(self) -> None:
        if self._session_id:
            with suppress(UnknownSession):  # the session may have expired
                _server().run(lambda sessions: sessions.close(self._session_id))

    @property
    def session(self) -> Session:
        """The session of this task."""
        return _server().run(lambda sessions: sessions.observe(self._session_id))


for _name in FAMILIES:
    register_task(f"companyos.{_name}", CompanyTask, task_kwargs={"family": _name}, nondeterministic=False)
