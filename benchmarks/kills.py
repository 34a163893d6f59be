"""Benchmark of durability: a server is killed again and again while clients work. It may not lose or double a step.

`python -m benchmarks.kills [sqlite|postgres] [KILLS] [CLIENTS]` needs the extra `serve` and PostgreSQL's server. The default
is 100 kills at 32 clients on each ledger. With PostgreSQL, every other kill hits the database. Clients send every call with
its turn number until it is acknowledged. At the end, the ledger is compared with the calls that the expert makes in process.
The exit code is 1 if a step was lost or doubled.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.serve.ledger import open_ledger
from tests.serve.postgres import Postgres, running
from tests.serve.servers import Server
from tests.serve.test_faults import Crew

LEDGERS = ("sqlite", "postgres")
LONGEST = 0.6  # largest number of seconds between a start and the next kill


def main(ledgers: tuple[str, ...], kills: int, clients: int) -> int:
    wrong = 0
    for ledger in ledgers:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            database = stack.enter_context(running()) if ledger == "postgres" else None
            place = database.new_database() if database is not None else str(folder / "ledger")
            server = Server(folder / "ledger", LEDGER=place, LOG_FORMAT="json")
            server.start()
            stack.callback(server.kill)
            wrong += report(ledger, place, run_with_kills(server, database, kills, clients), kills, clients)
    return 1 if wrong else 0


def run_with_kills(server: Server, database: Postgres | None, kills: int, clients: int) -> Crew:
    """Kill and restart the server and the database while clients work, then let the clients finish their episodes."""

    def kill_server() -> None:
        server.kill()
        server.start()

    def kill_database() -> None:
        assert database is not None
        database.stop("kill -9")
        database.start()

    restarts: list[Callable[[], None]] = [kill_server, kill_database if database is not None else kill_server]
    seed = time.time_ns()
    print("seed", seed, flush=True)
    draw, crew = random.Random(seed), Crew(server.url, clients)
    crew.start()
    for number in range(kills):
        time.sleep(draw.uniform(0.02, LONGEST))
        restarts[number % 2]()
    crew.finish()
    crew.close()
    return crew


def report(ledger: str, place: str, crew: Crew, kills: int, clients: int) -> int:
    """Print how many steps were lost and doubled, and return the sum."""
    kept = open_ledger(place)
    acknowledged = lost = doubled = 0
    for expert in crew.done:
        env = make(expert.task_id)
        run_expert(env)
        acknowledged += len(expert.rewards)
        missing, more = compared([turn.call for turn in env.turns], kept.calls(expert.session_id, 0) or ())
        lost, doubled = lost + missing, doubled + more
    kept.close()
    print(f"{ledger}: {kills} kills, {clients} clients, {len(crew.done):,} episodes, {acknowledged:,} acknowledged steps")
    print(f"  {lost} lost, {doubled} doubled; sent again because of {dict(crew.seen)}", flush=True)
    return lost + doubled


def compared(acknowledged: list[Call], stored: tuple[Call, ...]) -> tuple[int, int]:
    """Return the number of turns that differ from the acknowledged calls, and the number of extra turns."""
    missing = sum(one != other for one, other in zip_longest(acknowledged, stored[: len(acknowledged)]))
    return missing, max(0, len(stored) - len(acknowledged))


if __name__ == "__main__":
    chosen = tuple(word for word in sys.argv[1:] if word in LEDGERS) or LEDGERS
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    sys.exit(main(chosen, *(numbers + [100, 32][len(numbers) :])))
