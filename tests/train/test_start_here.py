"""The block of docs/start-here.md for TRL trains, with a small model and one update of two short rollouts."""

from pathlib import Path
from typing import Any

import pytest

from tests.blocks import ROOT, blocks_of
from tests.train.small_model import small_model

SMALLER = {
    "max_completion_length=4096": "max_completion_length=32",
    "num_generations=16": "num_generations=2, max_steps=1, report_to='none', save_strategy='no', use_cpu=True",
    "per_device_train_batch_size=16": "per_device_train_batch_size=2",
}


def test_the_block_for_trl_makes_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    [block] = [block for block in blocks_of(ROOT / "docs" / "start-here.md") if block.title == "needs TRL"]
    code = block.code.replace("Qwen/Qwen2.5-1.5B-Instruct", str(small_model(tmp_path / "small")))
    for original, smaller in SMALLER.items():
        assert code.count(original) == 1
        code = code.replace(original, smaller)
    names: dict[str, Any] = {}
    exec(compile(code, str(block), "exec"), names)
    assert names["trainer"].state.global_step == 1
