"""A model that is shown how it is done does it more readily, and goes on after it was killed as if it had not been."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from companyos.train.data.demonstrations import Demonstration, DemoPlan, LearningWindow
from companyos.train.loops import sft
from companyos.train.loops.sft import SftRecipe, SftTrainer, train
from companyos.train.model.forward import Spans, by_length, fitting, log_probabilities
from companyos.train.model.models import Learner, load
from companyos.train.runs.journal import Journal, Record, records
from tests.helpers import FAMILY

PLAN = DemoPlan((FAMILY,), ((0.0, 1.0),), slips=0.5, limit=1024)
COMPARED = ("update", "loss", "rate", "gradient", "learned_tokens")
RECIPE = SftRecipe(demonstrations=12, at_once=2, rate=1e-2, warm_up=0.2, batch=4096)


def test_only_tokens_of_calls_are_learnt(learner: Learner) -> None:
    windows = [([5, 6, 7, 8, 9, 10], [(2, 4)]), ([11, 12, 13], [(1, 2), (2, 3)])]
    found = log_probabilities(learner.model, windows)
    whole = [learner.model(torch.tensor([tokens])).logits[0].log_softmax(-1) for tokens, _ in windows]
    expected = [whole[0][1, 7], whole[0][2, 8], whole[1][0, 12], whole[1][1, 13]]
    assert torch.allclose(found, torch.stack(expected), atol=1e-4)


def test_batches_hold_like_lengths_and_no_more_than_fits() -> None:
    found = list(by_length([3, 10, 4, 9, 1], lambda n: n, 20))
    assert found == [[10, 9], [4, 3, 1]]
    assert list(by_length([30, 1], lambda n: n, 20)) == [[30], [1]]


@pytest.mark.parametrize(("device", "most"), [("cuda", 65536), ("cpu", 4096)])
def test_a_processor_takes_fewer_tokens_at_once_than_a_gpu(device: str, most: int) -> None:
    assert fitting(torch.device(device), 65536) == most
    assert fitting(torch.device(device), 1000) == 1000


def test_whoever_learns_on_a_processor_is_shown_no_more_at_once(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def note(model: Any, windows: Sequence[tuple[list[int], Spans]]) -> Any:
        taken.append(sum(len(tokens) for tokens, _ in windows))
        return log_probabilities(model, windows)

    monkeypatch.setattr(sft, "log_probabilities", note)
    shown = Demonstration("", [LearningWindow([7] * 1000, [(5, 9)])] * 10, said=10, slipped=0, again=0, blind=0)
    SftTrainer(learner, msgspec.structs.replace(RECIPE, batch=65536)).update([shown])
    assert taken == [4000, 4000, 2000]


def test_loss_falls_and_a_run_that_was_killed_goes_on_the_same(folder: Path, tmp_path: Path) -> None:
    def learn(out: str, sittings: int) -> list[dict[str, float]]:
        for _ in range(sittings):
            torch.manual_seed(0)
            journal = Journal(tmp_path / out, {"recipe": RECIPE}, every=0.0)
            done = journal.resume()
            # Broken off where a new sitting has made two updates: as if it was killed, but for the exit code.
            updates = 2 + (done["done"] if done else 0)
            train(load(str(folder), train="full"), PLAN, RECIPE, journal, 0, watch=_until(updates if sittings > 1 else 99))
        return [{name: record[name] for name in COMPARED} for record in records(tmp_path / out)]

    whole, broken = learn("whole", 1), learn("broken", 3)
    assert [record["update"] for record in whole] == [1, 2, 3, 4, 5, 6]
    assert whole[-1]["loss"] < whole[0]["loss"] - 0.5
    assert broken == whole
    assert (tmp_path / "whole" / "model" / "model.safetensors").is_file()


def _until(update: int) -> Callable[[Iterator[Record], int], Iterator[Record]]:
    def watch(made: Iterator[Record], total: int) -> Iterator[Record]:
        for record in made:
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
    level = msgspec.structs.replace(recipe, schedule="constant")
    assert level.rate_at(99) == 1.0


def test_all_weights_can_be_trained(folder: Path) -> None:
    whole, adapted = (load(str(folder), train=how) for how in ("full", "lora"))
    assert len(SftTrainer(whole, RECIPE).weights) == len(list(whole.model.parameters()))
    assert all("lora_" in name for name in SftTrainer(adapted, RECIPE).weights)
