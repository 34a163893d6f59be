"""Benchmarks: how fast and how small it is, held against floors, and against Gymnasium's Taxi in the same minute.

A machine drifts by a factor of two, so speeds by themselves mean little: our episodes and Taxi's are played in turns, the
ratio is taken within each round, and what counts is the median of the rounds with its spread. A step here is the whole of
it: checked, carried out, journaled, graded, digested, observed; `and its text` writes the observation as text, too, which
happens only when that is asked for. Resets are timed by themselves, and left out of the steps on both sides. Steps are those
of tasks that were played before, as in a group of rollouts, so what the forks of one task share is there already; `first
play` is of tasks that nobody has touched.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
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
from companyos.env import CompanyEnv, make
from companyos.families import SHORT_FAMILIES, setting

CHAOS = 0.5
LIVE_STEPS = 15  # how far an episode has come whose memory is counted
UNWANTED = ("fastapi", "openenv", "torch", "numpy", "gymnasium")  # `import companyos` must not bring these along
FRESH_SEEDS = count(10**9)  # far from those that are played, so that nothing is known of them beforehand


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
        if self.floor is None or self.goal is None:
            return ""
        reached = [self.value >= mark if self.more_is_better else self.value <= mark for mark in (self.floor, self.goal)]
        return "goal" if reached[1] else "ok" if reached[0] else "missed"


def main(rounds: int = 7, episodes: int = 60) -> None:
    """Measures everything; prints a table, and the same as one line of JSON."""
    found = measure(rounds, episodes)
    title = f"CompanyOS at chaos {CHAOS}, median of {rounds} rounds"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
    for heading in ("what", "median", "min–max", "unit", "floor", "goal", ""):
        table.add_column(heading, justify="left" if heading in ("what", "unit") else "right", no_wrap=True)
    for row in found:
        spread = f"{short(row.low)}–{short(row.high)}"
        table.add_row(row.what, short(row.value), spread, row.unit, short(row.floor), short(row.goal), row.verdict)
    Console().print(table)
    print(msgspec.json.encode({"rounds": rounds, "episodes": episodes, "rows": found}).decode())


def measure(rounds: int, episodes: int) -> list[Row]:
    """All rows of the table. Memory comes last, since counting it slows everything down."""
    if rounds < 1 or episodes < 1:
        raise ValueError(f"rounds and episodes are at least 1; got {rounds} and {episodes}")
    return [*_steps(rounds, episodes), *_starts(rounds, episodes), *_imports(rounds), *_memory(4 * episodes)]


# -- steps -------------------------------------------------------------------------------------------------------------


Script = tuple[int, list[Call]]  # a seed and the calls that were made: nothing but the environment is timed
Taxi = tuple[Any, Iterator[int]]  # the environment, and what to do in it


def _steps(rounds: int, episodes: int) -> list[Row]:
    taxi = _taxi()
    scripts = {agent: [record(agent, seed) for seed in range(episodes)] for agent in ("expert", "random")}
    both = [script for pair in zip(*scripts.values(), strict=True) for script in pair]
    # Each in rounds of its own: to forget the tasks, for instance, would make strangers of them for the others, too.
    kinds: dict[str, Callable[[], tuple[float, float, int]]] = {
        "step, both": lambda: _in_turns(both, taxi),
        "step, expert": lambda: _in_turns(scripts["expert"], taxi),
        "step, random": lambda: _in_turns(scripts["random"], taxi),
        "step, both, first play": lambda: _in_turns(both, taxi, anew=True),
        "step and its text, both": lambda: _in_turns(both, taxi, text=True),
    }
    ratios, speeds = [], []
    for what, play in kinds.items():
        gc.collect()
        _, *measured = [play() for _ in range(1 + rounds)]  # the first only to warm up
        marks = (0.7, 1.0) if what == "step, both" else ()
        ratios.append(_row(what, "× Taxi", [theirs / ours for ours, theirs, _ in measured], *marks, more_is_better=True))
        speeds.append(_row(what, "/s", [steps / ours for ours, _, steps in measured], more_is_better=True))
        if what == "step, both":
            speeds.insert(
                0, _row("step, Taxi", "/s", [steps / theirs for _, theirs, steps in measured], more_is_better=True)
            )
    return [*ratios, *speeds]


def _in_turns(scripts: list[Script], taxi: Taxi, text: bool = False, anew: bool = False) -> tuple[float, float, int]:
    """An episode of ours, then as many steps of Taxi, and so on: seconds of ours, seconds of Taxi's, steps of each.

    So what disturbs the one disturbs the other, and neither gets more time than the other to grow warm.
    """
    ours = theirs = 0.0
    for script in scripts:
        ours += _play_again(script, text, anew)
        theirs += _drive(*taxi, len(script[1]))
    return ours, theirs, sum(len(calls) for _, calls in scripts)


def record(agent: str, seed: int) -> Script:
    env = agents.play(episode(seed), agents.make(agent, seed))
    return seed, [turn.call for turn in env.turns]


def episode(seed: int) -> CompanyEnv:
    """A task of each family in turn."""
    turn, number = divmod(seed, len(SHORT_FAMILIES))
    return make(SHORT_FAMILIES[number], seed=turn, chaos=CHAOS, reward="dense")


def _play_again(script: Script, text: bool = False, anew: bool = False) -> float:
    """Plays one episode from its start, of a task that is known or as if it had never been; times its steps."""
    seed, calls = script
    if anew:
        setting.cache_clear()
    step = episode(seed).step
    began = perf_counter()
    if text:
        for call in calls:
            step(call).text  # noqa: B018 (the text is written when it is asked for)
    else:
        for call in calls:
            step(call)
    return perf_counter() - began


def _taxi() -> Taxi:
    """Taxi, just as `gymnasium.make` gives it, and valid actions drawn at random, without end."""
    try:
        import gymnasium
    except ImportError:
        raise ValueError('the benchmark compares with Gymnasium: pip install "companyos[bench]"') from None
    env = gymnasium.make(next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry))
    env.action_space.seed(0)
    env.reset(seed=0)
    return env, cycle([env.action_space.sample() for _ in range(1000)])


def _drive(env: Any, actions: Iterator[int], count: int) -> float:
    """Goes on driving for so many steps."""
    step, spent, began = env.step, 0.0, perf_counter()
    for action in islice(actions, count):
        _, _, terminated, truncated, _ = step(action)
        if terminated or truncated:  # started again off the clock
            spent += perf_counter() - began
            env.reset()
            began = perf_counter()
    return spent + perf_counter() - began


# -- resets and forks --------------------------------------------------------------------------------------------------


def _starts(rounds: int, episodes: int) -> list[Row]:
    """From nothing with a seed never seen; of a task that is known; and from the middle of an episode."""
    ended = cycle([_played(seed, 1.0) for seed in range(episodes)])
    middle = cycle([_played(seed, 0.5) for seed in range(episodes)])
    times: list[list[float]] = [[], [], []]
    for _ in range(1 + rounds):
        gc.collect()
        times[0].append(_per_call(lambda: episode(next(FRESH_SEEDS)), episodes) * 1e3)
        times[1].append(_per_call(lambda: next(ended).reset(), 10 * episodes) * 1e6)
        times[2].append(_per_call(lambda: next(middle).fork(), 50 * episodes) * 1e6)
    new, known, forks = (rest for _, *rest in times)  # the first round only warms up
    return [
        _row("reset, new seed", "ms", new, 2.0, 0.5),
        _row("reset, known task", "µs", known),
        _row("fork in mid-episode", "µs", forks, 10.0, 3.0),
    ]


def _played(seed: int, share: float) -> CompanyEnv:
    """An expert's episode, of which this share has been played."""
    _, calls = record("expert", seed)
    env = episode(seed)
    for call in calls[: round(share * len(calls))]:
        env.step(call)
    return env


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
    """In fresh processes: how long, without the start of Python itself; and whether anything large came along."""
    command = [sys.executable, "-c", _IMPORT]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(rounds)]
    seconds, unwanted = ([float(run[i]) for run in runs] for i in (0, 1))
    return [_row("import", "s", seconds, 0.3, 0.3), _row("large imports with it", "", unwanted, 0.0, 0.0)]


def _memory(live: int) -> list[Row]:
    """What a live episode takes, its own first morning included, and what a fork takes. It does not drift: one round."""
    of_episodes = growth(lived(next(FRESH_SEEDS)) for _ in range(live)) / live
    env = lived(0)
    of_forks = growth(env.fork() for _ in range(live)) / live
    return [
        _row("memory of an episode", "kB", [of_episodes / 1e3], 300.0, 100.0),
        _row("memory of a fork", "kB", [of_forks / 1e3], 300.0, 100.0),
    ]


def lived(seed: int) -> CompanyEnv:
    env, agent = episode(seed), agents.make("expert", seed)
    obs = env.reset()
    while not obs.done and obs.step < LIVE_STEPS:
        obs = env.step(agent.act(obs))
    return env


def growth(things: Iterable[object]) -> int:
    tracemalloc.start()
    kept = list(things)
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept.clear()
    return grown


def _row(what: str, unit: str, values: list[float], *marks: float, more_is_better: bool = False) -> Row:
    floor, goal = marks or (None, None)
    return Row(what, unit, median(values), min(values), max(values), floor, goal, more_is_better)


def short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
