"""Doctor: what it finds here is what is here."""

import ctypes
import socket
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest

import companyos
from companyos.cli import doctor
from companyos.cli.doctor import ENABLES, Findings
from companyos.serve.ops.settings import Settings
from tests.shell import run

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def examined() -> Findings:
    code, out, err = run("doctor", "--json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out, type=Findings)


def test_every_extra_says_what_it_enables_and_nothing_else_does() -> None:
    named = {name.replace("_", "-") for name in PROJECT["optional-dependencies"]}
    assert set(ENABLES) == {name for name in named if name != "dev" and not name.endswith("-dev")}


def test_what_is_installed_has_its_version_and_what_is_missing_the_line_that_brings_it() -> None:
    found = examined()
    assert found.version == companyos.__version__
    assert {package.name: package.version for package in found.core}["msgspec"] == metadata.version("msgspec")
    extras = {extra.name: extra for extra in found.extras}
    assert extras.keys() == ENABLES.keys()
    assert extras["tiny"].complete
    assert [package.name for package in extras["tiny"].packages] == ["numpy"]
    for extra in found.extras:
        assert extra.install == f'pip install ".[{extra.name}]"'
        assert extra.complete == (bool(extra.packages) and all(package.fits for package in extra.packages))


def test_a_person_reads_of_every_extra_and_how_to_have_those_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, old = "numpy", {"gymnasium": "0.9"}
    version = metadata.version

    def some_are_missing(name: str) -> str:
        if name == gone:
            raise metadata.PackageNotFoundError(name)
        return old.get(name) or version(name)

    monkeypatch.setattr(metadata, "version", some_are_missing)
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    for name, enabled in ENABLES.items():
        assert f" {name} " in out
        assert enabled in out
    assert "missing: numpy" in out
    assert 'pip install ".[tiny]"' in out
    assert "gymnasium 0.9 (wants >=1.0)" in out
    assert 'pip install ".[gymnasium]"' in out
    assert 'pip install ".[llm]"' not in out
    assert f'pip install "companyos-{companyos.__version__}-py3-none-any.whl[serve]"' in out


def test_a_port_that_somebody_listens_on_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setenv("COMPANYOS_PORT", str(port))
        assert (examined().port, examined().port_free) == (port, False)
        assert f"port {port}" in run("doctor")[1]
    assert examined().port_free


def test_a_setting_that_is_wrong_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANYOS_PORT", "many")
    code, out, err = run("doctor")
    assert (code, out) == (2, "")
    assert err.startswith("companyos: COMPANYOS_PORT: ")


def test_source_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", nowhere)
    code, out, err = run("doctor")
    assert (code, out) == (2, "")
    assert err.startswith("companyos: companyos is on the path, but not installed")


class Driver:
    """Two GPUs, as their driver tells of them."""

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDeviceGetName(self, name: Any, size: int, number: int) -> int:  # noqa: N802
        name.value = f"Abacus {number}".encode()
        return 0


def test_gpus_are_those_that_the_driver_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    assert doctor.examine(Settings()).gpus == ["Abacus 0", "Abacus 1"]
    assert "Abacus 0, Abacus 1" in run("doctor")[1]
    monkeypatch.setattr(Driver, "cuInit", lambda driver, flags: 100)
    assert doctor.gpus() == []


def test_nothing_is_loaded_that_is_looked_for() -> None:
    heavy = {"torch", "numpy", "gymnasium", "fastapi", "httpx", "matplotlib"}
    check = f"import sys; from companyos.cli.main import main; main(['doctor']); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)
