"""A PostgreSQL server for tests that can be stopped, killed and started again."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal

import psycopg

from companyos.serve.ops.programs import postgresql

USER, PASSWORD = "companyos", "p@ss:w/rd"  # as awkward as people choose them
_WRITTEN = "p%40ss%3Aw%2Frd"
_NOBODY = 65534  # the server refuses to run as root


class Postgres:
    """A server of its own in a temporary folder, at a port that stays the same."""

    def __init__(self, fsync: bool = False) -> None:
        self._programs = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="companyos-postgres-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self._folder, _NOBODY, _NOBODY)
            self._as = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        # Whether a dead process or a dead machine is survived: only the latter needs the disk.
        self._settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": fsync}
        self._numbers = count(1)
        self._server: subprocess.Popen[bytes] | None = None
        (secret := self._folder / "password").write_text(PASSWORD)
        self._run(
            "initdb", "-D", self._data, "-U", USER, f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"
        )

    def url(self, database: str = "postgres", password: str = _WRITTEN) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")  # no name can be a parameter
        return self.url(name)

    def start(self) -> None:
        flags = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + 60
        while True:
            # After a kill, what is left of the last server may stand in the way of the next for a moment.
            with (self._folder / "log").open("ab") as log:
                command = [str(self._programs / "postgres"), "-D", self._data, *flags]
                server = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, **self._as)
            self._server = server
            while server.poll() is None:
                if self._answers():
                    return
                assert time.monotonic() < deadline, self._said()
                time.sleep(0.02)
            assert time.monotonic() < deadline, self._said()
            time.sleep(0.1)

    def stop(self, how: Literal["immediately", "kill -9"] = "immediately") -> None:
        """Without a word to anybody: as after a crash, or with the postmaster shot dead."""
        if self._server is not None:
            pid = self._server.pid
            orphans = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            self._server.send_signal(signal.SIGQUIT if how == "immediately" else signal.SIGKILL)
            self._server.wait()
            self._server = None
            while any(_lives(orphan) for orphan in orphans):  # they commit what they are at, then find themselves alone
                time.sleep(0.01)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All of its processes are there and do nothing, as on a machine whose disk hangs."""
        assert self._server is not None
        pid = self._server.pid
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        for one in pids:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in pids:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _said(self) -> str:
        return (self._folder / "log").read_text()[-2000:]

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), *words]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._as)
        assert done.returncode == 0, done.stderr


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def running(fsync: bool = False) -> Iterator[Postgres]:
    server = Postgres(fsync)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def programs() -> Path:
    found = postgresql()
    assert found, "these tests need PostgreSQL's server: .ci/packages installs it on Debian"
    return Path(found).parent
