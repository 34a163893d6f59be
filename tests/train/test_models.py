"""Models are found by name, saved small, and play as they were trained."""

import json
import pickle
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from companyos.agents import play
from companyos.cli.agents import add_trained_models
from companyos.core.errors import Misuse
from companyos.env import make
from companyos.evaluate.runs.roster import agent_named
from companyos.train.data.script import RESERVE
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import speaker_of
from companyos.train.model.models import SMOLLM2, Learner, check_model, load
from companyos.train.runs.local import LocalAgent, TurnGenerator, _generator
from tests.helpers import task_id

SENTENCE = " get_ticket T-1\n"


def trained(learner: Learner) -> Learner:
    """One whose adapter is no longer nothing."""
    with torch.no_grad():
        for name, weight in learner.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    return learner._replace(limit=1111)


def likeliest(learner: Learner) -> list[float]:
    learner.model.eval()
    with torch.no_grad():
        found: list[float] = learner.model(torch.tensor([learner.encode(SENTENCE)])).logits[0, -1].tolist()
    return found


def test_an_adapter_is_saved_alone_and_comes_back(learner: Learner, folder: Path, tmp_path: Path) -> None:
    taught = trained(learner)
    taught.save(tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"] == str(folder)
    for how in ("", "lora", "full"):
        again = load(str(tmp_path / "adapter"), train=how)
        assert again.limit == 1111
        assert again.is_adapted == (how == "lora")
        assert likeliest(again) == pytest.approx(likeliest(taught), abs=0.05)  # it was rounded
    assert likeliest(taught) != pytest.approx(likeliest(load(str(folder))), abs=0.05)


def test_nobody_is_asked_for_the_base_of_an_adapter_that_is_saved(learner: Learner, tmp_path: Path) -> None:
    learner.model.peft_config["default"].base_model_name_or_path = SMOLLM2  # a name of ours, which a hub may have as well
    with patch("peft.utils.save_and_load.check_file_exists_on_hf_hub") as asked:
        learner.save(tmp_path)
    asked.assert_not_called()


def test_a_whole_model_is_saved_without_saying_anything_twice(folder: Path, tmp_path: Path) -> None:
    load(str(folder), train="full").save(tmp_path / "whole")
    ours, theirs = ((place / "model.safetensors").stat().st_size for place in (tmp_path / "whole", folder))
    assert ours < 0.6 * theirs
    assert likeliest(load(str(tmp_path / "whole"))) == pytest.approx(likeliest(load(str(folder))), abs=0.05)


def test_what_plays_here_says_what_a_rollout_says(folder: Path) -> None:
    learner = load(str(folder))
    tokenizer, name = learner.script_tokenizer(), task_id(3)
    speaker = speaker_of(learner.model, tokenizer.decode, 1, learner.limit, RESERVE)
    rolled = rollout(speaker, [ModelEpisode(name, True, tokenizer, learner.limit, RESERVE)], TimeSpent())[0].env
    played = play(make(name, reward="score"), LocalAgent(TurnGenerator(learner)))
    assert played.transcript() == rolled.transcript()


def test_a_directory_is_an_agent_that_workers_can_unpickle(folder: Path) -> None:
    add_trained_models()
    agent = pickle.loads(pickle.dumps(agent_named(f"local:{folder}"))).open().agent(task_id(), 0)
    assert isinstance(agent, LocalAgent)
    assert "no directory" in agent_named("local:./nowhere").open().lacks([], 1)
    _generator.cache_clear()


def test_smollm2_loads_from_its_pypi_file_and_plays_an_episode() -> None:
    learner = load(SMOLLM2)
    assert sum(weight.numel() for weight in learner.model.parameters()) == 134_515_008
    asked = torch.tensor([learner.encode("The capital of France is")])
    assert learner.decode(learner.model.generate(asked, max_new_tokens=1, do_sample=False)[0, -1:].tolist()) == " Paris"
    agent = LocalAgent(TurnGenerator(learner._replace(limit=512)), reserve=12)  # it rambles, as yet
    env = play(make(task_id(3)), agent)
    assert env.success is False
    assert len(agent.usage) == env.step_count
    assert all(0 < one.tokens_out <= 12 for one in agent.usage)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nowhere", "there is no directory ./nowhere"),
        ("nobody", "there is no directory nobody; give one, a hub id"),
        (str(Path(__file__).parent), "holds no model"),
    ],
)
def test_a_model_that_is_none_is_one_line(name: str, said: str) -> None:
    with pytest.raises(Misuse, match=said) as mistake:
        check_model(name)
    assert "\n" not in str(mistake.value)
