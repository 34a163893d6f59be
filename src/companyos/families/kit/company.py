"""Companies: the people, tickets, metrics, papers and register entries among which the tasks of a split take place.

A company is built once in a process, when a task first needs it. All worlds of its tasks share its records read-only and
keep what they write to themselves. So a task costs the same in a small company and in a large one.
"""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from weakref import WeakValueDictionary

from companyos.company import KINDS
from companyos.core.world import DAY, HOUR, Record, SharedTable, Streams, World
from companyos.families.kit.backdrop import Backdrop
from companyos.families.kit.history import HISTORIES, add_history
from companyos.families.kit.ids import COMPANY, record_ids
from companyos.families.kit.names import FIRM_NAMES, TRADES, pool
from companyos.families.kit.staff import add_staff
from companyos.families.kit.supply import Supply

SEEDS_PER_COMPANY = 64  # consecutive seeds share a company, so that a list of tasks needs few of them
COMPANIES = 4096  # how many companies a split has of each size
_MAX_RECORDS = 300_000  # how many records the companies may have together that are kept though no task uses them

Tables = Mapping[type[Record], SharedTable]


class SharedCompany:
    """A company before anybody works on a case in it. Nothing in it is ever written."""

    def __init__(
        self,
        split: str,
        tables: Tables,
        day: int,
        staff: Mapping[str, str],
        free_trades: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.split = split
        self.tables = tables
        self.day = day  # the day, as a number, on which all of its tasks begin
        self.staff = staff  # people's ids by job title; for a title that several people have, the first one's
        self.free_trades = free_trades  # by first word of a firm's name: the second words that no firm of the register has
        self.record_count = sum(len(table.rows) for table in tables.values())


_in_use: WeakValueDictionary[tuple[str, int, str], SharedCompany] = WeakValueDictionary()  # all companies that exist
# Those that are kept even if no task uses them, the least recently used first.
_recent: OrderedDict[tuple[str, int, str], SharedCompany] = OrderedDict()


_lock = Lock()  # threads of a server look companies up, too


def company_of(split: str, seed: int, size: str) -> SharedCompany:
    """Return the company in which the tasks of a seed take place. It takes milliseconds to build if it is not there yet."""
    return _company(split, _number(seed), size)


def is_built(split: str, seed: int, size: str) -> bool:
    """Return whether the company of a seed is there already."""
    return (split, _number(seed), size) in _in_use


def _number(seed: int) -> int:
    return seed // SEEDS_PER_COMPANY % COMPANIES


def _company(split: str, number: int, size: str) -> SharedCompany:
    """Return a company, built at the first call."""
    key = (split, number, size)
    company = _in_use.get(key) or _build(split, number, size)
    with _lock:
        company = _in_use.setdefault(key, company)  # another thread may have been faster
        _recent[key] = company
        _recent.move_to_end(key)
        while len(_recent) > 1 and sum(kept.record_count for kept in _recent.values()) > _MAX_RECORDS:
            _recent.popitem(last=False)
    return company


def forget_companies() -> None:
    """Forget all companies, so that they are built again. For measurements only."""
    _recent.clear()
    _in_use.clear()


def company_tables(split: str, number: int, size: str) -> Tables:
    """Return the tables of a company. Pickled worlds name this function instead of taking the tables along."""
    return _company(split, number, size).tables


def _build(split: str, number: int, size: str) -> SharedCompany:
    streams = Streams(f"company/{split}/{number}")
    day = streams.at("day").between(8, 300)
    day -= max(0, day % 7 - 3)  # Friday to Sunday become Thursday
    world = World(streams, day * DAY + 9 * HOUR, KINDS)
    staff = add_staff(world, split, HISTORIES[size].people)
    own_trades = {name: streams.at("trades", name).sample(TRADES, len(TRADES) // 2) for name in pool(FIRM_NAMES, split)}
    backdrop = Backdrop(
        world=world,
        draw=streams.at("company"),
        split=split,
        staff=staff,
        firms=Supply(),
        ticket_ids=Supply(record_ids("T", streams.at("tickets"), COMPANY)),
        entry_ids=Supply(record_ids("E", streams.at("entries"), COMPANY)),
        policy_ids=Supply(record_ids("P", streams.at("policies"), COMPANY)),
    )
    add_history(backdrop, HISTORIES[size], own_trades)
    tables: dict[type[Record], SharedTable] = {
        kind: SharedTable(world.all(kind), source=(company_tables, (split, number, size), kind))
        for kind in KINDS
        if world.count(kind)
    }
    free_trades = {name: tuple(trade for trade in TRADES if trade not in own) for name, own in own_trades.items()}
    return SharedCompany(split, MappingProxyType(tables), day, MappingProxyType(staff), free_trades)
