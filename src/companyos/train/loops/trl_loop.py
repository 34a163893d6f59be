"""TRL's loop: GRPO by its own `GRPOTrainer`, with a model's native tool calls. Backends differ only in how it is loaded.

The tasks of all updates are drawn before the first, at one dose and from all families alike: the curriculum is the lean
loop's. This one is for those who live in TRL, and for showing that the rewards are the same there.
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
from companyos.train.loops.trl_plan import Plan
from companyos.train.model.models import LORA_RANK, Learner, device_named, load
from companyos.train.runs.journal import Journal

BONUS = 0.2
_ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}]  # the brief is added to it


def train(plan: Plan, journal: Journal, minutes: float = math.inf) -> int:
    """Carries out a plan, from the journal's last checkpoint if it has one; says after how many updates it stands."""
    torch.manual_seed(plan.seed)  # adapters begin by chance
    learner = LOADERS[plan.backend](plan)
    with ExitStack() as episodes:
        trainer = trainer_of(
            plan, learner, Journaled(journal, minutes), lambda: episodes.enter_context(CompanyOS(plan.url, plan.token))
        )
        kept = journal.resume()
        trainer.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-{kept['update']}" if kept else None)
    journal.publish(learner.save)
    return int(trainer.state.global_step)


def trainer_of(plan: Plan, learner: Learner, journaled: "Journaled", episode: Callable[[], TrlEpisode]) -> GRPOTrainer:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # that environments may change in TRL is known here
    return GRPOTrainer(
        model=learner.model,
        processing_class=learner.tokenizer,
        args=config_of(plan),
        train_dataset=Dataset.from_list(list(rows(plan))),
        environment_factory=episode,
        reward_funcs=[twins, success, invalid],
        callbacks=[journaled],
    )


def rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """The tasks of all updates, in order, each with the twin that is worked beside it."""
    weights = dict.fromkeys(plan.families, 1.0)
    for update in range(plan.updates):
        for lesson in lessons(plan.seed, update, plan.tasks, weights, plan.chaos):
            for task_id in lesson:
                sibling = next((other for other in lesson if other != task_id), "")
                yield {"prompt": _ASKED, "task_id": task_id, "sibling": sibling}


def config_of(plan: Plan) -> GRPOConfig:
    """Advantage is reward minus the group's mean; the loss is a mean over tokens; no KL. As in the lean loop."""
    on_gpu = device_named(plan.device) == "cuda"
    return GRPOConfig(
        output_dir=str(plan.out / "trl"),
        max_steps=plan.updates,
        num_generations=plan.group,
        per_device_train_batch_size=plan.at_once,
        gradient_accumulation_steps=plan.batch // plan.at_once,  # one update for each batch of episodes
        shuffle_dataset=False,  # twins stay side by side
        max_completion_length=plan.tokens,
        max_tool_calling_iterations=plan.most_calls,
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
        save_strategy="no",  # but when the journal says so
    )


# -- rewards beside the score, which TRL has from the episode itself -------------------------------------------------------


def twins(environments: Sequence[TrlEpisode], task_id: list[str], sibling: list[str], **_: Any) -> list[float]:
    """More for a success where more than half of the rollouts of both twins are one.

    Only successes are paid: what a whole group gets alike, nobody in it learns from.
    """
    groups: dict[str, list[bool]] = {}
    for task, episode in zip(task_id, environments, strict=True):
        groups.setdefault(task, []).append(episode.success)
    passed = {task for task, group in groups.items() if 2 * sum(group) > len(group)}
    both = [task in passed and other in passed for task, other in zip(task_id, sibling, strict=True)]
    return [BONUS * (paid and episode.success) for paid, episode in zip(both, environments, strict=True)]


def success(environments: Sequence[TrlEpisode], **_: Any) -> list[float]:
    """Not paid, but looked at."""
    return [float(episode.success) for episode in environments]


def invalid(environments: Sequence[TrlEpisode], **_: Any) -> list[float]:
    """The share of an episode's calls that were none. Not paid, but looked at."""
    return [sum(code in INVALID for code in one.codes) / max(1, len(one.codes)) for one in environments]


# -- journal and checkpoints -----------------------------------------------------------------------------------------------


class Journaled(TrainerCallback):  # type: ignore[misc]
    """Writes updates down in our words, and has TRL make its checkpoints when the journal wants one."""

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
        if "reward" in logs:  # TRL's last words are on the run, not on an update
            self._journal.log({"update": state.global_step, **{ours: logs[theirs] for ours, theirs in _WORDS.items()}})

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The checkpoint is all there: it counts from here on, and those before it go."""
        self._journal.save({"update": state.global_step})
        for folder in Path(str(args.output_dir)).glob("checkpoint-*"):
            if folder.name != f"checkpoint-{state.global_step}":
                shutil.rmtree(folder)


_WORDS = {
    "reward": "reward",
    "score": f"rewards/{CompanyOS.__name__}/mean",
    "success": f"rewards/{success.__name__}/mean",
    "invalid": f"rewards/{invalid.__name__}/mean",
    "turns": "tools/call_frequency",
    "flat": "frac_reward_zero_std",  # groups that teach nothing
    "tokens": "completions/mean_length",
    "cut_short": "completions/clipped_ratio",
    "entropy": "entropy",
    "loss": "loss",
    "gradient": "grad_norm",
    "seconds": "step_time",
}


# -- models ----------------------------------------------------------------------------------------------------------------


def _by_trl(plan: Plan) -> Learner:
    return load(plan.model, device_named(plan.device), "full" if plan.full else "lora")


def _by_unsloth(plan: Plan) -> Learner:
    from unsloth import FastLanguageModel

    length = PROMPT_TOKENS + plan.tokens
    settings = {"max_seq_length": length, "load_in_4bit": False, "full_finetuning": plan.full}
    model, tokenizer = FastLanguageModel.from_pretrained(plan.model, **settings)
    if not plan.full:
        adapter = {"r": LORA_RANK, "lora_alpha": 2 * LORA_RANK, "random_state": plan.seed}
        model = FastLanguageModel.get_peft_model(model, **adapter)
    return Learner(model, tokenizer, plan.model)


PROMPT_TOKENS = 6144  # the tools and the brief take some 4,000 of most tokenizers
LOADERS: dict[str, Callable[[Plan], Learner]] = {"trl": _by_trl, "unsloth": _by_unsloth}
