"""Supervised fine-tuning lowers the loss, and a killed run continues exactly."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from companyos.train.data.demonstrations import Demonstration, DemoPlan, LearningWindow
from companyos.train.loops import sft
from companyos.train.loops.sft import SftRecipe, SftTrainer, train
from companyos.train.model.forward import Spans, batch_limit, by_length, log_probabilities
from companyos.train.model.models import Learner, load
from companyos.train.runs.journal import Journal, Record, records
from tests.helpers import FAMILY

PLAN = DemoPlan((FAMILY,), ((0.0, 1.0),), slips=0.5, limit=1024)
COMPARED = ("update", "loss", "rate", "gradient", "learned_tokens")
RECIPE = SftRecipe(demonstrations=12, at_once=2, rate=1e-2, warm_up=0.2, batch=4096)


def test_only_tokens_of_calls_are_learnt(learner: Learner) -> None:
    windows = [([5, 6, 7, 8, 9, 10], [(2, 4)]), ([11, 12, 13], [(1, 2), (2, 3)])]
    logprobs = log_probabilities(learner.model, windows)
    whole = [learner.model(torch.tensor([tokens])).logits[0].log_softmax(-1) for tokens, _ in windows]
    expected = [whole[0][1, 7], whole[0][2, 8], whole[1][0, 12], whole[1][1, 13]]
    assert torch.allclose(logprobs, torch.stack(expected), atol=1e-4)


def test_batches_have_similar_lengths_and_no_more_tokens_than_fit() -> None:
    batches = list(by_length([3, 10, 4, 9, 1], lambda n: n, 20))
    assert batches == [[10, 9], [4, 3, 1]]
    assert list(by_length([30, 1], lambda n: n, 20)) == [[30], [1]]


@pytest.mark.parametrize(("device", "limit"), [("cuda", 65536), ("cpu", 4096)])
def test_a_batch_on_a_cpu_has_fewer_tokens_than_on_a_gpu(device: str, limit: int) -> None:
    assert batch_limit(torch.device(device), 65536) == limit
    assert batch_limit(torch.device(device), 1000) == 1000


def test_an_update_on_a_cpu_uses_batches_of_that_size(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_tokens: list[int] = []

    def counted(model: Any, windows: Sequence[tuple[list[int], Spans]]) -> Any:
        batch_tokens.append(sum(len(tokens) for tokens, _ in windows))
        return log_probabilities(model, windows)

    monkeypatch.setattr(sft, "log_probabilities", counted)
    demonstration = Demonstration("", [LearningWindow([7] * 1000, [(5, 9)])] * 10, calls=10, slips=0, repeated=0, blind=0)
    SftTrainer(learner, msgspec.structs.replace(RECIPE, batch=65536)).update([demonstration])
    assert batch_tokens == [4000, 4000, 2000]


def test_the_loss_falls_and_a_killed_run_continues_exactly(folder: Path, tmp_path: Path) -> None:
    def learn(out: str, sessions: int) -> list[dict[str, float]]:
        for _ in range(sessions):
            torch.manual_seed(0)
            journal = Journal(tmp_path / out, {"recipe": RECIPE}, every=0.0)
            done = journal.resume()
            # If there are several sessions, each is stopped after two updates, as if it was killed.
            updates = 2 + (done["done"] if done else 0)
            train(
                load(str(folder), train="full"),
                PLAN,
                RECIPE,
                journal,
                0,
                watch=_until(updates if sessions > 1 else 99),
            )
        return [{name: record[name] for name in COMPARED} for record in records(tmp_path / out)]

    whole, resumed = learn("whole", 1), learn("resumed", 3)
    assert [record["update"] for record in whole] == [1, 2, 3, 4, 5, 6]
    assert whole[-1]["loss"] < whole[0]["loss"] - 0.5
    assert resumed == whole
    assert (tmp_path / "whole" / "model" / "model.safetensors").is_file()


def _until(update: int) -> Callable[[Iterator[Record], int], Iterator[Record]]:
    """Return a `watch` that stops a run after an update."""

    def watch(log: Iterator[Record], total: int) -> Iterator[Record]:
        for record in log:
            yield record
            if record["update"] >= update:
                return

    return watch


def test_the_rate_warms_up_and_comes_down() -> None:
    recipe = SftRecipe(demonstrations=100, at_once=1, rate=1.0, warm_up=0.1)
    rates = [recipe.rate_at(update) for update in range(100)]
    assert rates[:10] == pytest.approx([n / 10 for n in range(1, 11)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0.1 <= rates[-1] < 0.11
    constant = msgspec.structs.replace(recipe, schedule="constant")
    assert constant.rate_at(99) == 1.0


def test_all_weights_can_be_trained(folder: Path) -> None:
    whole, adapted = (load(str(folder), train=how) for how in ("full", "lora"))
    assert len(SftTrainer(whole, RECIPE).weights) == len(list(whole.model.parameters()))
    assert all("lora_" in name for name in SftTrainer(adapted, RECIPE).weights)
