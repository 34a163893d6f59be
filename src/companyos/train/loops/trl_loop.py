"""GRPO with TRL's `GRPOTrainer` and a model's native tool calls. The backends differ only in how they load the model.

The tasks of all updates are drawn before the first one, at one dose and with equal weight for all families: only the lean
loop has a curriculum. Use this loop if you already work with TRL; the rewards are the same.
"""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

from companyos.env.chat import SYSTEM
from companyos.evaluate.judge.outcome import INVALID
from companyos.integrations.trl_env import CompanyOS, TrlEpisode
from companyos.train.data.tasks import lessons
from companyos.train.loops.trl_plan import TrlPlan
from companyos.train.model.models import LORA_RANK, Learner, device_named, load
from companyos.train.runs.journal import Journal

TWIN_BONUS = 0.2
_PROMPT = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}]  # the environment adds the brief


def train(plan: TrlPlan, journal: Journal, minutes: float = math.inf) -> int:
    """Train by a plan, from the journal's checkpoint if there is one. Return the number of updates so far."""
    torch.manual_seed(plan.seed)  # a new adapter is initialised at random
    learner = LOADERS[plan.backend](plan)
    with ExitStack() as episodes:
        trainer = trainer_of(
            plan, learner, Journaled(journal, minutes), lambda: episodes.enter_context(CompanyOS(plan.url, plan.token))
        )
        state = journal.resume()
        trainer.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-{state['update']}" if state else None)
    journal.publish(learner.save)
    return int(trainer.state.global_step)


def trainer_of(
    plan: TrlPlan, learner: Learner, journaled: "Journaled", new_episode: Callable[[], TrlEpisode]
) -> GRPOTrainer:
    """Return TRL's trainer for a plan."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # hides TRL's warning that its environments are experimental
    return GRPOTrainer(
        model=learner.model,
        processing_class=learner.tokenizer,
        args=config_of(plan),
        train_dataset=Dataset.from_list(list(rows(plan))),
        environment_factory=new_episode,
        reward_funcs=[twins, success, invalid],
        callbacks=[journaled],
    )


def rows(plan: TrlPlan) -> Iterator[dict[str, Any]]:
    """Yield the tasks of all updates in order. A task and its twin are in the same update, and name each other."""
    weights = dict.fromkeys(plan.families, 1.0)
    for update in range(plan.updates):
        for lesson in lessons(plan.seed, update, plan.tasks, weights, plan.chaos):
            for task_id in lesson:
                sibling = next((other for other in lesson if other != task_id), "")
                yield {"prompt": _PROMPT, "task_id": task_id, "sibling": sibling}


def config_of(plan: TrlPlan) -> GRPOConfig:
    """Return TRL's settings.

    As in the lean loop, the advantage is the reward minus the mean of the group, the loss is a mean over tokens, and there
    is no KL term.
    """
    on_gpu = device_named(plan.device) == "cuda"
    return GRPOConfig(
        output_dir=str(plan.out / "trl"),
        max_steps=plan.updates,
        num_generations=plan.group,
        per_device_train_batch_size=plan.at_once,
        gradient_accumulation_steps=plan.batch // plan.at_once,  # one update for each batch of episodes
        shuffle_dataset=False,  # twins stay in the same update
        max_completion_length=plan.tokens,
        max_tool_calling_iterations=plan.max_calls,
        temperature=1.0,
        beta=0.0,
        epsilon=0.2,
        epsilon_high=0.28,
        scale_rewards="none",
        loss_type="dapo",
        reward_weights=[1.0, 0.0, 0.0],
        learning_rate=plan.rate,
        lr_scheduler_type="constant",
        seed=plan.seed,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        logging_steps=1,
        report_to=[],
        save_strategy="no",  # `Journaled` decides when to save
    )


# -- reward functions; TRL gets the score from the episode itself ---------------------------------------------------------


def twins(environments: Sequence[TrlEpisode], task_id: list[str], sibling: list[str], **_: Any) -> list[float]:
    """Return a bonus for each success, if more than half of the rollouts of both twins succeed.

    Failures get no bonus: a bonus for a whole group would not change its advantages. TRL passes one entry for each rollout:
    its episode, its task and the twin of that task.
    """
    successes: dict[str, list[bool]] = {}
    for task, episode in zip(task_id, environments, strict=True):
        successes.setdefault(task, []).append(episode.success)
    passed = {task for task, group in successes.items() if 2 * sum(group) > len(group)}
    both_passed = [task in passed and twin in passed for task, twin in zip(task_id, sibling, strict=True)]
    return [TWIN_BONUS * (both and episode.success) for both, episode in zip(both_passed, environments, strict=True)]


def success(environments: Sequence[TrlEpisode], **_: Any) -> list[float]:
    """Return 1 for each success. This reward has the weight 0, so that it is only logged."""
    return [float(episode.success) for episode in environments]


def invalid(environments: Sequence[TrlEpisode], **_: Any) -> list[float]:
    """Return the share of invalid calls in each episode. This reward has the weight 0, so that it is only logged."""
    return [sum(code in INVALID for code in episode.codes) / max(1, len(episode.codes)) for episode in environments]


# -- journal and checkpoints -----------------------------------------------------------------------------------------------


class Journaled(TrainerCallback):  # type: ignore[misc]
    """Logs updates under our names, and lets TRL save a checkpoint when the journal says that one is due."""

    def __init__(self, journal: Journal, minutes: float = math.inf) -> None:
        self._journal = journal
        self._ends = time.monotonic() + 60 * minutes

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        over = state.global_step >= state.max_steps or time.monotonic() >= self._ends
        control.should_save = over or self._journal.due()
        control.should_training_stop = over

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: Any
    ) -> None:
        if "reward" in logs:  # TRL's last record is about the run, not about an update
            numbers = {our_name: logs[trl_name] for our_name, trl_name in _TRL_NAMES.items()}
            self._journal.log({"update": state.global_step, **numbers})

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record a finished checkpoint in the journal, and delete the earlier ones."""
        self._journal.save({"update": state.global_step})
        for folder in Path(str(args.output_dir)).glob("checkpoint-*"):
            if folder.name != f"checkpoint-{state.global_step}":
                shutil.rmtree(folder)


