"""GRPO with TRL's own loop, and a small model that the test makes."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from trl import GRPOTrainer

from companyos.agents.routine import WAIT
from companyos.assurance.twins import same_ending
from companyos.company import TOOLBOX
from companyos.core.errors import BadChoice, BadDose, Misuse
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.integrations.trl_env import CompanyOS
from companyos.train.loops.trl_loop import TWIN_BONUS, Journaled, rows, train, trainer_of, twins
from companyos.train.loops.trl_plan import TrlPlan, carry_out, check_libraries, check_template, check_unsloth
from companyos.train.model.models import load
from companyos.train.runs.journal import MODEL, Journal, records
from tests.helpers import FAMILY
from tests.shell import run
from tests.train.small_model import small_model, template


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


def new_plan(model: Path, out: Path, **settings: Any) -> TrlPlan:
    small = {"updates": 2, "tasks": 2, "group": 2, "at_once": 4, "families": (FAMILY,), "dose": 0.0, "tokens": 48}
    return TrlPlan(**{"model": str(model), "out": out, **small, **settings})


@pytest.fixture
def prompted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the model's words: every other rollout makes the expert's calls, the others give up at once.

    TRL does the rest: it parses the calls, makes them, and learns from the rewards.
    """
    scripts: dict[int, list[str]] = {}  # the turns that each rollout has still to make

    def generate(trainer: GRPOTrainer, prompts: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        if not any(scripts.values()):
            scripts.update({i: script(env.task_id, i % 2 == 0) for i, env in enumerate(trainer.environments)})
        unfinished = [number for number, turns in scripts.items() if turns]
        assert len(unfinished) == len(prompts)
        return [trainer.processing_class.encode(scripts[number].pop(0)) for number in unfinished], None

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)


def script(task_id: str, as_expert: bool) -> list[str]:
    calls = [turn.call for turn in expert_episode(task_id).turns] if as_expert else []
    tool_calls = [json.dumps({"name": f"{call.app}_{call.method}", "arguments": call.params}) for call in calls]
    return [*(f"<tool_call>\n{tool_call}\n</tool_call><|im_end|>" for tool_call in tool_calls), "That is all.<|im_end|>"]


def expert_episode(task_id: str) -> CompanyEnv:
    env = make(task_id, reward="score")
    run_expert(env)
    return env


def idle_episode(task_id: str) -> CompanyEnv:
    env = make(task_id, reward="score")
    while not env.done:
        env.step(WAIT)
    return env


def journal_of(plan: TrlPlan, every: float = 60.0) -> Journal:
    return Journal(plan.out, plan.identity, every=every)


def updates_of(plan: TrlPlan) -> list[dict[str, Any]]:
    """Return the log records of a run without its times."""
    times = ("seconds", "elapsed")
    return [{name: value for name, value in record.items() if name not in times} for record in records(plan.out)]


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_the_tools_that_the_trainer_sees_are_those_of_the_company(model: Path, tmp_path: Path) -> None:
    plan = new_plan(model, tmp_path / "run")
    with closing(journal_of(plan)) as journal:
        trainer = trainer_of(plan, load(plan.model, train="lora"), Journaled(journal), CompanyOS)
    assert sorted(tool.__name__ for tool in trainer.tools) == sorted(f"{tool.app}_{tool.method}" for tool in TOOLBOX)
    assert trainer.reward_func_names == ["twins", "success", "invalid", "CompanyOS"]
    assert trainer.reward_weights.tolist() == [1, 0, 0, 1]


@pytest.mark.usefixtures("prompted")
def test_the_trainer_pays_the_rewards_of_the_environment_and_two_updates_learn(model: Path, tmp_path: Path) -> None:
    plan = new_plan(model, tmp_path / "run", tokens=8000)
    assert carry_out(plan) == 2
    learnt = load(str(plan.out / MODEL)).model.state_dict()
    first, second = updates_of(plan)
    assert (first["update"], second["update"]) == (1, 2)
    task_ids = [row["task_id"] for row in rows(plan)]
    for record, tasks in ((first, task_ids[:2]), (second, task_ids[2:])):
        experts, idle = [expert_episode(task) for task in tasks], [idle_episode(task) for task in tasks]
        rewards = [env.turns[-1].reward for env in (*experts, *idle)]
        assert record["score"] == record["reward"] == pytest.approx(sum(rewards) / 4)
        assert record["success"] == 0.5
        assert record["turns"] == pytest.approx(sum(env.step_count for env in experts) / 4)
        assert (record["invalid"], record["flat"], record["cut_short"]) == (0, 0, 0)
        assert record["gradient"] > 0
    untrained = load(plan.model).model.state_dict()
    assert any(not torch.equal(learnt[name], untrained[name]) for name in untrained)


