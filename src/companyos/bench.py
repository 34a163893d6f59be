"""Benchmarks: how fast and how small it is, held against floors and against Gymnasium's Taxi in the same minute.

The machine drifts by a factor of two, so absolute numbers mean little: ours and Taxi's episodes are played in turns, a ratio
is taken within each round, and what counts is the median of the rounds with its spread. Neither side's resets are counted.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from itertools import count, cycle
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from companyos import agents
from companyos.calls import Call
from companyos.env import CompanyEnv, make

CHAOS = 0.5
LIVE_STEPS = 15  # how far an episode has come whose memory is counted
UNWANTED = ("fastapi", "openenv", "torch", "numpy", "gymnasium")  # `import companyos` must not bring these along
_FRESH_SEEDS = count(10**9)  # far from those that are played, so that nothing about them is known beforehand
_TAXI_EPISODE = 200


class Row(msgspec.Struct, frozen=True):
    """One thing measured: the median of its rounds, their spread, and what it is held against."""

    what: str
    unit: str
    value: float
    low: float
    high: float
    floor: float | None = None
    goal: float | None = None
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        if self.floor is None:
            return ""
        if self._reaches(self.goal):
            return "ok, goal reached"
        return "ok" if self._reaches(self.floor) else "missed"

    def _reaches(self, mark: float | None) -> bool:
        return mark is not None and (self.value >= mark if self.more_is_better else self.value <= mark)


class Recorded(msgspec.Struct, frozen=True):
    """An episode to be played again: its calls are known, so nothing but the environment is timed."""

    env: CompanyEnv
    calls: list[Call]


def main(rounds: int = 7, episodes: int = 60) -> None:
    """Measures everything, prints a table, and the same as one line of JSON."""
    found = rows(rounds, episodes)
    table = Table(title=f"CompanyOS, chaos {CHAOS}: median of {rounds} rounds", title_justify="left")
    table.add_column("what")
    for heading in ("median", "min–max", "unit", "floor", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in found:
        spread = f"{_short(row.low)}–{_short(row.high)}"
        table.add_row(row.what, _short(row.value), spread, row.unit, _short(row.floor), _short(row.goal), row.verdict)
    Console().print(table)
    print(msgspec.json.encode({"rounds": rounds, "episodes": episodes, "rows": found}).decode())


def rows(rounds: int, episodes: int) -> list[Row]:
    """Every row of the table; memory comes last, since counting it slows everything down."""
    if rounds < 1 or episodes < 1:
        raise ValueError(f"rounds and episodes are at least 1; got {rounds} and {episodes}")
    return [*_steps(rounds, episodes), *_starts(rounds, episodes), *_imports(rounds), *_memory(rounds, 3 * episodes)]


# -- steps -------------------------------------------------------------------------------------------------------------


def _steps(rounds: int, episodes: int) -> list[Row]:
    """The whole of a step: checked, carried out, journaled, graded, digested, observed, and the observation as text."""
    taxi = _taxi()
    played = {name: _record(name, episodes) for name in ("expert", "random")}
    speeds: dict[str, list[float]] = {"expert": [], "random": [], "both": [], "taxi": []}
    for number in range(-1, rounds):  # one round to warm up
        gc.collect()
        spent = dict.fromkeys(speeds, 0.0)
        steps = dict.fromkeys(speeds, 0)
        for i in range(episodes):
            for name, recorded in played.items():
                spent[name] += _play_again(recorded[i])
                steps[name] += len(recorded[i].calls)
            spent["taxi"] += _drive(taxi)
            steps["taxi"] += _TAXI_EPISODE
        spent["both"] = spent["expert"] + spent["random"]
        steps["both"] = steps["expert"] + steps["random"]
        if number >= 0:
            for name, speed in speeds.items():
                speed.append(steps[name] / spent[name])
    ratios = {name: [ours / theirs for ours, theirs in zip(speeds[name], speeds["taxi"], strict=True)] for name in speeds}
    return [
        _row("step, expert and random, against Taxi", "×", ratios["both"], 0.7, 1.0, more_is_better=True),
        _row("step, expert, against Taxi", "×", ratios["expert"], 0.7, 1.0, more_is_better=True),
        _row("step, random, against Taxi", "×", ratios["random"], 0.7, 1.0, more_is_better=True),
        _row("step, expert and random", "steps/s", speeds["both"], more_is_better=True),
        _row("step, expert", "steps/s", speeds["expert"], more_is_better=True),
        _row("step, random", "steps/s", speeds["random"], more_is_better=True),
        _row("step, Taxi", "steps/s", speeds["taxi"], more_is_better=True),
    ]


def _record(agent: str, episodes: int) -> list[Recorded]:
    """What an agent does in its first episodes."""
    return [_recorded(_episode(seed), agent, seed) for seed in range(episodes)]


def _recorded(env: CompanyEnv, agent: str, seed: int) -> Recorded:
    agents.play(env, agents.make(agent, seed))
    return Recorded(env, [turn.call for turn in env.turns])


def _episode(seed: int) -> CompanyEnv:
    return make("vendor_onboarding", seed=seed, chaos=CHAOS, reward="seed")


def _play_again(recorded: Recorded) -> float:
    env = recorded.env
    env.reset()
    step = env.step
    began = perf_counter()
    for call in recorded.calls:
        step(call).text  # noqa: B018  # the text is made when it is asked for
    return perf_counter() - began


def _taxi() -> Any:
    """Taxi as `gymnasium.make` gives it, and 200 actions drawn once."""
    try:
        import gymnasium
    except ImportError:
        raise ValueError('the benchmark needs Gymnasium: pip install "companyos[bench]"') from None
    env = gymnasium.make(next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry))
    env.action_space.seed(0)
    return env, [env.action_space.sample() for _ in range(_TAXI_EPISODE)]


def _drive(taxi: Any) -> float:
    """One episode's worth of valid actions; an episode that ends early is started again off the clock."""
    env, actions = taxi
    env.reset(seed=0)
    step = env.step
    spent = 0.0
    began = perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = step(action)
        if terminated or truncated:
            spent += perf_counter() - began
            env.reset()
            began = perf_counter()
    return spent + perf_counter() - began