_TRL_NAMES = {  # by the name in our log
    "reward": "reward",
    "score": f"rewards/{CompanyOS.__name__}/mean",
    "success": f"rewards/{success.__name__}/mean",
    "invalid": f"rewards/{invalid.__name__}/mean",
    "turns": "tools/call_frequency",
    "flat": "frac_reward_zero_std",  # groups with equal rewards
    "tokens": "completions/mean_length",
    "cut_short": "completions/clipped_ratio",
    "entropy": "entropy",
    "loss": "loss",
    "gradient": "grad_norm",
    "seconds": "step_time",
}


# -- models ----------------------------------------------------------------------------------------------------------------


def _load_for_trl(plan: TrlPlan) -> Learner:
    return load(plan.model, device_named(plan.device), "full" if plan.full else "lora")


def _load_with_unsloth(plan: TrlPlan) -> Learner:
    from unsloth import FastLanguageModel

    max_tokens = PROMPT_TOKENS + plan.tokens
    settings = {"max_seq_length": max_tokens, "load_in_4bit": False, "full_finetuning": plan.full}
    model, tokenizer = FastLanguageModel.from_pretrained(plan.model, **settings)
    if not plan.full:
        adapter = {"r": LORA_RANK, "lora_alpha": 2 * LORA_RANK, "random_state": plan.seed}
        model = FastLanguageModel.get_peft_model(model, **adapter)
    return Learner(model, tokenizer, plan.model)


PROMPT_TOKENS = 6144  # tools and brief take about 4,000 tokens with most tokenizers
LOADERS: dict[str, Callable[[TrlPlan], Learner]] = {"trl": _load_for_trl, "unsloth": _load_with_unsloth}
