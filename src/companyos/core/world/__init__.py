"""The simulated world: frozen records, a journal of all writes, scheduled events and keyed random draws."""

from companyos.core.world.clock import DAY, HOUR, Minute, clock_text, stamp
from companyos.core.world.journal import Change
from companyos.core.world.listing import Listing, Order
from companyos.core.world.record import Record, row, rows, shown_fields, shown_value, view
from companyos.core.world.shared import SharedTable
from companyos.core.world.streams import Draw, Streams
from companyos.core.world.world import World, on

__all__ = [
    "DAY",
    "HOUR",
    "Change",
    "Draw",
    "Listing",
    "Minute",
    "Order",
    "Record",
    "SharedTable",
    "Streams",
    "World",
    "clock_text",
    "on",
    "row",
    "rows",
    "shown_fields",
    "shown_value",
    "stamp",
    "view",
]
