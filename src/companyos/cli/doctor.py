"""Doctor: what is installed here, what is missing, and what that would enable.

It loads none of the packages that it looks for: versions come from the metadata of what is installed, GPUs from the driver.
"""

import ctypes
import os
import platform
import socket
import sys
from collections.abc import Iterator
from importlib import metadata

import msgspec
from packaging.markers import default_environment
from packaging.requirements import Requirement
from rich.console import Console
from rich.text import Text

from companyos import __version__
from companyos.cli.terminal import grid
from companyos.core.errors import install_command
from companyos.serve.ops import programs
from companyos.serve.ops.settings import Settings

ENABLES = {
    "bench": "the speed compared with Gymnasium's Taxi, in `companyos bench`",
    "browser": "observations as pictures, clicks as calls: `companyos serve`, with a Chromium",
    "browsergym": "tasks `browsergym/companyos.<family>`; needs a virtual environment of its own",
    "docs": "the documentation site: `make docs`",
    "gymnasium": '`gymnasium.make("CompanyOS-v0")`, with texts or numbers as actions',
    "inspect": "`inspect eval companyos/core`",
    "llm": "language models behind an endpoint: `companyos eval --agent openai:MODEL`",
    "nemo-gym": "a resources server for NeMo Gym",
    "openenv": "an OpenEnv client and environment: `companyos.integrations.openenv`",
    "peers": "a race with other environments: `companyos bench --peers`",
    "pettingzoo": "departments as agents of PettingZoo's parallel API",
    "ray": "evaluation on a cluster: `companyos eval --ray ADDRESS`",
    "report": "pages and plots: `companyos report`, `companyos train plot`",
    "serve": "episodes over HTTP, in a browser, for OpenEnv and MCP hosts: `companyos serve`, `companyos mcp`",
    "skyrl": '`skyrl_gym.make("companyos")`',
    "tiny": "a learner for two cores: `companyos train tiny`",
    "train": "language models that learn here: `companyos train sft`, `companyos train grpo`",
    "verifiers": "`vf-eval companyos-verifiers`",
    "web": "episodes over HTTP and in a browser: `companyos serve`, without MCP and without PostgreSQL",
    "yaml": "rulebooks as YAML: `companyos.rules.from_yaml`",
}


class Package(msgspec.Struct, frozen=True):
    """A distribution that CompanyOS requires, and the version of it that is installed."""

    name: str
    wanted: str  # such as >=0.115
    version: str | None  # None: not installed
    fits: bool  # the version is one of those wanted


class Extra(msgspec.Struct, frozen=True):
    """The extra `companyos[name]`: what it enables, and whether all its packages are installed."""

    name: str
    enables: str
    complete: bool
    install: str
    packages: list[Package]


class Findings(msgspec.Struct, frozen=True):
    """Everything that `companyos doctor` reports."""

    version: str
    python: str
    system: str
    processors: int
    gpus: list[str]
    chromium: str | None
    postgresql: str | None
    port: int
    port_free: bool
    core: list[Package]
    extras: list[Extra]


def examine(settings: Settings) -> Findings:
    """Examine this machine. Port and browser are those that a server with these settings would use."""
    requirements = [Requirement(line) for line in metadata.requires("companyos") or []]
    return Findings(
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        processors=os.cpu_count() or 1,
        gpus=gpus(),
        chromium=settings.chromium or programs.chromium(),
        postgresql=programs.postgresql(),
        port=settings.port,
        port_free=is_free(settings.host, settings.port),
        core=_packages(requirements, ""),
        extras=[_extra(name, _packages(requirements, name)) for name in extras()],
    )


def extras() -> list[str]:
    """The names of the extras that are for users, from the metadata of the distribution."""
    named = metadata.metadata("companyos").get_all("Provides-Extra") or []
    return sorted(name for name in named if name != "dev" and not name.endswith("-dev"))


