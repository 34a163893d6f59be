"""A vector of Gymnasium environments on top of `companyos.Batch`, for `gymnasium.make_vec("CompanyOS-v0", num_envs=64)`.

It returns what a vector of single environments returns. With `workers=2` two processes play the episodes.
"""

from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from companyos.agents.llm.replies import ModelReply, parse_call_line
from companyos.company import toolbox_of
from companyos.data.splits import size_of
from companyos.env.batch import Batch
from companyos.env.observations import Observation
from companyos.integrations.gymnasium_env import CompanyOS, in_space

Info = dict[str, Any]
Step = tuple[tuple[str, ...], Any, Any, Any, Info]


class CompanyOSVector(VectorEnv[Any, Any, Any]):
    """Texts in, texts out, for `num_envs` episodes at once. The step after the end of an episode begins the next one."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, workers: int = 0, reward: str = "dense", **options: Any) -> None:
        self._single = CompanyOS(reward=reward, **options)  # knows the spaces, and which tasks there are
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = self._single.observation_space, self._single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [np_random()[0] for _ in range(num_envs)]
        self._tasks = [""] * num_envs
        self._seen: dict[int, Observation] = {}
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._batch = Batch(workers, reward)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], Info]:
        """Begin all episodes. The seed of an episode is `seed` plus its number, as in Gymnasium's own vectors."""
        seeds = seed if isinstance(seed, list) else [None if seed is None else seed + i for i in range(self.num_envs)]
        for number, own_seed in enumerate(seeds):
            if own_seed is not None:
                self._generators[number] = np_random(own_seed)[0]
        self._begin(list(range(self.num_envs)), (options or {}).get("task_id"))
        return self._texts(), self._infos({})

    def step(self, actions: Any) -> Step:
        """Make one step in every episode. Where an episode was over, the action is ignored and the next task begins."""
        running = [number for number in range(self.num_envs) if not self._over[number]]
        requested = {number: self._call_in(number, str(actions[number])) for number in running}
        stepped = self._batch.step({number: call.action for number, call in requested.items()})
        self._seen |= {number: requested[number].with_parse_error(obs) for number, obs in stepped.items()}
        self._begin([number for number in range(self.num_envs) if self._over[number]])
        self._over = np.array([self._seen[number].done for number in range(self.num_envs)], dtype=np.bool_)
        ended = self._batch.endings([number for number in running if self._over[number]])
        terminated = np.array([number in ended and ended[number][0] for number in range(self.num_envs)], dtype=np.bool_)
        rewards = np.array([self._seen[number].reward for number in range(self.num_envs)], dtype=np.float64)
        return self._texts(), rewards, terminated, self._over & ~terminated, self._infos(ended)

    def close_extras(self, **_: Any) -> None:
        self._batch.close()

    def _begin(self, numbers: list[int], task_id: str | None = None) -> None:
        for number in numbers:
            drawn = int(self._generators[number].integers(size_of(self._single.split)))
            self._tasks[number] = task_id or str(self._single.task(drawn))
            self._over[number] = False
        self._seen |= self._batch.begin({number: self._tasks[number] for number in numbers})

    def _call_in(self, number: int, text: str) -> Any:
        [requested] = parse_call_line(ModelReply(text), toolbox_of(self._seen[number].scene.offered)).calls
        return requested

    def _texts(self) -> tuple[str, ...]:
        return tuple(in_space(self._seen[number].text) for number in range(self.num_envs))

    def _infos(self, ended: dict[int, tuple[bool, bool]]) -> Info:
        infos: Info = {}
        for number in range(self.num_envs):
            success = ended[number][1] if number in ended else False
            info = {"task_id": self._tasks[number], "code": self._seen[number].code, "success": success}
            infos = self._add_info(infos, info, number)
        return infos
