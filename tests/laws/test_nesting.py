"""Law: doses nest, that is, a trouble that occurs at dose 0.3 also occurs at 0.6, in every family and on every dial."""

from collections import Counter
from typing import Any

from companyos.agents import play
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.chaos import DIALS, INJECTORS, Chaos, Injector
from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, run_expert, task_named
from companyos.families import family, setting
from companyos.families.kit.case import Trouble
from tests.helpers import strikes
from tests.laws import NAMES, size

LOW, HIGH = 0.3, 0.6
TASKS = range(size(200, 2000))
ALL_DIALS = "all"
INTERCEPTORS = [one for one in INJECTORS if type(one).intercept is not Injector.intercept]


def task_at(index: int, chaos: Chaos = 0.0) -> TaskId:
    """Return the id of a task; consecutive numbers go through the families."""
    turn, place = divmod(index, len(NAMES))
    return task_named(NAMES[place], turn, chaos)


def staged(index: int, chaos: Chaos) -> set[tuple[str, Any]]:
    """Return the troubles in the start state of a task, each with all levels up to its own, and the extra tools."""
    task = task_at(index, chaos)
    causes = setting(task).causes
    found: set[tuple[str, Any]] = {("tool", tool.name) for tool in setting(task).toolbox if tool not in set(TOOLBOX)}
    for cause in family(task.family).specs():
        if isinstance(cause.annotation, Trouble):
            levels = DIALS[cause.annotation.dial].levels
            found |= {(cause.name, level) for level in levels[1 : levels.index(getattr(causes, cause.name)) + 1]}
    return found


def test_the_troubles_staged_at_a_dose_are_among_those_at_a_higher_one() -> None:
    milder: Counter[str] = Counter()
    harder: Counter[str] = Counter()
    for index in TASKS:
        for dial in (*DIALS, ALL_DIALS):
            low, high = (staged(index, dose if dial == ALL_DIALS else {dial: dose}) for dose in (LOW, HIGH))
            assert low <= high, (str(task_at(index)), dial, low - high)
            milder[dial] += len(low)
            harder[dial] += len(high)
    strikes_calls = {injector.dial for injector in INTERCEPTORS}
    assert all(0 < milder[dial] < harder[dial] for dial in (*DIALS, ALL_DIALS) if dial not in strikes_calls)


def calls_made(index: int) -> list[Call]:
    """Return the calls of the expert, and of agents that each ignore one dial, in a task at the higher dose."""
    task = task_at(index, HIGH)
    careless = list(HABITS.values())[index % len(HABITS)]
    solved = CompanyEnv(task)
    run_expert(solved)
    return [turn.call for env in (solved, play(CompanyEnv(task), Careless(careless))) for turn in env.turns]


def test_every_injector_strikes_every_key_of_real_transcripts_that_it_struck_at_a_lower_dose() -> None:
    struck = dict.fromkeys(INTERCEPTORS, 0)
    for index in TASKS:
        world, calls = setting(task_at(index)).world, calls_made(index)
        for injector in INTERCEPTORS:
            low, high = (strikes(world.fork(), calls, dose, injector) for dose in (LOW, HIGH))
            assert low.items() <= high.items(), (str(task_at(index)), injector.dial, low.items() - high.items())
            struck[injector] += len(low)
    assert all(count > len(TASKS) for count in struck.values())