def _extra(name: str, packages: list[Package]) -> Extra:
    complete = bool(packages) and all(package.fits for package in packages)
    return Extra(name, ENABLES[name], complete, install_command(name), packages)


def _packages(requirements: list[Requirement], extra: str) -> list[Package]:
    """The packages that an extra requires on this machine; with an empty name, those that the core requires."""
    return [_package(requirement) for requirement in requirements if _applies(requirement, extra)]


def _applies(requirement: Requirement, extra: str) -> bool:
    """Return whether a requirement belongs to an extra and applies to this machine; with an empty name, to the core."""
    # A marker is, for example, `extra == "serve" and python_version < "3.14"`. Requirements of the core may have none.
    if requirement.marker is None:
        return not extra
    here = {name: str(value) for name, value in default_environment().items()}
    return requirement.marker.evaluate(here | {"extra": extra})


def _package(requirement: Requirement) -> Package:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Package(requirement.name, str(requirement.specifier), None, fits=False)
    fits = requirement.specifier.contains(version, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), version, fits)


def gpus() -> list[str]:
    """The names of the GPUs that torch would find. This asks the same driver, because torch takes seconds to load."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    names = [ctypes.create_string_buffer(256) for _ in range(count.value)]
    for number, name in enumerate(names):
        cuda.cuDeviceGetName(name, len(name), number)
    return [name.value.decode() for name in names]


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


# -- the report in the terminal ----------------------------------------------------------------------------------------


def show(findings: Findings, console: Console) -> None:
    """Print the machine, then every extra: its versions if it is installed, otherwise the command that installs it."""
    processors = f"{findings.processors} processor{'s' * (findings.processors > 1)}"
    gpus = ", ".join(findings.gpus) or "no GPU"
    console.print(
        f"companyos {findings.version}, Python {findings.python}, {findings.system}, {processors}, {gpus}", markup=False
    )
    console.print()
    console.print(grid(_machine(findings)))
    console.print()
    console.print(grid(row for extra in findings.extras for row in _rows(extra)))
    if not all(extra.complete for extra in findings.extras):
        console.print()
        wheel = f"companyos-{findings.version}-py3-none-any.whl"
        console.print(
            f'The commands are for a checkout. With a wheel, name its file: pip install "{wheel}[serve]"',
            markup=False,
            soft_wrap=True,
        )


def _machine(findings: Findings) -> Iterator[tuple[str | Text, ...]]:
    yield _mark(all(package.fits for package in findings.core)), "core", _versions(findings.core)
    yield (
        _mark(findings.port_free),
        f"port {findings.port}",
        "free" if findings.port_free else "taken: `companyos serve --port N`",
    )
    yield (
        _mark(bool(findings.chromium)),
        "Chromium",
        findings.chromium or "not on this system; pictures need it, or the Chromium that Playwright installs",
    )
    yield (
        _mark(bool(findings.postgresql)),
        "PostgreSQL",
        findings.postgresql or "not on this machine; needed only for a ledger that several machines share",
    )


def _rows(extra: Extra) -> Iterator[tuple[str | Text, ...]]:
    yield _mark(extra.complete), extra.name, extra.enables
    if not extra.packages:
        yield "", "", Text("not available: its packages do not support this Python", "dim")
        return
    yield "", "", Text(_versions(extra.packages), "dim")
    if not extra.complete:
        yield "", "", Text(extra.install, "cyan")


def _mark(present: bool) -> Text:
    return Text("yes", "green") if present else Text("no", "yellow")


def _versions(packages: list[Package]) -> str:
    """List the versions of the installed packages, then the missing packages."""
    installed = [
        f"{package.name} {package.version}" + ("" if package.fits else f" (wants {package.wanted})")
        for package in packages
        if package.version
    ]
    missing = [package.name for package in packages if not package.version]
    return "; ".join([", ".join(installed)] * bool(installed) + [f"missing: {', '.join(missing)}"] * bool(missing))
