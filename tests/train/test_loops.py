"""Both loops can be timed on the same tasks, and TRL's loop rewards the expert's words."""

from pathlib import Path

import pytest

from tests.train.small_model import small_model
from tools.loops import main, worked
from tools.loops import words as words_of


def test_both_loops_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(small_model(tmp_path / "small"))
    assert main([model, "--trained", model, "--limit", "1024", "--tasks", "1", "--group", "2", "--updates", "1"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " update 0: " in line]
    assert [line.split()[0] for line in lines] == ["trl", "lean"]
    assert "reward 1.000" in lines[0], "without chaos, the expert gets the full reward in TRL's loop"


def test_the_experts_words_are_its_calls_and_a_last_message() -> None:
    class Letters:
        def encode(self, line: str) -> list[int]:
            return [ord(letter) for letter in line]

    task_id = "vendor_onboarding-v4-train-1-0"
    assert len(words_of(Letters(), task_id)) == worked(task_id).step_count + 1
