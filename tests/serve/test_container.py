"""The Dockerfile and its pinned versions. `make container-check` builds and runs the image."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from companyos.serve.ops.settings import Settings
from tests.helpers import STEADY
from tools import pins
from tools.dockerfile import Stage, held_back, ignore_patterns, stages

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PATTERNS = ignore_patterns((ROOT / ".dockerignore").read_text())


@pytest.fixture
def image() -> Stage:
    return stages(DOCKERFILE)[-1]


def test_hadolint_finds_nothing() -> None:
    command = [f"{sys.prefix}/bin/hadolint", "Dockerfile"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_runs_as_nobody_and_its_settings_fit_a_read_only_root(image: Stage) -> None:
    settings = Settings.read(image.environment)
    assert image.last("USER").text == "65532:65532"
    assert (settings.host, settings.port) == ("0.0.0.0", int(image.last("EXPOSE").text))
    assert settings.ledger.startswith("/tmp/")
    assert settings.log_format == "json"
    assert image.last("CMD").command == ["companyos", "serve"]  # itself, and no shell before it: signals reach it
    assert Settings.read({**image.environment, "PORT": "9000"}).port == 9000


def test_the_image_asks_after_its_health_without_curl(image: Stage) -> None:
    assert image.last("HEALTHCHECK").command[0] == "python"
    assert "curl" not in DOCKERFILE


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    copied = {
        word.removeprefix("./")
        for stage in stages(DOCKERFILE)
        for step in stage.steps
        if step.name == "COPY" and "from" not in step.options
        for word in step.words[:-1]
    }
    assert all((ROOT / name).exists() for name in copied)
    assert {name for name in copied if not held_back(PurePosixPath(name), PATTERNS)} == copied
    sent = {path.name for path in ROOT.iterdir() if not held_back(PurePosixPath(path.name), PATTERNS)}
    assert sent == copied
    assert held_back(PurePosixPath("src/companyos/__pycache__/env.pyc"), PATTERNS)
    assert not held_back(PurePosixPath("src/companyos/env/env.py"), PATTERNS)


def test_a_step_that_is_not_known_is_refused_and_not_overlooked() -> None:
    with pytest.raises(ValueError, match="ADD"):
        stages("FROM x\nADD secret /secret\n")


@STEADY
@given(st.lists(st.sampled_from(["RUN a && b", "ENV A=1 B=2", "WORKDIR /x", "USER 1:1"]), max_size=6), st.integers(1, 3))
def test_steps_are_found_however_they_are_broken_into_lines(steps: list[str], breaks: int) -> None:
    broken = [step.replace(" ", " \\\n" * breaks + "  ", 1) for step in steps]
    text = "# why\nFROM base AS one\n" + "\n# why not\n\n".join(broken)
    [stage] = stages(text)
    assert [f"{step.name} {' '.join(step.text.split())}" for step in stage.steps] == steps


# -- pins --------------------------------------------------------------------------------------------------------------


def test_the_image_installs_all_that_the_server_needs_and_no_more() -> None:
    assert set(pins.pinned()) == set(pins.needed())


def test_every_pin_is_within_what_is_asked_of_it() -> None:
    pinned = pins.pinned()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ours = [Requirement(line) for line in (*project["dependencies"], *extras["serve"], *extras["web"])]
    # A newer release than the pinned one may be installed. What it requires says nothing about the pinned release.
    needs = [
        need for needs in pins.needed().values() for need in needs if metadata.version(need.asker) == pinned.get(need.asker)
    ]
    asked = [*ours, *(need.requirement for need in needs)]
    outside = [
        f"{requirement} is not met by {version}"
        for requirement in asked
        if (version := pinned.get(canonicalize_name(requirement.name))) and not requirement.specifier.contains(version, True)
    ]
    assert not outside


def test_pins_name_no_place_to_download_from() -> None:
    assert "://" not in pins.FILE.read_text()


@pytest.mark.parametrize("app", ["companyos.serve.app", "companyos.web.app"])
def test_the_server_starts_without_packages_that_the_extra_web_does_not_have(app: str) -> None:
    missing = ("fastmcp", "gymnasium", "httpx", "matplotlib", "mcp", "numpy", "openenv", "playwright", "psycopg", "ray")
    script = f"import sys; sys.modules |= dict.fromkeys({missing}); from {app} import create; create()"
    surroundings = {"COMPANYOS_LEDGER": "none", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=surroundings, check=True)


def test_the_tool_that_builds_the_wheel_is_pinned_within_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [build] = [Requirement(line) for line in project["build-system"]["requires"]]
    [version] = [word.split("==")[1] for word in DOCKERFILE.split() if word.startswith(f"{build.name}==")]
    assert build.specifier.contains(version)
