"""Models are loaded by name, saved in a small form, and play in the form that they were trained in."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
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
from companyos.train.runs.local import LocalAgent, ScriptCache, TurnGenerator, _generator
from tests.helpers import task_id

SENTENCE = " get_ticket T-1\n"


def trained(learner: Learner) -> Learner:
    """Return the learner with an adapter that changes its output."""
    with torch.no_grad():
        for name, weight in learner.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    return learner._replace(limit=1111)


def last_logits(learner: Learner) -> list[float]:
    learner.model.eval()
    with torch.no_grad():
        logits: list[float] = learner.model(torch.tensor([learner.encode(SENTENCE)])).logits[0, -1].tolist()
    return logits


def test_an_adapter_is_saved_without_its_base_and_can_be_loaded(learner: Learner, folder: Path, tmp_path: Path) -> None:
    adapted = trained(learner)
    adapted.save(tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"] == str(folder)
    for how in ("", "lora", "full"):
        loaded = load(str(tmp_path / "adapter"), train=how)
        assert loaded.limit == 1111
        assert loaded.is_adapted == (how == "lora")
        assert last_logits(loaded) == pytest.approx(last_logits(adapted), abs=0.05)  # saving rounds the weights
    assert last_logits(adapted) != pytest.approx(last_logits(load(str(folder))), abs=0.05)


def test_saving_an_adapter_asks_no_hub_for_its_base(learner: Learner, tmp_path: Path) -> None:
    learner.model.peft_config["default"].base_model_name_or_path = SMOLLM2  # our name, which a hub may also have
    with patch("peft.utils.save_and_load.check_file_exists_on_hf_hub") as ask_hub:
        learner.save(tmp_path)
    ask_hub.assert_not_called()


def test_a_whole_model_is_saved_in_half_precision_with_shared_weights_once(folder: Path, tmp_path: Path) -> None:
    load(str(folder), train="full").save(tmp_path / "whole")
    saved, original = ((path / "model.safetensors").stat().st_size for path in (tmp_path / "whole", folder))
    assert saved < 0.6 * original
    assert last_logits(load(str(tmp_path / "whole"))) == pytest.approx(last_logits(load(str(folder))), abs=0.05)


def test_a_local_agent_makes_the_calls_of_a_rollout(folder: Path) -> None:
    learner = load(str(folder))
    tokenizer, name = learner.script_tokenizer(), task_id(3)
    speaker = speaker_of(learner.model, tokenizer.decode, 1, learner.limit, RESERVE)
    rollout_env = rollout(speaker, [ModelEpisode(name, True, tokenizer, learner.limit, RESERVE)], TimeSpent())[0].env
    played = play(make(name, reward="score"), LocalAgent(TurnGenerator(learner)))
    assert played.transcript() == rollout_env.transcript()


def test_a_directory_is_an_agent_that_workers_can_unpickle(folder: Path) -> None:
    add_trained_models()
    agent = pickle.loads(pickle.dumps(agent_named(f"local:{folder}"))).open().agent(task_id(), 0)
    assert isinstance(agent, LocalAgent)
    assert "no directory" in agent_named("local:./nowhere").open().lacks([], 1)
    _generator.cache_clear()


def test_agents_that_share_a_model_on_several_threads_play_as_they_do_alone(folder: Path) -> None:
    learner, tasks = load(str(folder)), [task_id(seed) for seed in range(2)]
    alone = [play(make(task), LocalAgent(TurnGenerator(learner), reserve=8)).digest() for task in tasks]
    shared = TurnGenerator(learner)
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(lambda task: play(make(task), LocalAgent(shared, reserve=8)).digest(), tasks))
    assert together == alone


@pytest.mark.parametrize(("agents", "reads_again"), [(4, False), (5, True)])
def test_only_the_scripts_of_the_latest_agents_stay_cached(agents: int, reads_again: bool, learner: Learner) -> None:
    generator, caches = TurnGenerator(learner), [ScriptCache() for _ in range(agents)]
    scripts = [learner.encode(f"T-{number} a=1\n>") for number in range(agents)]
    for script, cache in zip(scripts, caches, strict=True):
        generator.turn(script, cache, 4, 0.0, None)
    assert (not caches[0].tokens) == reads_again
    assert all(cache.tokens[: len(script)] == script for script, cache in zip(scripts[1:], caches[1:], strict=True))


@pytest.mark.parametrize(("load_average", "threads"), [(0.2, 4), (2.6, 1), (9.0, 1)])
def test_threads_leave_out_cores_that_other_processes_use(
    load_average: float, threads: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr("os.getloadavg", lambda: (load_average, 0.0, 0.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _generator.cache_clear()
    _generator(str(folder))
    _generator.cache_clear()
    assert chosen == [threads]


def test_smollm2_loads_from_its_pypi_file_and_plays_an_episode() -> None:
    learner = load(SMOLLM2)
    assert sum(weight.numel() for weight in learner.model.parameters()) == 134_515_008
    prompt = torch.tensor([learner.encode("The capital of France is")])
    assert learner.decode(learner.model.generate(prompt, max_new_tokens=1, do_sample=False)[0, -1:].tolist()) == " Paris"
    agent = LocalAgent(TurnGenerator(learner._replace(limit=512)), reserve=12)  # untrained, it writes long lines
    env = play(make(task_id(3)), agent)
    assert env.success is False
    assert len(agent.usage) == env.step_count
    assert all(0 < usage.tokens_out <= 12 for usage in agent.usage)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "there is no directory ./nowhere"),
        ("nobody", "there is no directory nobody; give one, a hub id"),
        (str(Path(__file__).parent), "holds no model"),
    ],
)
def test_a_name_without_a_model_is_one_line(name: str, message: str) -> None:
    with pytest.raises(Misuse, match=message) as mistake:
        check_model(name)
    assert "\n" not in str(mistake.value)
