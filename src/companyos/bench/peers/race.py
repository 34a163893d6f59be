"""A comparison of speed and memory between CompanyOS and the installed peers, in one process.

In each round, all sides run in turn; every other round reverses the order, so that a machine that becomes faster or slower
favours no side. The result is the ratio within a round. CPU time is measured, not wall time, so other programs on the
machine matter less. Peers whose replies are text are compared with ours as text.
"""

import gc
import os
import platform
from collections.abc import Callable, Sequence
from itertools import count, cycle
from statistics import median
from time import perf_counter, process_time

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from companyos.bench import speed as bench
from companyos.bench.peers import KNOWN, Missing, Peer, load
from companyos.bench.peers.ours import Ours, OursWithText

LIVE = 5  # episodes of each side for the measurement of memory
NEW_SEEDS = count(10**6)  # tasks that were never played


class MedianRange(msgspec.Struct, frozen=True):
    """The median of the rounds, with minimum and maximum."""

    value: float
    low: float
    high: float


class RaceResult(msgspec.Struct, frozen=True):
    """One quantity of one side, and how many times as fast, or as small, ours is."""

    what: str
    side: str
    unit: str  # /s, s or kB
    value: MedianRange
    ours_is: MedianRange | None = None


def main(rounds: int = 7, seconds: float = 0.3, as_json: bool = False) -> None:
    """Compare all installed peers. Print a table, what a step includes, skipped peers, and all of it as a line of JSON.

    With `as_json`, print only that line.
    """
    peers, skipped = gather()
    sides = [Ours(), OursWithText(), *peers]
    results = race(sides, rounds, seconds)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    console = Console(quiet=as_json)
    console.print(_table(results, f"Processor time, median of {rounds} rounds (min–max); {machine}"))
    lines = [f"A step of {side.name} ({side.release}): {side.step_includes}." for side in sides]
    for line in (*lines, *skipped):
        console.print(line, highlight=False, markup=False)
    releases = sorted({side.release for side in sides})
    report = {"rounds": rounds, "machine": machine, "releases": releases, "skipped": skipped, "found": results}
    print(msgspec.json.encode(report).decode())


def gather() -> tuple[list[Peer], list[str]]:
    """Return the installed peers, and a line about each of the others."""
    peers, skipped = [], []
    for file in KNOWN:
        try:
            peers += load(file)
        except Missing as missing:
            skipped.append(f"Skipped {missing}")
    return peers, skipped


def race(sides: Sequence[Peer], rounds: int, seconds: float) -> list[RaceResult]:
    """Measure everything, `seconds` for each side and quantity in a round. Memory comes last: tracing it slows all down."""
    steps = _in_turns(sides, _steps, rounds, seconds)
    results = [
        RaceResult("step", side.name, "/s", _spread([1 / second for second in values]), _times_ours(side, values, steps))
        for side, values in steps.items()
    ]
    without_text = [side for side in sides if not isinstance(side, OursWithText)]  # text matters only for steps
    for what, prepare in STARTS.items():
        starts = _in_turns(without_text, prepare, rounds, seconds)
        results += [
            RaceResult(what, side.name, "s", _spread(values), _times_ours(side, values, starts))
            for side, values in starts.items()
        ]
    sizes = {side: [_memory(side)] for side in without_text}
    results += [
        RaceResult("memory, live episode", side.name, "kB", _spread(values), _times_ours(side, values, sizes))
        for side, values in sizes.items()
    ]
    return results


Timed = Callable[[float], float]  # repeats a task for some seconds, at least once, and returns the seconds of one
Rounds = dict[Peer, list[float]]  # by side, the value of each round


def _in_turns(sides: Sequence[Peer], prepare: Callable[[Peer], Timed | None], rounds: int, seconds: float) -> Rounds:
    """Return the seconds of each side in each round. Sides for which `prepare` returns None are left out."""
    racing = {side: timed for side in sides if (timed := prepare(side)) is not None}
    seconds_by_side: Rounds = {side: [] for side in racing}
    for number in range(1 + rounds):
        for side in list(racing)[:: 1 if number % 2 else -1]:
            gc.collect()
            seconds_by_side[side].append(racing[side](seconds))
    return {side: values for side, (_, *values) in seconds_by_side.items()}  # the first round only warms up


