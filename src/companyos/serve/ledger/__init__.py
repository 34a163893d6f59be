"""Ledgers: in memory, in an SQLite file or in PostgreSQL, all with the same contract (`Ledger`)."""

from companyos.core.errors import install_hint
from companyos.serve.ledger.ledger import (
    MAX_EXPIRED,
    ExamAttempt,
    Handle,
    IdTaken,
    Ledger,
    SessionHeader,
    StoredSession,
    TurnRow,
    attempt_of,
    can_be_id,
    encode,
)
from companyos.serve.ledger.memory import MemoryLedger
from companyos.serve.ledger.sqlite import SqliteLedger
from companyos.serve.ops.settings import NO_LEDGER, BadSetting

__all__ = [
    "MAX_EXPIRED",
    "ExamAttempt",
    "Handle",
    "IdTaken",
    "Ledger",
    "MemoryLedger",
    "SessionHeader",
    "SqliteLedger",
    "StoredSession",
    "TurnRow",
    "attempt_of",
    "can_be_id",
    "encode",
    "open_ledger",
]


def open_ledger(address: str, fsync: bool = False) -> Ledger:
    """Open the ledger at a file path, a postgresql:// URL, or in memory (`none`). `BadSetting` says why it cannot."""
    if address == NO_LEDGER:
        return MemoryLedger()
    scheme, colon, _ = address.partition(":")
    if colon and scheme in ("postgresql", "postgres"):
        # Imported here, so that a server with another ledger does not need the database driver.
        try:
            from companyos.serve.ledger.postgres import PostgresLedger
        except ModuleNotFoundError as missing:
            raise BadSetting(f"a ledger in PostgreSQL needs {missing.name}: {install_hint('serve')}") from None

        return PostgresLedger(address)  # it flushes every commit to disk, with or without `fsync`
    if "://" in address:
        raise BadSetting(f"a ledger cannot be stored at {scheme}://; use a file, postgresql://..., or {NO_LEDGER}")
    return SqliteLedger(address, fsync)
