"""Supervised fine-tuning: a model learns the expert's turns, but not the replies to them and not slips.

An update uses the next `at_once` demonstrations, and all learnt tokens have the same weight. The next update depends only
on the plan, its number and the checkpoint, so a run that was killed continues as if nothing had happened.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

import msgspec
import torch

from companyos.train.data.demonstrations import Demonstration, DemoPlan, LearningWindow, stream
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.model.forward import batch_limit, by_length, log_probabilities
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.decisions import accuracy, decisions
from companyos.train.runs.journal import Journal, Record

_CHECKUP_ROWS = 256  # held-out episodes that are played at the same time


class SftRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of supervised fine-tuning."""

    demonstrations: int = 4000
    times: int = 1  # how often each is shown
    at_once: int = 32  # demonstrations per update
    rate: float = 5e-4
    schedule: str = "cosine"  # or constant
    warm_up: float = 0.05  # share of all updates
    longest_gradient: float = 1.0  # a gradient with a larger norm is scaled down to it
    batch: int = 65536  # tokens in one forward pass on a GPU
    check_every: int = 25  # updates between checkups

    @property
    def updates(self) -> int:
        return math.ceil(self.demonstrations * self.times / self.at_once)

    def rate_at(self, update: int) -> float:
        """Return the learning rate of an update: linear warm-up, then a cosine down to a tenth, or constant."""
        warm_up_updates = max(1, round(self.warm_up * self.updates))
        if update < warm_up_updates:
            return self.rate * (update + 1) / warm_up_updates
        if self.schedule == "constant":
            return self.rate
        share_done = (update - warm_up_updates) / max(1, self.updates - warm_up_updates)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, share_done))))


SCHEDULES = ("cosine", "constant")


class SftTrainer:
    """Trains a model on demonstrations."""

    def __init__(self, learner: Learner, recipe: SftRecipe) -> None:
        self.learner, self.recipe = learner, recipe
        self.done = 0  # number of updates so far
        self.weights = {name: weight for name, weight in learner.model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.0)
        torch.set_float32_matmul_precision("high")  # on a GPU, multiply float32 as TF32

    def update(self, demonstrations: Sequence[Demonstration]) -> Record:
        """Make one update on some demonstrations. Return its log record."""
        begun, rate = time.monotonic(), self.recipe.rate_at(self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        windows = [window for demonstration in demonstrations for window in demonstration.windows if window.spans]
        learnt_tokens = sum(end - start for window in windows for start, end in window.spans)
        loss = torch.zeros((), device=self.learner.device)
        self.learner.model.train()
        for batch in by_length(windows, _length, batch_limit(self.learner.device, self.recipe.batch)):
            batch_loss = -log_probabilities(self.learner.model, [(window.tokens, window.spans) for window in batch]).sum()
            (batch_loss / learnt_tokens).backward()
            loss += batch_loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.longest_gradient)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.done += 1
        all_tokens = sum(map(_length, windows))
        return {
            "update": self.done,
            "demonstrations": self.done * self.recipe.at_once,
            "loss": loss.item() / learnt_tokens,
            "gradient": float(norm),
            "rate": rate,
            "learned_tokens": learnt_tokens,
            "tokens": all_tokens,
            "tokens_per_second": all_tokens / (time.monotonic() - begun),
            "again": sum(demonstration.repeated for demonstration in demonstrations),
            "blind": sum(demonstration.blind for demonstration in demonstrations),
        }

    def state(self) -> Record:
        """Return the state for a checkpoint."""
        weights = {name: weight.detach().cpu() for name, weight in self.weights.items()}
        return {"done": self.done, "weights": weights, "optimizer": self.optimizer.state_dict()}

    def resume(self, state: Record) -> None:
        self.done = state["done"]
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])


def _length(window: LearningWindow) -> int:
    return len(window.tokens)


class Examiner:
    """Measures a model on the held-out tasks of a checkup."""

    def __init__(self, learner: Learner, checkup: Checkup) -> None:
        self._learner, self._checkup = learner, checkup
        self._tokenizer = learner.script_tokenizer()
        self._speaker: Speaker | None = None
        self._decisions = decisions(learner, checkup.pairs)

    def numbers(self) -> Record:
        """Return the numbers of a checkup and the decision accuracy (`runs/decisions.py`)."""
        learner, ids = self._learner, self._checkup.ids
        if self._speaker is None:
            self._speaker = speaker_for(learner, min(_CHECKUP_ROWS, len(ids)))
        else:
            self._speaker.load(learner.model)
        learner.model.eval()
        decision_accuracy = accuracy(learner, self._speaker, self._decisions) if self._decisions else {}
        episodes = (ModelEpisode(task_id, True, self._tokenizer, learner.limit, learner.reserve) for task_id in ids)
        played = rollout(self._speaker, episodes, TimeSpent())
        return {**self._checkup.numbers(episode.env for episode in played), **decision_accuracy}


def train(
    learner: Learner,
    plan: DemoPlan,
    recipe: SftRecipe,
    journal: Journal,
    workers: int,
    minutes: float = math.inf,
    checkup: Checkup | None = None,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
) -> SftTrainer:
    """Train a model, from the journal's checkpoint if there is one, for at most `minutes` in this session."""
    trainer = SftTrainer(learner, recipe)
    state = journal.resume()
    if state is not None:
        trainer.resume(state)
    ends = time.monotonic() + 60 * minutes
    examiner = Examiner(learner, checkup) if checkup is not None else None

    def updates() -> Iterator[Record]:
        first = trainer.done * recipe.at_once
        with closing(stream(plan, learner.tokenizer_json, first, recipe.demonstrations, workers)) as demonstrations:
            while trainer.done < recipe.updates and time.monotonic() < ends:
                record = trainer.update(list(islice(demonstrations, recipe.at_once)))
                if examiner is not None and (trainer.done == recipe.updates or trainer.done % recipe.check_every == 0):
                    record["checkup"] = examiner.numbers()
                yield record

    def save() -> None:
        journal.save(trainer.state())
        journal.publish(learner.save)

    for record in watch(updates(), recipe.updates - trainer.done):
        journal.log(record)
        if journal.due():
            save()
    save()
    return trainer
