"""Wrong options are refused in one line before anything is loaded, and runs can be plotted."""

import json
from pathlib import Path

import pytest

from companyos.cli.main import main
from companyos.core.errors import Misuse
from companyos.train.runs.journal import Journal, settings
from companyos.train.runs.plot import PROGRESS, STAGES, beginnings, draw

PNG = b"\x89PNG"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sft --model ./nowhere", "there is no directory ./nowhere"),
        ("sft --device cuda --model {model}", "there is no GPU here"),
        ("grpo --device cuda --model {model}", "there is no GPU here"),
        ("sft --limit 100 --model {model}", "--limit takes 512 tokens or more"),
        ("sft --working --model {model}", "--working takes a --limit of 2048 tokens or more"),
        ("sft --rank 65 --model {model}", "is not a rank from 1 to 64"),
        ("sft --doses 0.5 --model {model}", "one looks like 0:0.9,0.5:0.1"),
        ("sft --doses 7:1 --model {model}", "7"),
        ("sft --slips 2 --model {model}", "is not a number from 0 to 1"),
        ("grpo --doses high --model {model}", "one looks like 0.25,0.5"),
        ("sft --families nobody --model {model}", "unknown family 'nobody'"),
        ("sft --track mlflow --model {model}", "unknown tracker"),
        ("sft --minutes 0 --model {model}", "is not a number above 0"),
    ],
)
def test_a_wrong_option_is_one_line(
    command: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *command.format(model=folder).split(), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_is_trained_resumed_and_plotted(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    command = f"train sft --model {folder} --families vendor_onboarding --demonstrations 2 --at-once 1".split()
    command += f"--doses 0:1 --workers 0 --check-tasks 0 --rate 0.01 --out {out}".split()
    assert main([*command]) == 0
    assert main([*command]) == 0  # no update is left
    assert "2 of 2 updates" in capsys.readouterr().out
    assert main(["train", "plot", out]) == 0
    assert (tmp_path / "run" / PROGRESS).read_bytes().startswith(PNG)
    assert main([*command, "--seed", "5"]) == 2
    assert "go on with that, or give another folder" in capsys.readouterr().err


def test_a_run_that_continues_an_adapter_records_its_rank(folder: Path, tmp_path: Path) -> None:
    command = f"train sft --model {folder} --families vendor_onboarding --demonstrations 1 --at-once 1 --rank 4".split()
    command += ["--doses", "0:1", "--workers", "0", "--check-tasks", "0", "--out"]
    assert main([*command, str(tmp_path / "first")]) == 0
    command[command.index("--model") + 1] = str(tmp_path / "first" / "model")
    command[command.index("--rank") + 1] = "8"
    assert main([*command, str(tmp_path / "second")]) == 0
    assert [settings(tmp_path / name)["rank"] for name in ("first", "second")] == [4, 4]


def test_a_run_that_continues_a_model_starts_where_that_run_ended(tmp_path: Path) -> None:
    models = {"warm": "smollm2", "grpo": "runs/warm/model", "other": "runs/elsewhere/model"}
    for name, model in models.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"model": model}))
        (folder / "log.jsonl").write_text("".join(f'{{"update": {n}, "elapsed": {60.0 * (n + 1)}}}\n' for n in range(3)))
    assert beginnings([tmp_path / name for name in models]) == {"warm": 0.0, "grpo": 3.0, "other": 0.0}


def test_the_same_logs_give_the_same_plots(tmp_path: Path) -> None:
    for name in ("a", "b"):
        journal = Journal(tmp_path / name, {})
        for update in range(5):
            numbers = {
                "invalid_calls": 0.5 / (update + 1),
                "routing": 0.2 * update,
                "recovery": 0.1 * update,
                "success": 0.1,
            }
            journal.log({"update": update, "reward": update / 10, "loss": 1.0, "checkup": numbers})
    pictures = [draw([tmp_path / "a", tmp_path / "b"], tmp_path / out) for out in ("one", "two")]
    assert [path.name for path in pictures[0]] == [STAGES, PROGRESS]
    assert [path.read_bytes() for path in pictures[0]] == [path.read_bytes() for path in pictures[1]]
    plots_of_one = draw([tmp_path / "a"], tmp_path / "alone")
    assert plots_of_one[0].read_bytes() != pictures[0][0].read_bytes()
    Journal(tmp_path / "empty", {})
    with pytest.raises(Misuse, match="nothing to draw yet"):
        draw([tmp_path / "empty"], tmp_path / "three")
    assert main(["train", "plot", str(tmp_path)]) == 2


def test_decoding_options_are_written_into_the_results(folder: Path, tmp_path: Path) -> None:
    suite = tmp_path / "one.txt"
    suite.write_text("vendor_onboarding-v4-validation-0-0\n")
    command = f"eval --agent local:{folder} --suite {suite} --workers 1 --out {tmp_path / 'run'}".split()
    assert main([*command, "--temperature", "0.5", "--repeats", "3"]) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"] == {"temperature": "0.5", "repeats": "3"}


def test_a_local_model_can_be_watched(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # a narrow terminal cuts the title
    assert main(["watch", "vendor_onboarding-v4-validation-0-0", "--agent", f"local:{folder}", "--temperature", "0.5"]) == 0
    assert f"local:{folder} works vendor_onboarding-v4-validation-0-0" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--agent local:{model} --max-tokens 5", "--max-tokens is for openai:MODEL"),
        ("--agent expert --repeats 3", "expert is not a language model"),
        ("--agent openai:m --base-url http://127.0.0.1:1 --repeats 3", "--repeats is for local:DIR"),
    ],
)
def test_decoding_options_are_refused_for_other_agents(
    options: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", *options.format(model=folder).split(), "--suite", "smoke", "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
