"""Manifests: OpenEnv's validation of this package and of a running server; the declarations are true."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openenv.cli._cli_utils import validate_env_structure
from openenv.cli._validation import validate_multi_mode_deployment, validate_running_environment
from openenv.cli.commands.push import _prepare_staging_directory
from openenv.discovery import build_catalog
from openenv.validation import Level, load_policy
from openenv.validation.graders import Subject
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.report import CheckResult
from openenv.validation.runner import default_grader_registry
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import NetworkEvidence, load_runtime_plan
from openenv.validation.runtime.scheduler import execute_graders
from openenv.validation.types import CheckStatus, ProviderCapability

from companyos import __version__
from companyos.core.task import BENCHMARK_VERSION
from tests.serve.network import measured
from tests.serve.servers import Server, serving, wait_for
from tools import plans
from tools.space import lay_out

ROOT = Path(__file__).parents[2]
MANIFEST = OpenEnvYamlParser().parse(ROOT)
RAW: dict[str, Any] = yaml.safe_load((ROOT / "openenv.yaml").read_text())
# Its collector calls what websockets has deprecated.
OPENENVS_OWN = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make space` lays out."""
    folder = tmp_path_factory.mktemp("package") / "companyos"
    lay_out(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server") / "ledger") as running:
        yield running


def openenv(*words: object) -> tuple[int, str]:
    command = [f"{sys.prefix}/bin/openenv", *map(str, words)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout + found.stderr


# -- OpenEnv's word ----------------------------------------------------------------------------------------------------


def test_openenv_validates_the_package(package: Path) -> None:
    code, said = openenv("validate", package, "--level", "static")
    print(said)
    assert "PASS  static.manifest" in said
    assert (code, said.splitlines()[-1]) == (0, "Verdict: PASS")


def test_openenv_validates_the_running_server(server: Server) -> None:
    code, said = openenv("validate", "--url", server.url)
    print(said)
    report = validate_running_environment(server.url)
    assert (code, report["summary"]["passed_count"], report["summary"]["total_count"]) == (0, 6, 6)
    assert report["mode"] == "simulation"


@OPENENVS_OWN
def test_every_grader_of_the_runtime_level_passes(server: Server, tmp_path: Path) -> None:
    plan = load_runtime_plan(ROOT, MANIFEST.execution)
    evidence = collect_runtime_evidence(server.url, plan, episode_timeout_s=MANIFEST.resources.episode_timeout_s)
    assert evidence.failure_reason is None
    assert json.loads(evidence.exchanges[-2].response_json)["data"]["done"] is True  # a whole episode was looked at
    network = NetworkEvidence.model_validate(measured(tmp_path / "ledger", MANIFEST.network.mode))
    subject = replace(
        Subject(root=ROOT, manifest=MANIFEST, image_ref=None, running=None, outputs_dir=tmp_path),
        runtime_evidence=evidence,
        network_evidence_json=network.model_dump_json(),
    )
    selected = default_grader_registry(load_policy("v2")).select(MANIFEST, Level.RUNTIME)
    started = CheckResult(check_id="runtime.startup", status=CheckStatus.PASS, evidence=["it answers"], duration_s=0)
    results = execute_graders(
        [grader for grader in selected if grader.level is Level.RUNTIME],
        subject,
        provider_capabilities=frozenset({ProviderCapability.NETWORK_POLICY}),
        prior=[started],
    )
    for result in results:
        print(result.status.value.upper(), result.check_id, result.evidence)
    assert {result.check_id for result in results} == {
        "runtime.reward_well_formed",
        "runtime.observation_schema",
        "runtime.state_contract",
        "runtime.network_policy",
    }
    assert {result.status for result in results} == {CheckStatus.PASS}


@OPENENVS_OWN
def test_a_plan_that_pays_outside_the_range_would_not_pass(server: Server, tmp_path: Path) -> None:
    plan = load_runtime_plan(ROOT, MANIFEST.execution)
    dense = plan.model_copy(update={"reset": plan.reset.model_copy(update={"options": {"chaos": 0.5, "reward": "dense"}})})
    evidence = collect_runtime_evidence(server.url, dense, episode_timeout_s=60)
    subject = Subject(ROOT, MANIFEST, None, None, tmp_path, runtime_evidence=evidence)
    grader = default_grader_registry(load_policy("v2")).get("runtime.reward_well_formed")
    assert grader is not None
    assert grader.run(subject).status is CheckStatus.FAIL


def test_the_package_is_one_that_openenv_pushes(package: Path, tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    validate_env_structure(package)
    _prepare_staging_directory(package, "companyos", staged, [".*", "__pycache__"], enable_interface=True)
    front = yaml.safe_load((staged / "README.md").read_text().split("---")[1])
    assert (front["sdk"], front["app_port"], front["base_path"]) == ("docker", RAW["port"], "/docs")
    assert "openenv" in front["tags"]
    assert (staged / "Dockerfile").read_text().count("\nCMD") == 1
    assert not [path for path in package.rglob("*") if path.is_symlink()]


def test_the_only_thing_missed_is_a_lock_file_that_would_name_where_to_download(package: Path) -> None:
    _, issues = validate_multi_mode_deployment(package)
    assert [issue for issue in issues if "uv.lock" not in issue] == [
        "Missing [project.scripts] server entry point",  # `server` on everybody's path: `companyos serve` is the command
        "Missing required dependency: openenv>=0.2.0",  # for hosts, hence an extra
    ]


def test_a_catalog_takes_its_declaration(package: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(package, repository / "envs/companyos")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    catalog = build_catalog(
        repository,
        repository_uri="https://github.com/example/companyos.git",
        publisher="example.org",
        namespace="companyos",
        revision="HEAD",
        root="envs",
    )
    assert (catalog.complete, catalog.issues, len(catalog.entries)) == (True, [], 1)
    assert catalog.entries[0].display_name == "companyos"


# -- what is declared is so --------------------------------------------------------------------------------------------


def test_the_manifest_names_this_version_and_this_app() -> None:
    assert __version__.startswith(RAW["version"])
    assert MANIFEST.task_distribution.dataset_version == str(BENCHMARK_VERSION)
    module, name = RAW["app"].split(":")
    script = f"import {module} as api; print(type(api.{name}).__name__, api.main.__name__)"
    surroundings = os.environ | {"COMPANYOS_LEDGER": "none"}
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True
    )
    assert found.stdout == "FastAPI main\n"


def test_its_entry_point_is_the_server(tmp_path: Path) -> None:
    server = Server(tmp_path / "ledger")  # for its free port
    surroundings = os.environ | {"PORT": str(server.port), "COMPANYOS_LEDGER": str(tmp_path / "ledger")}
    with subprocess.Popen([sys.executable, "-m", "server.app"], cwd=ROOT, env=surroundings) as api:
        try:
            wait_for(lambda: httpx.get(f"{server.url}/metadata").json()["name"] == RAW["name"])
        finally:
            api.terminate()


@pytest.mark.parametrize("name", ["runtime", "canaries"])
def test_the_plans_are_what_the_tool_writes(name: str) -> None:
    assert (plans.FOLDER / f"{name}.json").read_text() == plans.written(getattr(plans, name)())


def test_files_that_the_manifest_names_exist() -> None:
    capabilities, execution = MANIFEST.capabilities, MANIFEST.execution
    named = [capabilities.oracle.location, capabilities.canaries, execution.probe_path, execution.dockerfile]
    assert all((ROOT / path).is_file() for path in named)
