"""Ledgers: where the durable record of sessions is kept. In memory, in a file, in PostgreSQL: one contract."""

from companyos.serve.ledger.ledger import (
    ATTEMPT,
    HANDLE,
    MOST_EXPIRED,
    NO_SESSIONS,
    Entry,
    Header,
    IdTaken,
    Ledger,
    NoLedger,
    Row,
    attempt,
    can_be_id,
    encode,
)
from companyos.serve.ledger.sqlite import SqliteLedger
from companyos.serve.ops.settings import NO_LEDGER, BadSetting

__all__ = [
    "ATTEMPT",
    "HANDLE",
    "MOST_EXPIRED",
    "NO_SESSIONS",
    "Entry",
    "Header",
    "IdTaken",
    "Ledger",
    "NoLedger",
    "Row",
    "SqliteLedger",
    "attempt",
    "can_be_id",
    "encode",
    "open_ledger",
]


def open_ledger(place: str, fsync: bool = False) -> Ledger:
    """The ledger at a place; `BadSetting` says why there can be none."""
    if place == NO_LEDGER:
        return NoLedger()
    scheme, colon, _ = place.partition(":")
    if colon and scheme in ("postgresql", "postgres"):
        # Here, since a server that keeps a file need not load a database's driver.
        from companyos.serve.ledger.postgres import PostgresLedger

        return PostgresLedger(place)  # whose commits are flushed to disk with or without `fsync`
    if "://" in place:
        raise BadSetting(f"no ledger is kept at {scheme}://; give a file, postgresql://..., or {NO_LEDGER}")
    return SqliteLedger(place, fsync)
