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
from html import unescape
from pathlib import Path

import httpx
import pytest

from companyos.serve.ops.greeting import example_lines, greeting
from companyos.serve.ops.settings import Settings
from companyos.web import app as web_app
from tests.serve.servers import AppClient, serving, wait_for
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
    command = ["make", "-o", ready, f"RUN={sys.prefix}", target]
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


SHELLS = {"bash": ("bash", "-ec"), "zsh": ("zsh", "-fec"), "fish": ("fish", "--no-config", "-c")}


def check_lines(shell: str, lines: list[str]) -> None:
    """Run the example lines in a shell. Both steps must succeed, and the view must show what the last one found."""
    ran = subprocess.run([*SHELLS[shell], "\n".join(lines)], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, ""), shell
    assert ran.stdout.count('"code":"ok"') == 2
    assert "P-" in ran.stdout.splitlines()[-1]


def test_make_run_prints_five_lines_that_work_in_every_shell_and_docs_shows_them_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with made("run", PORT=str(port), COMPANYOS_LEDGER=str(tmp_path / "ledger")) as (terminal, process):
        terminal.expect("Starting the server ...")
        terminal.expect(f"CompanyOS is running at {url}")
        terminal.expect('/render?session_id=$id"')
        wait_for(lambda: httpx.get(f"{url}/health").status_code == 200)
        lines = re.findall(r"^  (.*)$", greeting(Settings(port=port)), re.MULTILINE)
        assert len(lines) == 5
        for shell in SHELLS:
            check_lines(shell, lines)
        [shown] = re.findall(r"<pre[^>]*>(.*?)</pre>", httpx.get(f"{url}/docs").text, re.DOTALL)
        assert unescape(shown).splitlines() == lines
        terminal.type("\x03")
        terminal.expect("Finished server process")
        assert process.wait(20) in (0, -signal.SIGINT)
        assert "Traceback" not in terminal.rest()


def test_make_demo_is_the_show() -> None:
    with made("demo") as (terminal, process):
        terminal.expect("What to try next:", seconds=60)
        assert process.wait(20) == 0


def test_with_tokens_the_lines_send_one() -> None:
    for settings in (Settings(tokens=("secret",)), Settings(agent_tokens=("secret",), exam=True)):
        text = greeting(settings)
        assert text.count('-H "Authorization: Bearer $TOKEN"') == 4
        assert "export TOKEN=" in text
        assert "secret" not in text


@pytest.mark.parametrize("shell", SHELLS)
def test_with_tokens_the_lines_work_in_every_shell(shell: str, tmp_path: Path) -> None:
    settings = Settings(tokens=("a b$c",))
    with serving(tmp_path / "ledger", TOKENS=settings.tokens[0]) as server:
        check_lines(shell, [f"export TOKEN='{settings.tokens[0]}'", *example_lines(server.url, settings)])


class PagesClient(AppClient):
    """A client of the app with its pages."""

    create = staticmethod(web_app.create)


def test_docs_shows_the_address_of_the_server_but_no_host_that_a_shell_would_run() -> None:
    with PagesClient(allowed_hosts=("*",)) as api:
        assert (
            unescape(api.get("/docs", headers={"host": "company.example:81"}).text).count("http://company.example:81") == 1
        )
        assert "touch" not in api.get("/docs", headers={"host": "$(touch x)"}).text


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
    suggested = err.partition(" is free: companyos serve --port ")[2].strip()
    socket.create_server(("127.0.0.1", int(suggested))).close()  # raises if it is not free