@pytest.mark.parametrize("words", ["its own", "the expert's"])
def test_a_killed_run_makes_the_same_next_update_when_it_is_resumed(
    words: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    size: dict[str, Any] = {}
    if words == "the expert's":
        request.getfixturevalue("prompted")
        size = {"tasks": 1, "at_once": 2, "tokens": 8000}
    whole, cut = new_plan(model, tmp_path / "whole", **size), new_plan(model, tmp_path / "cut", **size)
    with closing(journal_of(whole, every=0.0)) as journal:
        train(whole, journal)
    with closing(journal_of(cut, every=0.0)) as journal, monkeypatch.context() as patch:
        save = journal.save
        patch.setattr(journal, "save", lambda state: save(state) if state["update"] < 2 else kill())
        with pytest.raises(KeyboardInterrupt):
            train(cut, journal)
    assert [record["update"] for record in records(cut.out)] == [1, 2]  # the second update was not saved
    with closing(journal_of(cut)) as journal:
        train(cut, journal)
    assert updates_of(cut) == updates_of(whole)
    weights = [load(str(plan.out / MODEL)).model.state_dict() for plan in (whole, cut)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def kill() -> None:
    raise KeyboardInterrupt


def test_twins_get_the_bonus_if_more_than_half_of_the_rollouts_of_both_succeed() -> None:
    won, lost = CompanyOS(), CompanyOS()
    for episode, task in ((won, str(task_named(FAMILY, 3))), (lost, str(task_named(FAMILY, 4)))):
        episode.reset(task_id=task)
    for turn in expert_episode(won.task_id).turns:
        getattr(won, f"{turn.call.app}_{turn.call.method}")(**turn.call.params)
    rollouts = [won, won, lost, won, won, won, won, won]
    tasks, twin_tasks = ["a"] * 3 + ["b"] * 3 + ["c"] * 2, ["b"] * 3 + ["a"] * 3 + [""] * 2
    assert twins(rollouts, tasks, twin_tasks) == [TWIN_BONUS, TWIN_BONUS, 0, TWIN_BONUS, TWIN_BONUS, TWIN_BONUS, 0, 0]
    assert twins([lost, *rollouts[1:]], tasks, twin_tasks) == [0.0] * 8


def test_the_tasks_of_a_plan_have_no_clutter_and_half_of_them_are_twins(model: Path, tmp_path: Path) -> None:
    plan = new_plan(model, tmp_path, dose=0.5, tasks=8)
    planned = list(rows(plan))
    assert planned == list(rows(plan))
    assert len(planned) == 16
    assert all(make(row["task_id"]).toolbox.names == TOOLBOX.names for row in planned)
    for update in (planned[:8], planned[8:]):
        twin_tasks = [row["sibling"] for row in update]
        assert [bool(name) for name in twin_tasks] == [True] * 4 + [False] * 4
        for row, twin in zip(update[:4:2], update[1:4:2], strict=True):
            assert (row["sibling"], twin["sibling"]) == (twin["task_id"], row["task_id"])
            assert not same_ending(make(row["task_id"]), make(twin["task_id"]))


def test_the_command_trains_resumes_and_reports_a_wrong_option(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    size = ("--tasks", 1, "--group", 2, "--at-once", 2, "--tokens", 16, "--families", FAMILY, "--doses", 0)
    command = ("train", "grpo", "--loop", "trl", "--model", model, "--device", "cpu", "--out", out, *size)
    for updates in (1, 2, 2):
        code, output, _ = run(*command, "--updates", updates)
        assert (code, f"{updates} of {updates} updates." in output) == (0, True)
        assert [record["update"] for record in records(out)] == list(range(1, updates + 1))
    code, output, error = run(*command, "--backend", "vllm")
    assert (code, output, error) == (2, "", "companyos: unknown backend 'vllm'; valid: trl, unsloth\n")


# -- bad input ---------------------------------------------------------------------------------------------------------


def refusal_of(plan: TrlPlan) -> str:
    """Return the one line with which a plan is refused. Nothing may be written."""
    with pytest.raises((Misuse, BadChoice, BadDose)) as raised:
        carry_out(plan)
    message = str(raised.value)
    assert "\n" not in message
    assert not plan.out.exists()
    return message


def test_an_impossible_plan_is_refused_in_one_line(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert "there is no directory" in refusal_of(new_plan(tmp_path / "nowhere", out))
    assert "holds no model" in refusal_of(new_plan(tmp_path, out))
    assert "unknown backend 'vllm'; valid: trl, unsloth" in refusal_of(new_plan(model, out, backend="vllm"))
    assert "does not divide the 4 rollouts" in refusal_of(new_plan(model, out, at_once=3))
    assert "--group takes 2 rollouts or more" in refusal_of(new_plan(model, out, group=1))
    assert "takes a dose from 0 to 1" in refusal_of(new_plan(model, out, dose=1.5))
    assert "no CompanyOS server at http://127.0.0.1:9" in refusal_of(new_plan(model, out, url="http://127.0.0.1:9"))
    assert "no CompanyOS server at here" in refusal_of(new_plan(model, out, url="here"))
    assert "the variable NO_TOKEN must have" in refusal_of(
        new_plan(model, out, url="http://127.0.0.1:9", token_env="NO_TOKEN")
    )


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match=r'needs trl: pip install "\.\[train\]" in a checkout'):
        check_libraries(lambda name: None if name == "trl" else name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(Misuse, match=r"unsloth needs it: pip install -e . -r requirements-unsloth.txt"):
        check_unsloth(lambda name: None)


def test_unsloth_without_a_gpu_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "needs a GPU, and there is none" in refusal_of(new_plan(model, tmp_path / "run", backend="unsloth"))


def test_the_offline_model_is_for_the_lean_loop() -> None:
    with pytest.raises(Misuse, match=r"TRL cannot parse the chat template of smollm2 .* --loop lean"):
        check_template("smollm2")


@pytest.mark.parametrize("wrong", ["", "{{ messages[0].content }}", template().replace("You are", "We are")])
def test_a_chat_template_that_trl_cannot_parse_is_refused_with_what_to_do(wrong: str, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text(wrong) if wrong else (folder / "chat_template.jinja").unlink()
    message = refusal_of(new_plan(folder, tmp_path / "run"))
    assert message.startswith(f"TRL cannot parse the chat template of {folder}")
    assert "--loop lean" in message


def test_a_folder_with_another_plan_is_refused(model: Path, tmp_path: Path) -> None:
    plan = new_plan(model, tmp_path / "run")
    journal_of(plan).close()
    journal_of(msgspec.structs.replace(plan, updates=9)).close()
    with pytest.raises(Misuse, match=r"holds a run whose dose is 0.0, not 0.5"):
        journal_of(msgspec.structs.replace(plan, dose=0.5))