# -- resets and forks --------------------------------------------------------------------------------------------------


def _starts(rounds: int, episodes: int) -> list[Row]:
    """From nothing with a seed never seen; of a task that is known; and from the middle of an episode."""
    new, known, forks = [], [], []
    halfway = [_halfway(recorded) for recorded in _record("expert", episodes)]
    for number in range(-1, rounds):
        gc.collect()
        times = (
            _per_call(lambda seeds=_FRESH_SEEDS: _episode(next(seeds)), episodes),  # type: ignore[misc]
            _per_call(lambda envs=cycle(halfway): next(envs).fork().reset(), 10 * episodes),  # type: ignore[misc]
            _per_call(lambda envs=cycle(halfway): next(envs).fork(), 50 * episodes),  # type: ignore[misc]
        )
        if number >= 0:
            for kept, seconds in zip((new, known, forks), times, strict=True):
                kept.append(seconds)
    return [
        _row("reset, new seed", "ms", [seconds * 1e3 for seconds in new], 2.0, 0.5),
        _row("reset, known task", "µs", [seconds * 1e6 for seconds in known]),
        _row("fork in mid-episode", "µs", [seconds * 1e6 for seconds in forks], 10.0, 3.0),
    ]


def _halfway(recorded: Recorded) -> CompanyEnv:
    recorded.env.reset()
    for call in recorded.calls[: len(recorded.calls) // 2]:
        recorded.env.step(call)
    return recorded.env


def _per_call(function: Callable[[], object], times: int) -> float:
    began = perf_counter()
    for _ in range(times):
        function()
    return (perf_counter() - began) / times


# -- imports and memory ------------------------------------------------------------------------------------------------

_IMPORT = f"""
import sys, time
began = time.perf_counter()
import companyos
print(time.perf_counter() - began, sum(name in sys.modules for name in {UNWANTED}))
"""


def _imports(rounds: int) -> list[Row]:
    seconds, unwanted = [], []
    for _ in range(rounds):
        ran = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
        spent, brought = ran.stdout.split()
        seconds.append(float(spent))
        unwanted.append(float(brought))
    return [
        _row("import companyos, fresh process", "s", seconds, 0.3, 0.3),
        _row(f"of {', '.join(UNWANTED)}, imported with it", "", unwanted, 0, 0),
    ]


def _memory(rounds: int, envs: int) -> list[Row]:
    """What a live episode adds, its own first morning included; and what a fork adds. One round says it all."""
    seeds = range(envs)
    live = _growth(lambda: (_lived(_episode(next(_FRESH_SEEDS)), seed) for seed in seeds)) / envs / 1e3
    env = _lived(_episode(0), 0)
    forks = _growth(lambda: (env.fork() for _ in seeds)) / envs / 1e3
    return [
        _row("memory of a live episode", "kB", [live], 300, 100),
        _row("memory of a fork", "kB", [forks], 300, 100),
    ]


def _lived(env: CompanyEnv, seed: int) -> CompanyEnv:
    agent = agents.make("expert", seed)
    obs = env.reset()
    while not obs.done and obs.step < LIVE_STEPS:
        obs = env.step(agent.act(obs))
    return env


def _growth(made: Callable[[], Iterable[object] | Iterator[object]]) -> int:
    tracemalloc.start()
    kept = list(made())
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    kept.clear()
    return grown


def _row(
    what: str, unit: str, values: list[float], floor: float | None = None, goal: float | None = None, **more: bool
) -> Row:
    return Row(what, unit, median(values), min(values), max(values), floor, goal, **more)


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
