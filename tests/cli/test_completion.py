"""Completion: what shells make of the scripts, and that these say what the parser takes."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

import companyos
from companyos.agents import AGENTS
from companyos.cli import main as cli
from companyos.cli.completion import WORDS, Command, commands
from companyos.core.task import SPLITS
from companyos.evaluate.suites.suite import SUITES
from tests.shell import run

SHELLS = ("bash", "zsh", "fish")
ASK = """
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_companyos
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def script(shell: str) -> str:
    code, printed, err = run("completion", shell)
    assert (code, err) == (0, "")
    return printed


def completed(*words: str, cwd: Path | None = None) -> set[str]:
    """What bash would put in place of the last word."""
    asked = ["bash", "-uc", f"{script('bash')}{ASK}", "bash", "companyos", *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=cwd)
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


def of(*path: str) -> Command:
    return next(command for command in commands(cli.parser()) if command.path == path)


def test_bash_completes_commands_and_those_below_them() -> None:
    assert completed("wat") == {"watch"}
    assert {"play", "doctor", "train"} < completed("")
    assert completed("train", "") == {"sft", "dagger", "grpo", "tiny", "checkup", "plot"}
    assert completed("train", "sft", "--sched") == {"--schedule"}
    assert completed("completion", "") == set(SHELLS)


def test_bash_completes_what_the_parser_knows_of_values() -> None:
    assert completed("watch", "--agent", "") == set(AGENTS)
    assert completed("watch", "--agent", "=", "exp") == completed("watch", "--agent", "exp") == {"expert"}
    assert completed("watch", "--agent", "=") == set(AGENTS)
    assert completed("play", "") == set(companyos.families())
    assert completed("play", "vendor_onboarding", "--split", "") == set(SPLITS)
    assert completed("eval", "--suite", "") == set(SUITES)
    assert completed("play", "--seed", "") == set()


def test_bash_completes_flags_where_one_is_begun_or_nothing_else_fits() -> None:
    assert completed("play", "--") == set(of("play").flags) - {"-h"}
    assert completed("prove", "") == set(of("prove").flags)


def test_bash_completes_files_with_spaces_in_their_names(tmp_path: Path) -> None:
    (tmp_path / "my run.jsonl").touch()
    assert completed("replay", "m", cwd=tmp_path) == {"my run.jsonl"}
    assert completed("play", "--save", "my", cwd=tmp_path) == {"my run.jsonl"}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_every_shell_that_is_here_finds_no_fault_with_its_script(shell: str, tmp_path: Path) -> None:
    (tmp_path / shell).write_text(script(shell))
    done = subprocess.run([shell, "-n", tmp_path / shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_script_knows_every_command_and_every_flag(shell: str) -> None:
    for command in commands(cli.parser()):
        for flag in command.flags:
            in_fish = f"-l {flag[2:]} " if flag.startswith("--") else f"-s {flag[1:]} "
            assert (in_fish if shell == "fish" else flag) in script(shell)
        for word in (*command.path, *command.operands.words):
            assert word in script(shell)


def test_every_list_of_words_is_of_an_argument_that_exists() -> None:
    arguments = {flag.lstrip("-") for command in commands(cli.parser()) for flag in command.flags}
    assert set(WORDS) - arguments == {"name", "task"}  # which have no flag
    assert of("suite").operands.words.keys() >= set(SUITES)
    assert of("twins").operands.words.keys() == set(companyos.families())
