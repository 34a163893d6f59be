"""Gymnasium environments: `CompanyOS-v0`, and one for each family, for example `CompanyOS/expense_report-v0`.

An action is a text; its first line that is a call is made (`companyos.env.line_syntax`). An observation is the text that
every agent reads.
In `CompanyOSDiscrete-v0` an action is the number of a ready-made call (`companyos.agents.choices.numbered_calls`).
`info["action_mask"]` says which numbers are valid. `reset` draws the task from its seed, or takes it from
`options={"task_id": ...}`.

An episode is terminated when the ticket is resolved, and truncated when the budget is used up.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, Text

from companyos.agents.choices.numbered_calls import CALL_NUMBERS, NumberedCalls
from companyos.agents.llm.replies import step_by_line
from companyos.chaos import Chaos
from companyos.core.task import TaskId
from companyos.data.splits import CHAOS, size_of, task_at
from companyos.env import CompanyEnv, make, task_named
from companyos.env.observations import Observation
from companyos.families import FAMILIES, SHORT_FAMILIES

MAX_LENGTH = 16_384  # characters of an observation; usual ones have a tenth of it
MAX_ACTION_LENGTH = 4_096
VECTOR = "companyos.integrations.gymnasium_vector:CompanyOSVector"  # a name, because that module imports this one
_ASCII = "".join(map(chr, range(128)))  # a Text space lists its characters
Info = dict[str, Any]


def text_space(length: int = MAX_LENGTH) -> Text:
    """Return the space of observations or actions."""
    return Text(length, min_length=0, charset=_ASCII)


def in_space(text: str) -> str:
    """Make a text fit the observation space: shorten it, and replace what is not ASCII. That is only needed if it quotes
    what an agent has written: the company's own texts are short and ASCII."""
    return text[:MAX_LENGTH].encode("ascii", "replace").decode()


class CompanyOS(gymnasium.Env[str, Any]):
    """The Gymnasium environment. `company` is the current episode."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    company: CompanyEnv

    def __init__(
        self,
        family: str = "",
        chaos: Chaos = CHAOS,
        split: str = "train",
        reward: str = "dense",
        render_mode: str | None = None,
        size: str = "office",
    ) -> None:
        self._family, self._chaos, self.split, self._reward = family, chaos, split, reward
        self._size = size
        self.task(0)  # raises for invalid arguments
        self._text = ""
        self.render_mode = render_mode
        self.observation_space = text_space()
        self.action_space: Any = text_space(MAX_ACTION_LENGTH)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Info]:
        super().reset(seed=seed)
        chosen_task = (options or {}).get("task_id")
        drawn_number = int(self.np_random.integers(size_of(self.split)))
        self.company = make(chosen_task or str(self.task(drawn_number)), reward=self._reward)
        return self._shown(self.company.look())

    def step(self, action: Any) -> tuple[str, float, bool, bool, Info]:
        obs = self._act(action)
        text, info = self._shown(obs)
        resolved = self.company.resolved
        return text, obs.reward, resolved, obs.done and not resolved, info

    def render(self) -> str:
        return self._text

    def task(self, number: int) -> TaskId:
        """Return the task with this number in the split. With a family, return the family's task in the same round.

        A split goes round `SHORT_FAMILIES` (all families except those with long tasks), and each round has the next seed.
        """
        if self._family:
            seed = number // len(SHORT_FAMILIES)
            return task_named(self._family, seed, self._chaos, self.split, self._size)
        return task_at(self.split, number, self._chaos, self._size)

    def _act(self, action: Any) -> Observation:
        return step_by_line(self.company, action)

    def _shown(self, obs: Observation) -> tuple[str, Info]:
        self._text = in_space(obs.text)
        return self._text, {"task_id": self.company.task_id, "code": obs.code, "success": bool(self.company.success)}


class CompanyOSDiscrete(CompanyOS):
    """The same environment with numbered actions. Calls without a number are not available, for example long texts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.action_space = Discrete(CALL_NUMBERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Info]:
        text, info = super().reset(seed=seed, options=options)
        self._numbered = NumberedCalls(self.company, self.company.look())
        return text, info | {"action_mask": self.action_masks()}

    def step(self, action: Any) -> tuple[str, float, bool, bool, Info]:
        text, reward, terminated, truncated, info = super().step(action)
        return text, reward, terminated, truncated, info | {"action_mask": self.action_masks()}

    def action_masks(self) -> "np.ndarray[Any, np.dtype[np.int8]]":
        """Return for each number whether it has a call. The name is the one that sb3-contrib's MaskablePPO expects."""
        return np.array(self._numbered.mask(), dtype=np.int8)

    def meaning(self, action: int) -> Any:
        """Return the call with this number, or None if there is none."""
        return self._numbered.call(int(action))

    def _act(self, action: Any) -> Observation:
        # A number without a call is an invalid call. This text is part of transcripts, so it does not change.
        obs = self.company.step(self.meaning(action) or "a number without a card")
        self._numbered.hear(obs)
        return obs


def _register() -> None:
    gymnasium.register("CompanyOS-v0", CompanyOS, vector_entry_point=VECTOR)
    gymnasium.register("CompanyOSDiscrete-v0", CompanyOSDiscrete)
    for name in FAMILIES:
        gymnasium.register(f"CompanyOS/{name}-v0", CompanyOS, vector_entry_point=VECTOR, kwargs={"family": name})


_register()
