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


def main(rounds: int = 7, seconds: float = 0.3) -> None:
    """Compare all installed peers. Print a table, what a step includes, skipped peers, and all of it as a line of JSON."""
    peers, skipped = gather()
    sides = [Ours(), OursWithText(), *peers]
    found = race(sides, rounds, seconds)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    console = Console()
    console.print(_table(found, f"Processor time, median of {rounds} rounds (min–max); {machine}"))
    lines = [f"A step of {side.name} ({side.release}): {side.includes}." for side in sides]
    for line in (*lines, *skipped):
        console.print(line, highlight=False, markup=False)
    releases = sorted({side.release for side in sides})
    report = {"rounds": rounds, "machine": machine, "releases": releases, "skipped": skipped, "found": found}
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
    found = [
        RaceResult("step", side.name, "/s", _spread([1 / second for second in seen]), _times_ours(side, seen, steps))
        for side, seen in steps.items()
    ]
    others = [side for side in sides if not isinstance(side, OursWithText)]  # text matters only for steps
    for what, prepare in STARTS.items():
        starts = _in_turns(others, prepare, rounds, seconds)
        found += [
            RaceResult(what, side.name, "s", _spread(seen), _times_ours(side, seen, starts)) for side, seen in starts.items()
        ]
    sizes = {side: [_memory(side)] for side in others}
    found += [
        RaceResult("memory, live episode", side.name, "kB", _spread(seen), _times_ours(side, seen, sizes))
        for side, seen in sizes.items()
    ]
    return found


Timed = Callable[[float], float]  # repeats a task for some seconds, at least once, and returns the seconds of one
Rounds = dict[Peer, list[float]]


def _in_turns(sides: Sequence[Peer], prepare: Callable[[Peer], Timed | None], rounds: int, seconds: float) -> Rounds:
    """Return the seconds of each side in each round. Sides for which `prepare` returns None are left out."""
    racing = {side: timed for side in sides if (timed := prepare(side)) is not None}
    took: Rounds = {side: [] for side in racing}
    for number in range(1 + rounds):
        for side in list(racing)[:: 1 if number % 2 else -1]:
            gc.collect()
            took[side].append(racing[side](seconds))
    return {side: seen for side, (_, *seen) in took.items()}  # the first round only warms up


def _times_ours(side: Peer, seen: list[float], took: Rounds) -> MedianRange | None:
    """Return the ratio to our seconds, round by round."""
    if isinstance(side, Ours):
        return None
    own = {one.text: its for one, its in took.items() if isinstance(one, Ours)}
    return _spread([theirs / ours for theirs, ours in zip(seen, own.get(side.text, own[False]), strict=True)])


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
    return _again_and_again(lambda: side.begin(env, next(numbers)))


def _new_task(side: Peer) -> Timed | None:
    """Time the start of an episode with a new seed. None if the side has no seeds."""
    env = side.open()
    return _again_and_again(lambda: side.begin(env, next(NEW_SEEDS))) if side.seeded else None


def _fork(side: Peer) -> Timed:
    """Time the fork of an environment in the middle of an episode."""
    middle = side.half(0)
    return _again_and_again(lambda: side.fork(middle))


STARTS: dict[str, Callable[[Peer], Timed | None]] = {
    "reset, known task": _known_task,
    "reset, new seed": _new_task,
    "fork in mid-episode": _fork,
}


def _again_and_again(once: Callable[[], object]) -> Timed:
    def timed(seconds: float) -> float:
        times, began, ends = 0, _clock(), perf_counter() + seconds
        while not times or perf_counter() < ends:
            once()
            times += 1
        return (_clock() - began) / times

    return timed


def _clock() -> float:
    """Return the CPU seconds of this process and its finished children."""
    others = os.times()
    return process_time() + others.children_user + others.children_system


def _memory(side: Peer) -> float:
    """Return the kB that Python allocates for an episode. Memory of native code is not counted."""
    side.live(0)  # fills the shared caches
    return bench.growth(side.live(number % len(side.scripts)) for number in range(LIVE)) / LIVE / 1e3


# -- the table ---------------------------------------------------------------------------------------------------------


def _table(found: list[RaceResult], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("what, and whose", no_wrap=True)
    table.add_column("median (min–max)", justify="right", no_wrap=True)
    table.add_column("ours is × as fast", justify="right", overflow="fold")
    what = ""
    for result in found:
        if result.what != what:
            what = result.what
            table.add_row(what)
        ratio = "" if result.ours_is is None else shown(result.ours_is)
        table.add_row(f"  {result.side}", shown(result.value, result.unit), ratio)
    return table


def shown(spread: MedianRange, unit: str = "") -> str:
    """Return median and range in a readable unit."""
    _, scale, unit = next(fit for fit in _UNITS.get(unit, ((0.0, 1.0, unit),)) if spread.value >= fit[0])
    value, low, high = (bench.short(scale * number) for number in (spread.value, spread.low, spread.high))
    return " ".join(filter(None, (value, unit, "" if spread.low == spread.high else f"({low}–{high})")))


_UNITS = {
    "s": ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs")),
    "kB": ((1e3, 1e-3, "MB"), (0.0, 1.0, "kB")),
}  # smallest value, factor and name of each unit
