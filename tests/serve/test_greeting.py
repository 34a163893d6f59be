"""`make run` as a person uses it: the greeting, its commands, and Ctrl-C."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from companyos.serve.ops.greeting import greeting
from companyos.serve.ops.settings import Settings
from tests.serve.servers import wait_for
from tests.shell import Terminal, run

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def made(target: str, **variables: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """`make TARGET` at a terminal. This environment stands for the one that make sets up."""
    far, near = pty.openpty()
    ready = f"{sys.prefix}/.ready"
    command = ["make", "-o", ready, f"SERVE={sys.prefix}", f"VENV={sys.prefix}", target]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | variables

    def own_terminal() -> None:
        os.setsid()
        os.close(os.open(os.ttyname(near), os.O_RDWR))  # whose Ctrl-C reaches make and all that it runs

    with subprocess.Popen(
        command, cwd=ROOT, stdin=near, stdout=near, stderr=near, env=surroundings, preexec_fn=own_terminal
    ) as process:
        os.close(near)
        try:
            yield Terminal(far), process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            os.close(far)


def test_make_run_says_where_it_is_and_five_lines_that_work_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(port=port)
    with made("run", PORT=str(port), COMPANYOS_LEDGER=str(tmp_path / "ledger")) as (terminal, process):
        terminal.expect(f"CompanyOS is running at http://127.0.0.1:{port}")
        terminal.expect("/render?session_id=$id")
        wait_for(lambda: httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200)
        lines = re.findall(r"^  (.*)$", greeting(settings), re.MULTILINE)
        assert len(lines) == 5
        shown = subprocess.run(["bash", "-ec", "\n".join(lines)], capture_output=True, text=True, check=True).stdout
        assert shown.count('"code":"ok"') == 2  # both steps
        assert "P-" in shown.splitlines()[-1]  # and what was found is what the agent sees
        terminal.type("\x03")
        terminal.expect("Finished server process")
        assert process.wait(20) in (0, -signal.SIGINT)
        assert "Traceback" not in terminal.rest()


def test_make_demo_is_the_show() -> None:
    with made("demo") as (terminal, process):
        terminal.expect("What to try next:", seconds=60)
        assert process.wait(20) == 0


def test_with_tokens_the_lines_send_one() -> None:
    lines = greeting(Settings(tokens=("secret",)))
    assert lines.count('-H "Authorization: Bearer $TOKEN"') == 4
    assert "secret" not in lines


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"), ("10.0.0.5", "http://10.0.0.5:8000")],
)
def test_the_url_is_one_to_connect_to(host: str, url: str) -> None:
    assert f"running at {url}:" in greeting(Settings(host=host))


def test_a_port_that_is_taken_is_one_line_and_no_greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": ""})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run("serve", "--port", port, "--ledger", tmp_path / "ledger")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in err
