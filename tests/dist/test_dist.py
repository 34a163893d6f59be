"""What is released, as whoever installs it finds it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FIVE_LINES = ROOT / "examples" / "five_lines.py"
OFFLINE = """
import runpy, sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise SystemExit(f"asks the network: {event}")

sys.addaudithook(refuse)
del sys.argv[0]
"""


BARE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COMPANYOS_"))}


class Place:
    """An environment of its own, with nothing in it but what is installed here."""

    def __init__(self, folder: Path, *wanted: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.bin, self._elsewhere = folder / "bin", folder
        # What is never loaded need not be compiled, which takes minutes.
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        subprocess.run([self.bin / "python", *pip, *wanted], check=True, cwd=folder, env=BARE)

    def run(self, program: str, *words: object) -> str:
        """What a program prints, begun where none of our sources lie."""
        command = [str(self.bin / program), *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=self._elsewhere, env=BARE).stdout

    def offline(self, how: str, *words: object) -> str:
        """The same in Python, which ends when it so much as makes a socket."""
        return self.run("python", "-c", f"{OFFLINE}{how}", *words)

    @property
    def packages(self) -> set[str]:
        listed = json.loads(self.run("python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
        return {package["name"] for package in listed} - {"pip", "setuptools"}  # which an empty one has


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    return built / f"companyos-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("plain"), str(wheel))


# -- the files ---------------------------------------------------------------------------------------------------------


def test_twine_has_nothing_to_say(built: Path) -> None:
    files = sorted(built.iterdir())
    assert [file.name for file in files] == [f"companyos-{VERSION}-py3-none-any.whl", f"companyos-{VERSION}.tar.gz"]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout


def test_the_wheel_is_all_of_the_sources_and_nothing_else_in_at_most_1100_kilobytes(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(f"companyos-{VERSION}.dist-info/")}
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert packed == {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {Path(name).suffix for name in packed} >= {".css", ".html", ".txt", ".yaml"}  # not Python alone
    assert wheel.stat().st_size <= 1_100_000


def test_the_sdist_is_as_small_and_has_no_runs_in_it(built: Path) -> None:
    assert (built / f"companyos-{VERSION}.tar.gz").stat().st_size < 3_000_000


# -- without extras ----------------------------------------------------------------------------------------------------


def test_the_wheel_brings_at_most_nine_packages(plain: Place) -> None:
    assert "companyos" in plain.packages
    assert len(plain.packages) <= 9, plain.packages


def test_the_command_and_the_module_are_the_same(plain: Place) -> None:
    assert plain.run("companyos", "--version") == plain.run("python", "-m", "companyos", "--version") == f"companyos {VERSION}\n"


def test_five_lines_play_offline(plain: Place) -> None:
    assert re.match(r"\[Thu .*, step 1 of 86\] ok\nT-9262; ", plain.offline("runpy.run_path(sys.argv[0])", FIVE_LINES))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        plain.offline("import socket; socket.create_connection(('127.0.0.1', 9))")
    assert "asks the network" in refused.value.stderr


@pytest.mark.parametrize(
    "command",
    [
        "watch vendor_onboarding --seed 8 --chaos 0.5",
        "prove --seeds 0:1 --chaos 0.5 --workers 1",
        "demos --n 1 --format chat",
        "suite core",
        "tools --json",
        "completion bash",
    ],
)
def test_what_needs_no_extra_works_offline(plain: Place, command: str) -> None:
    module = "runpy.run_module('companyos', run_name='__main__', alter_sys=True)"
    assert plain.offline(f"sys.argv.insert(0, 'companyos'); {module}", *command.split())


def test_what_needs_one_says_so_and_the_doctor_agrees(plain: Place) -> None:
    with pytest.raises(subprocess.CalledProcessError) as missing:
        plain.run("companyos", "serve")
    assert 'pip install ".[serve]" in a checkout' in missing.value.stderr
    found = json.loads(plain.run("companyos", "doctor", "--json"))
    assert found["version"] == VERSION
    assert all(package["fits"] for package in found["core"])
    assert not any(extra["complete"] for extra in found["extras"])


def test_the_sdist_installs_too(built: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", str(built / f"companyos-{VERSION}.tar.gz"))
    assert "T-9262; " in place.run("python", FIVE_LINES)


# -- with extras -------------------------------------------------------------------------------------------------------


def test_with_gymnasium_its_checker_passes(wheel: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", f"{wheel}[gymnasium]")
    check = "import gymnasium, companyos.integrations.gymnasium_env; from gymnasium.utils.env_checker import check_env"
    place.run("python", "-W", "error", "-c", f"{check}; check_env(gymnasium.make('CompanyOS-v0').unwrapped)")


def test_with_serve_a_server_answers_and_has_its_pages(wheel: Path, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", f"{wheel}[serve]")
    found = json.loads(place.run("companyos", "doctor", "--json"))
    assert "serve" in [extra["name"] for extra in found["extras"] if extra["complete"]]
    with serving(place) as url:
        assert json.loads(fetched(f"{url}/health"))["status"] == "healthy"
        front = fetched(f"{url}/")
        assert "<h1" in front
        for sheet in re.findall(r'<link[^>]* rel="stylesheet"[^>]* href="([^"]+)"|href="([^"]+\.css[^"]*)"', front):
            assert fetched(f"{url}{''.join(sheet)}")


@contextmanager
def serving(place: Place) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(place.bin / "companyos"), "serve", "--port", str(port), "--ledger", "none"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place.bin, env=BARE) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def fetched(url: str, patience: float = 60) -> str:
    """What is there, as soon as somebody listens."""
    deadline = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                return str(answer.read().decode())
        except URLError:
            assert time.monotonic() < deadline, f"nobody listens at {url}"
            time.sleep(0.2)
