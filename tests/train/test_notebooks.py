"""Notebooks print the output that they show, and the trainers that they define can train."""

from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tests.train.small_model import small_model
from tools.notebooks import NOTEBOOKS, code, needs_gpu, printed, read, run

REHEARSAL = """
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained({folder!r}), AutoTokenizer.from_pretrained({folder!r})
small = {{"max_steps": 1, "gradient_accumulation_steps": 1, "use_cpu": True, "bf16": False}}
warm = by_example(model, tokenizer, shown=2, **small)
warm.train()
grpo = by_reward(
    model, tokenizer, num_generations=2, per_device_train_batch_size=2, max_completion_length=16, **small
)
grpo.train()
[first, *_], [paid, *_] = warm.state.log_history, grpo.state.log_history
print(first["grad_norm"] > 0, grpo.state.global_step, paid["rewards/CompanyOS/mean"] > 0)
"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_is_valid_python_also_those_for_a_gpu(name: str) -> None:
    shell = TransformerManager()
    for cell in code(read(name)):
        compile(shell.transform_cell(cell.source), f"{name}:{cell.id}", "exec")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_small_and_contains_no_local_path(name: str) -> None:
    cells = read(name).cells
    assert sum(len(str(cell)) for cell in cells) < 100_000
    for cell in cells:
        assert not any(path in str(cell) for path in ("/home/", "/root/", "/tmp/", "/Users/", str(Path.home())))


def test_the_quickstart_prints_what_it_shows(tmp_path: Path) -> None:
    notebook = read("quickstart.ipynb")
    assert not any(needs_gpu(cell) for cell in notebook.cells)
    ran = run(notebook, tmp_path)
    assert [printed(cell) for cell in code(ran)] == [printed(cell) for cell in code(notebook)]
    assert (tmp_path / "runs" / "report.html").exists()


def test_the_unsloth_notebook_prints_what_it_shows_and_both_trainers_make_an_update(tmp_path: Path) -> None:
    notebook = read("train_unsloth.ipynb")
    folder = small_model(tmp_path / "model")
    *ran, rehearsed = code(run(notebook, tmp_path, REHEARSAL.format(folder=str(folder))))
    assert [printed(cell) for cell in ran] == [printed(cell) for cell in code(notebook) if not needs_gpu(cell)]
    assert printed(rehearsed).endswith("True 1 True\n")