def _times_ours(side: Peer, values: list[float], rounds: Rounds) -> MedianRange | None:
    """Return how many times as large a side's values are as ours, round by round; None for our own sides."""
    if isinstance(side, Ours):
        return None
    # A peer whose replies are text is compared with our episodes as text, where those were measured.
    ours_by_text = {other.text: our_values for other, our_values in rounds.items() if isinstance(other, Ours)}
    ours = ours_by_text.get(side.text, ours_by_text[False])
    return _spread([value / our_value for value, our_value in zip(values, ours, strict=True)])


def _spread(values: list[float]) -> MedianRange:
    return MedianRange(median(values), min(values), max(values))


# -- quantities --------------------------------------------------------------------------------------------------------


def _steps(side: Peer) -> Timed:
    """Time the steps of all scripted episodes, without resets."""
    env = side.open()

    def timed(seconds: float) -> float:
        spent, steps, ends = 0.0, 0, perf_counter() + seconds
        while not steps or perf_counter() < ends:
            for number, script in enumerate(side.scripts):
                step = side.stepper(side.begin(env, number))
                began = _clock()
                for action in script:
                    step(action)
                spent += _clock() - began
                steps += len(script)
        return spent / steps

    return timed


def _known_task(side: Peer) -> Timed:
    """Time the start of an episode that was played before."""
    numbers, env = cycle(range(len(side.scripts))), side.open()
    return _repeat(lambda: side.begin(env, next(numbers)))


def _new_task(side: Peer) -> Timed | None:
    """Time the start of an episode with a new seed. None if the side has no seeds."""
    env = side.open()
    return _repeat(lambda: side.begin(env, next(NEW_SEEDS))) if side.seeded else None


def _fork(side: Peer) -> Timed:
    """Time the fork of an environment in the middle of an episode."""
    middle = side.half(0)
    return _repeat(lambda: side.fork(middle))


STARTS: dict[str, Callable[[Peer], Timed | None]] = {
    "reset, known task": _known_task,
    "reset, new seed": _new_task,
    "fork in mid-episode": _fork,
}


def _repeat(once: Callable[[], object]) -> Timed:
    """Return a function that repeats `once` for some seconds and returns the seconds of one repetition."""

    def timed(seconds: float) -> float:
        times, began, ends = 0, _clock(), perf_counter() + seconds
        while not times or perf_counter() < ends:
            once()
            times += 1
        return (_clock() - began) / times

    return timed


def _clock() -> float:
    """Return the CPU seconds of this process and its finished children."""
    times = os.times()
    return process_time() + times.children_user + times.children_system


def _memory(side: Peer) -> float:
    """Return the kB that Python allocates for an episode. Memory of native code is not counted."""
    side.live(0)  # fills the shared caches
    return bench.allocated_bytes(side.live(number % len(side.scripts)) for number in range(LIVE)) / LIVE / 1e3


# -- the table ---------------------------------------------------------------------------------------------------------


def _table(results: list[RaceResult], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("what, and whose", no_wrap=True)
    table.add_column("median (min–max)", justify="right", no_wrap=True)
    table.add_column("ours is × as fast", justify="right", overflow="fold")
    what = ""
    for result in results:
        if result.what != what:
            what = result.what
            table.add_row(what)
        ratio = "" if result.ours_is is None else shown(result.ours_is)
        table.add_row(f"  {result.side}", shown(result.value, result.unit), ratio)
    return table


def shown(spread: MedianRange, unit: str = "") -> str:
    """Return median and range in a readable unit."""
    choices = _UNITS.get(unit, ((0.0, 1.0, unit),))
    scale, unit = next((factor, name) for minimum, factor, name in choices if spread.value >= minimum)
    value, low, high = (bench.short(scale * number) for number in (spread.value, spread.low, spread.high))
    return " ".join(filter(None, (value, unit, "" if spread.low == spread.high else f"({low}–{high})")))


_UNITS = {
    "s": ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs")),
    "kB": ((1e3, 1e-3, "MB"), (0.0, 1.0, "kB")),
}  # smallest value, factor and name of each unit
