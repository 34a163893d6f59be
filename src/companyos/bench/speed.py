"""Benchmarks of speed and memory, compared with limits and with Gymnasium's Taxi.

The speed of a machine varies by a factor of two, so absolute speeds mean little. Our episodes and Taxi's alternate, the
ratio is computed within each round, and the result is the median of the rounds with its range. A step includes everything:
the call is checked, carried out, journaled, graded, hashed and observed. Resets are timed separately and are not part of
the steps on either side. The timed tasks were played before, as in a group of rollouts of one task. Therefore the caches
that all forks of a task share are warm.

In the labels of the rows, `both` means the episodes of both agents, the expert and the random one. The row `step and its
text` also renders the observation as text, which otherwise happens only on request. The row `first play` measures tasks
with cold caches.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, cycle, islice
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from companyos import agents
from companyos.core.calls import Call
from companyos.core.errors import install_hint
from companyos.core.task import SIZES
from companyos.env import CompanyEnv, make
from companyos.families import SHORT_FAMILIES, setting  # `setting` builds and caches the start state of a task

CHAOS = 0.5
LIVE_STEPS = 15  # steps before the memory of an episode is measured
UNWANTED = ("fastapi", "openenv", "torch", "numpy", "gymnasium")  # `import companyos` must not import these
FRESH_NUMBERS = count(10**9)  # numbers of episodes that nothing else plays, so that no cache knows them


class Measurement(msgspec.Struct, frozen=True):
    """The result for one quantity: the median of the rounds, their range, the limit and the goal."""

    what: str
    unit: str
    value: float
    low: float
    high: float
    limit: float | None = msgspec.field(default=None, name="floor")  # JSON keeps the older name
    goal: float | None = None
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        if self.limit is None or self.goal is None:
            return ""
        sign = 1 if self.more_is_better else -1
        if sign * self.value >= sign * self.goal:
            return "goal"
        return "ok" if sign * self.value >= sign * self.limit else "missed"


def main(rounds: int = 7, episodes: int = 60, as_json: bool = False) -> None:
    """Measure everything. Print a table and the same as one line of JSON; with `as_json`, only that line."""
    measured = measure(rounds, episodes)
    if not as_json:
        _print_table(measured, rounds)
    print(msgspec.json.encode({"rounds": rounds, "episodes": episodes, "rows": measured}).decode())


def _print_table(measured: list[Measurement], rounds: int) -> None:
    title = f"CompanyOS at chaos {CHAOS}, median of {rounds} rounds"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
    for heading in ("what", "median", "min–max", "unit", "limit", "goal", ""):
        table.add_column(heading, justify="left" if heading in ("what", "unit") else "right", no_wrap=True)
    for row in measured:
        spread = f"{short(row.low)}–{short(row.high)}"
        table.add_row(row.what, short(row.value), spread, row.unit, short(row.limit), short(row.goal), row.verdict)
    Console().print(table)


def measure(rounds: int, episodes: int) -> list[Measurement]:
    """Return all rows of the table. Memory comes last, because tracing it slows everything down."""
    if rounds < 1 or episodes < 1:
        raise ValueError(f"rounds and episodes must be at least 1; got {rounds} and {episodes}")
    return [*_steps(rounds, episodes), *_starts(rounds, episodes), *_imports(rounds), *_memory(4 * episodes)]


# -- steps -------------------------------------------------------------------------------------------------------------


Script = tuple[int, list[Call]]  # the number of an episode and recorded calls, so that only the environment is timed
TaxiRun = tuple[Any, Iterator[int]]  # the environment and its actions


def _steps(rounds: int, episodes: int) -> list[Measurement]:
    taxi = _taxi()
    scripts = {agent: [record(agent, number) for number in range(episodes)] for agent in ("expert", "random")}
    of_both_agents = [script for pair in zip(*scripts.values(), strict=True) for script in pair]
    other_sizes = {size: [record(agent, n, size) for n in range(episodes) for agent in scripts] for size in SIZES[1:]}
    # Each row has its own rounds, because `cold` clears a cache that the other rows need warm.
    rows: dict[str, Callable[[], tuple[float, float, int]]] = {
        "step, both": lambda: _in_turns(of_both_agents, taxi),
        "step, expert": lambda: _in_turns(scripts["expert"], taxi),
        "step, random": lambda: _in_turns(scripts["random"], taxi),
        "step, both, first play": lambda: _in_turns(of_both_agents, taxi, cold=True),
        "step and its text, both": lambda: _in_turns(of_both_agents, taxi, text=True),
        **{
            f"step, both, size {size}": partial(_in_turns, of_size, taxi, size=size) for size, of_size in other_sizes.items()
        },
    }
    ratios, speeds = [], []
    for what, play in rows.items():
        gc.collect()
        _, *measured = [play() for _ in range(1 + rounds)]  # the first round only warms up
        limit_and_goal = (0.7, 1.0) if what == "step, both" else ()
        ratios.append(
            _row(
                what,
                "× Taxi",
                [taxi_seconds / our_seconds for our_seconds, taxi_seconds, _ in measured],
                *limit_and_goal,
                more_is_better=True,
            )
        )
        speeds.append(_row(what, "/s", [steps / our_seconds for our_seconds, _, steps in measured], more_is_better=True))
        if what == "step, both":
            speeds.insert(
                0,
                _row("step, Taxi", "/s", [steps / taxi_seconds for _, taxi_seconds, steps in measured], more_is_better=True),
            )
    return [*ratios, *speeds]


def _in_turns(
    scripts: list[Script], taxi: TaxiRun, text: bool = False, cold: bool = False, size: str = SIZES[0]
) -> tuple[float, float, int]:
    """Play our episodes and as many steps of Taxi in turns. Return our seconds, Taxi's seconds, and the steps of each.

    Because the two alternate, a disturbance of the machine affects both, and both warm up in the same way.
    """
    our_seconds = taxi_seconds = 0.0
    for script in scripts:
        our_seconds += _time_script(script, text, cold, size)
        taxi_seconds += _time_taxi(*taxi, len(script[1]))
    return our_seconds, taxi_seconds, sum(len(calls) for _, calls in scripts)


def record(agent: str, number: int, size: str = SIZES[0]) -> Script:
    """Let an agent play an episode, and return the number of the episode and the calls."""
    env = agents.play(episode(number, size), agents.make(agent, number))
    return number, [turn.call for turn in env.turns]


def episode(number: int, size: str = SIZES[0]) -> CompanyEnv:
    """Return an episode. Consecutive numbers go through all families except the long `quarter_close`."""
    seed, index = divmod(number, len(SHORT_FAMILIES))
    return make(SHORT_FAMILIES[index], seed=seed, chaos=CHAOS, reward="dense", size=size)


def _time_script(script: Script, text: bool = False, cold: bool = False, size: str = SIZES[0]) -> float:
    """Play a script and return the seconds of its steps. With `cold`, the cache of start states is cleared first."""
    number, calls = script
    if cold:
        setting.cache_clear()
    step = episode(number, size).step
    began = perf_counter()
    if text:
        for call in calls:
            step(call).text  # noqa: B018 (the property renders the text)
    else:
        for call in calls:
            step(call)
    return perf_counter() - began


def _taxi() -> TaxiRun:
    """Return Taxi as `gymnasium.make` makes it, and an endless cycle of random valid actions."""
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"the benchmark compares with Gymnasium: {install_hint('bench')}") from None
    env = gymnasium.make(next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry))
    env.action_space.seed(0)
    env.reset(seed=0)
    return env, cycle([env.action_space.sample() for _ in range(1000)])


def _time_taxi(env: Any, actions: Iterator[int], count: int) -> float:
    """Take `count` steps and return the seconds."""
    step, spent, began = env.step, 0.0, perf_counter()
    for action in islice(actions, count):
        _, _, terminated, truncated, _ = step(action)
        if terminated or truncated:  # the reset is not timed
            spent += perf_counter() - began
            env.reset()
            began = perf_counter()
    return spent + perf_counter() - began


# -- resets and forks --------------------------------------------------------------------------------------------------


def _starts(rounds: int, episodes: int) -> list[Measurement]:
    """Measure a reset with a new seed, a reset of a known task, and a fork in the middle of an episode."""
    ended = cycle([_played(number, 1.0) for number in range(episodes)])
    middle = cycle([_played(number, 0.5) for number in range(episodes)])
    times: list[list[float]] = [[], [], [], [], []]  # of each kind of start, one number per round
    for _ in range(1 + rounds):
        gc.collect()
        times[0].append(_per_call(lambda: episode(next(FRESH_NUMBERS)), episodes) * 1e3)
        times[1].append(_per_call(lambda: next(ended).reset(), 10 * episodes) * 1e6)
        times[2].append(_per_call(lambda: next(middle).fork(), 50 * episodes) * 1e6)
        for place, size in enumerate(SIZES[1:], 3):
            times[place].append(_per_call(partial(_fresh_episode, size), episodes) * 1e3)
    new_seed, known_task, forks, *of_sizes = (rest for _, *rest in times)  # the first round only warms up
    return [
        _row("reset, new seed", "ms", new_seed, 2.0, 0.5),
        *(_row(f"reset, new seed, size {size}", "ms", of_size) for size, of_size in zip(SIZES[1:], of_sizes, strict=True)),
        _row("reset, known task", "µs", known_task),
        _row("fork in mid-episode", "µs", forks, 10.0, 3.0),
    ]


def _fresh_episode(size: str) -> CompanyEnv:
    return episode(next(FRESH_NUMBERS), size)


def _played(number: int, share: float) -> CompanyEnv:
    """Return an episode in which the expert has played this share of its calls."""
    _, calls = record("expert", number)
    env = episode(number)
    for call in calls[: round(share * len(calls))]:
        env.step(call)
    return env


def _per_call(function: Callable[[], object], times: int) -> float:
    """Return the mean seconds of a call."""
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


def _imports(rounds: int) -> list[Measurement]:
    """Measure in fresh processes the time of `import companyos`, and count large packages that it imports."""
    command = [sys.executable, "-c", _IMPORT]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(rounds)]
    seconds, unwanted = ([float(run[i]) for run in runs] for i in (0, 1))
    return [_row("import", "s", seconds, 0.3, 0.3), _row("large imports with it", "", unwanted, 0.0, 0.0)]


def _memory(live: int) -> list[Measurement]:
    """Measure the memory of a live episode with its start state, and of a fork. One round, because memory does not vary."""
    bytes_per_episode = allocated_bytes(running_episode(next(FRESH_NUMBERS)) for _ in range(live)) / live
    env = running_episode(0)
    bytes_per_fork = allocated_bytes(env.fork() for _ in range(live)) / live
    return [
        _row("memory of an episode", "kB", [bytes_per_episode / 1e3], 300.0, 100.0),
        _row("memory of a fork", "kB", [bytes_per_fork / 1e3], 300.0, 100.0),
    ]


def running_episode(number: int) -> CompanyEnv:
    """Return an episode in which the expert has taken some steps."""
    env, agent = episode(number), agents.make("expert", number)
    obs = env.reset()
    while not obs.done and obs.step < LIVE_STEPS:
        obs = env.step(agent.act(obs))
    return env


def allocated_bytes(objects: Iterable[object]) -> int:
    """Return the bytes that Python allocates while these objects are made and kept."""
    tracemalloc.start()
    kept = list(objects)
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept.clear()
    return current


def _row(what: str, unit: str, values: list[float], *limit_and_goal: float, more_is_better: bool = False) -> Measurement:
    limit, goal = limit_and_goal or (None, None)
    return Measurement(what, unit, median(values), min(values), max(values), limit, goal, more_is_better)


def short(value: float | None) -> str:
    """Return a number with three significant digits, and whole numbers in full."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
