"""Shell: commands as a script gives them, and a terminal as a person sits at one."""

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unittest.mock import patch

from companyos.cli.main import main


def run(*argv: object, lines: Sequence[str] = ()) -> tuple[int, str, str]:
    """A command with these lines on its stdin: its exit code, what it printed, what it complained about."""
    out, err, stdin = io.StringIO(), io.StringIO(), io.StringIO("".join(f"{line}\n" for line in lines))
    surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # some test runners set it
    patched = patch.object(sys, "stdin", stdin), patch.dict(os.environ, surroundings, clear=True)
    with redirect_stdout(out), redirect_stderr(err), patched[0], patched[1]:
        code = main([str(word) for word in argv])
    return code, out.getvalue(), err.getvalue()


class Terminal:
    """The far end of a pseudo-terminal: types, and reads on until something stands there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = b""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def expect(self, text: str, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while text.encode() not in self._seen:
            assert select.select([self._descriptor], [], [], deadline - time.monotonic())[0], self._seen.decode()
            try:
                self._seen += os.read(self._descriptor, 65536)
            except OSError:  # how Linux says that nobody holds the near end any more
                raise AssertionError(f"ended without {text!r}: {self._seen.decode()}") from None
        self._seen = self._seen[self._seen.index(text.encode()) + len(text) :]

    def rest(self) -> str:
        """What else is written until nobody holds the near end any more."""
        while True:
            try:
                self._seen += os.read(self._descriptor, 65536)
            except OSError:
                return self._seen.decode()


READY = "\x1b[?2004h"  # prompt_toolkit asks for bracketed paste when it begins to read a line


@contextmanager
def playing(*argv: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """`companyos play` in a pseudo-terminal that answers no questions about itself."""
    far, near = pty.openpty()
    surroundings = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [sys.executable, "-m", "companyos", "play", *argv]
    with subprocess.Popen(
        command, stdin=near, stdout=near, stderr=near, env=surroundings, start_new_session=True
    ) as process:
        os.close(near)
        try:
            yield Terminal(far), process
        finally:
            process.kill()
            os.close(far)
