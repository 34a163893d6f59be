"""Doctor: what is installed here, what is missing, and what that would enable.

Nothing that is looked for is loaded: versions stand in the metadata of what is installed, and of GPUs the driver knows.
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
from companyos.serve.ops import programs
from companyos.serve.ops.settings import Settings

ENABLES = {
    "bench": "a ratio to Gymnasium's Taxi in `companyos bench`",
    "browser": "observations as pictures, clicks as calls: `companyos serve`, with a Chromium",
    "browsergym": "tasks `browsergym/companyos.<family>`, in an environment of its own",
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
}


class Package(msgspec.Struct, frozen=True):
    """A distribution that is asked for."""

    name: str
    wanted: str  # such as >=0.115
    version: str | None  # that is installed
    fits: bool


class Extra(msgspec.Struct, frozen=True):
    """What `companyos[name]` brings."""

    name: str
    enables: str
    complete: bool
    install: str
    packages: list[Package]


class Findings(msgspec.Struct, frozen=True):
    """All that was looked at."""

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
    """Looks around. What a server would be told here counts: its address, its browser."""
    asked = [Requirement(line) for line in metadata.requires("companyos") or []]
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
        core=_packages(asked, ""),
        extras=[_extra(name, _packages(asked, name)) for name in extras()],
    )


def extras() -> list[str]:
    """Those that are for users, as the distribution itself names them."""
    named = metadata.metadata("companyos").get_all("Provides-Extra") or []
    return sorted(name for name in named if name != "dev" and not name.endswith("-dev"))


def _extra(name: str, packages: list[Package]) -> Extra:
    complete = bool(packages) and all(package.fits for package in packages)
    return Extra(name, ENABLES[name], complete, f'pip install "companyos[{name}]"', packages)


def _packages(asked: list[Requirement], extra: str) -> list[Package]:
    """What an extra asks for on this machine; with no extra, what the core does."""
    here = {name: str(value) for name, value in default_environment().items()} | {"extra": extra}
    markers = ((requirement, requirement.marker) for requirement in asked)
    return [_package(one) for one, marker in markers if (marker.evaluate(here) if marker else not extra)]


def _package(requirement: Requirement) -> Package:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Package(requirement.name, str(requirement.specifier), None, fits=False)
    fits = requirement.specifier.contains(version, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), version, fits)


def gpus() -> list[str]:
    """The GPUs that torch would find, by name: it asks the same driver, but takes seconds to load."""
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
    """Whether a server could listen there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            one.bind((host, port))
        except OSError:
            return False
    return True


# -- as a person reads it ----------------------------------------------------------------------------------------------


def show(found: Findings, console: Console) -> None:
    """The machine, then every extra: those that are there with their versions, the others with what brings them."""
    processors = f"{found.processors} processor{'s' * (found.processors > 1)}"
    gpus = ", ".join(found.gpus) or "no GPU"
    console.print(f"companyos {found.version}, Python {found.python}, {found.system}, {processors}, {gpus}", markup=False)
    console.print()
    console.print(grid(_machine(found)))
    console.print()
    console.print(grid(row for extra in found.extras for row in _rows(extra)))


def _machine(found: Findings) -> Iterator[tuple[str | Text, ...]]:
    yield _mark(all(package.fits for package in found.core)), "core", _versions(found.core)
    yield _mark(found.port_free), f"port {found.port}", "free" if found.port_free else "taken: `companyos serve --port N`"
    yield (
        _mark(bool(found.chromium)),
        "Chromium",
        found.chromium or "none of the system's: pictures need one, or Playwright's own",
    )
    yield (
        _mark(bool(found.postgresql)),
        "PostgreSQL",
        found.postgresql or "none here: only a ledger that many machines share needs one, on any of them",
    )


def _rows(extra: Extra) -> Iterator[tuple[str | Text, ...]]:
    yield _mark(extra.complete), extra.name, extra.enables
    if not extra.packages:
        yield "", "", Text("nothing: what it needs is not for this Python", "dim")
        return
    yield "", "", Text(_versions(extra.packages), "dim")
    if not extra.complete:
        yield "", "", Text(extra.install, "cyan")


def _mark(there: bool) -> Text:
    return Text("yes", "green") if there else Text("no", "yellow")


def _versions(packages: list[Package]) -> str:
    there = [f"{one.name} {one.version}" + ("" if one.fits else f" (wants {one.wanted})") for one in packages if one.version]
    missing = [one.name for one in packages if not one.version]
    return "; ".join([", ".join(there)] * bool(there) + [f"missing: {', '.join(missing)}"] * bool(missing))
