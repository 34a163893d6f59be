"""Measures how the cost of a step, a search and a reset grows with the number of records of a company."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from statistics import median
from time import process_time

import msgspec

from companyos import agents
from companyos.core.calls import Call
from companyos.core.task import SIZES
from companyos.env import CompanyEnv, make
from companyos.families import SHORT_FAMILIES, setting
from companyos.families.kit import company
from companyos.families.kit.history import HISTORIES, History

# Histories between the sizes "small" and "large". The number of records follows from them.
_SCALES = (0.0, 0.05, 0.2, 0.5, 1.0)
FIRST_SEED = 64 * 3000
_SEARCHES = ("reference", "Notebook", "hotel may", "van", "nothing like it")


class Growth(msgspec.Struct, frozen=True):
    """The costs in a company with this many records, in microseconds."""

    records: int  # those that no actor can see are counted, too
    step: float
    search: float
    reset: float


def growth(rounds: int = 5) -> list[Growth]:
    """Return the costs for companies of different numbers of records. Rounds alternate between the companies."""
    histories = [HISTORIES["small"], *(_scaled(scale) for scale in _SCALES[1:]), HISTORIES["large"]]
    size, kept = SIZES[0], HISTORIES[SIZES[0]]
    results: list[list[tuple[float, float, float]]] = [[] for _ in histories]
    records = [0] * len(histories)
    try:
        for number in range(rounds):
            for index, history in enumerate(histories):
                HISTORIES[size] = history
                _forget_companies()
                records[index] = company.company_of("train", FIRST_SEED, size).record_count
                results[index].append(_costs(number))
    finally:
        HISTORIES[size] = kept
        _forget_companies()
    return [
        Growth(count, *(median(costs[kind] for costs in all_costs) for kind in range(3)))
        for count, all_costs in zip(records, results, strict=True)
    ]


def _scaled(scale: float) -> History:
    """Return the history of size "office" with fewer records."""
    office = HISTORIES["office"]
    return History(
        *(
            max(least, round(scale * count))
            for least, count in zip((24, 6, 0, 0), msgspec.structs.astuple(office), strict=True)
        )
    )


def _forget_companies() -> None:
    """Clear the caches that hold companies and tasks in them."""
    setting.cache_clear()
    company.forget_companies()


def _costs(number: int) -> tuple[float, float, float]:
    """Return the microseconds of a step, of a new search and of a reset of a new seed, as medians."""
    for family in SHORT_FAMILIES:  # the company is now furnished, and its indexes are built
        agents.play(make(family, seed=FIRST_SEED, chaos=0.5), agents.make("expert", 0))
    steps, resets = [], []
    first = FIRST_SEED + 1 + 6 * number
    for family in SHORT_FAMILIES:
        resets += [_time(partial(make, family, seed=seed, chaos=0.5)) for seed in range(first, first + 3)]
        calls = [turn.call for turn in agents.play(make(family, seed=first, chaos=0.5), agents.make("expert", 0)).turns]
        steps.append(_time(partial(_replay, make(family, seed=first, chaos=0.5), calls)) / len(calls))
    queries = cycle(_SEARCHES)
    env = make(SHORT_FAMILIES[0], seed=FIRST_SEED, chaos=0.5)
    searches = [
        _time(lambda: env.fork().step(Call("ticketdesk", "search_tickets", {"query": next(queries)}))) for _ in range(50)
    ]
    return median(steps), median(searches), median(resets)


def _replay(env: CompanyEnv, calls: list[Call]) -> None:
    for call in calls:
        env.step(call)


def _time(function: Callable[[], object]) -> float:
    """Return the microseconds of processor time of a call."""
    began = process_time()
    function()
    return 1e6 * (process_time() - began)
