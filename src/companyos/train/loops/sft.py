"""Supervised fine-tuning: a model learns what an expert would have said, and only that: not what it was answered, nor slips.

An update takes the next so many demonstrations, and all tokens that are learnt from them weigh alike. What comes next is a
function of the plan, the number of the update and what a checkpoint holds, so a run that was killed goes on as if it had not
been.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

import msgspec
import torch

from companyos.train.data.demonstrations import Demonstration, Plan, Window, stream
from companyos.train.decoding.rollout import Played, Spent, Tongue, rollout
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.model.forward import by_length, fitting, log_probabilities
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.decisions import accuracy, decisions
from companyos.train.runs.journal import Journal, Record

_ROWS = 256  # held-out episodes that are played at once


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to learn."""

    demonstrations: int = 4000
    times: int = 1  # that each is shown
    at_once: int = 32  # demonstrations of an update
    rate: float = 5e-4
    schedule: str = "cosine"  # or constant
    warm_up: float = 0.05  # of all updates
    longest_gradient: float = 1.0
    batch: int = 65536  # tokens that go through a GPU at once
    check_every: int = 25  # updates

    @property
    def updates(self) -> int:
        return math.ceil(self.demonstrations * self.times / self.at_once)

    def rate_at(self, update: int) -> float:
        """The learning rate of an update: up in a line, then down a cosine to a tenth, or level."""
        warm = max(1, round(self.warm_up * self.updates))
        if update < warm:
            return self.rate * (update + 1) / warm
        if self.schedule == "constant":
            return self.rate
        done = (update - warm) / max(1, self.updates - warm)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


SCHEDULES = ("cosine", "constant")


class Student:
    """A model that is shown how it is done."""

    def __init__(self, learner: Learner, recipe: Recipe) -> None:
        self.learner, self.recipe = learner, recipe
        self.done = 0  # updates
        self.weights = {name: weight for name, weight in learner.model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.0)
        torch.set_float32_matmul_precision("high")  # a GPU multiplies float32 in TF32; a processor as ever

    def update(self, shown: Sequence[Demonstration]) -> Record:
        """Learns from some demonstrations. Gives what is to be logged of it."""
        begun, rate = time.monotonic(), self.recipe.rate_at(self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        windows = [window for one in shown for window in one.windows if window.calls]
        learnt = sum(end - start for window in windows for start, end in window.calls)
        loss = torch.zeros((), device=self.learner.device)
        self.learner.model.train()
        for some in by_length(windows, _length, fitting(self.learner.device, self.recipe.batch)):
            found = -log_probabilities(self.learner.model, [(window.tokens, window.calls) for window in some]).sum()
            (found / learnt).backward()
            loss += found.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.longest_gradient)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.done += 1
        read = sum(map(_length, windows))
        return {
            "update": self.done,
            "demonstrations": self.done * self.recipe.at_once,
            "loss": loss.item() / learnt,
            "gradient": float(norm),
            "rate": rate,
            "learned_tokens": learnt,
            "tokens": read,
            "tokens_per_second": read / (time.monotonic() - begun),
            "again": sum(one.again for one in shown),
            "blind": sum(one.blind for one in shown),
        }

    def state(self) -> Record:
        """What a run goes on from."""
        weights = {name: weight.detach().cpu() for name, weight in self.weights.items()}
        return {"done": self.done, "weights": weights, "optimizer": self.optimizer.state_dict()}

    def resume(self, state: Record) -> None:
        self.done = state["done"]
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])


def _length(window: Window) -> int:
    return len(window.tokens)


class Examiner:
    """Has a model play held-out tasks, as it would in any loop."""

    def __init__(self, learner: Learner, checkup: Checkup) -> None:
        self._learner, self._checkup = learner, checkup
        self._tongue = Tongue(learner)
        self._speaker: Speaker | None = None
        self._decisions = decisions(learner, checkup.pairs)

    def numbers(self) -> Record:
        """The numbers of a checkup, and how often it decides as the expert does where twins part."""
        learner, ids = self._learner, self._checkup.ids
        if self._speaker is None:
            rows = min(_ROWS, len(ids))
            self._speaker = speaker_for(learner, rows)
        else:
            self._speaker.load(learner.model)
        learner.model.eval()
        decided = accuracy(learner, self._speaker, self._decisions) if self._decisions else {}
        episodes = (Played(task_id, True, self._tongue, learner.limit, learner.reserve) for task_id in ids)
        return {**self._checkup.numbers(one.env for one in rollout(self._speaker, episodes, Spent())), **decided}


def train(
    learner: Learner,
    plan: Plan,
    recipe: Recipe,
    journal: Journal,
    workers: int,
    minutes: float = math.inf,
    checkup: Checkup | None = None,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
) -> Student:
    """Shows a model so many demonstrations, or as many as there is time for in this sitting; goes on where it stood."""
    student = Student(learner, recipe)
    state = journal.resume()
    if state is not None:
        student.resume(state)
    ends = time.monotonic() + 60 * minutes
    examiner = Examiner(learner, checkup) if checkup is not None else None

    def updates() -> Iterator[Record]:
        first = student.done * recipe.at_once
        tokenizer = learner.tokenizer.backend_tokenizer.to_str()
        with closing(stream(plan, tokenizer, first, recipe.demonstrations, workers)) as shown:
            while student.done < recipe.updates and time.monotonic() < ends:
                record = student.update(list(islice(shown, recipe.at_once)))
                if examiner is not None and (student.done == recipe.updates or student.done % recipe.check_every == 0):
                    record["checkup"] = examiner.numbers()
                yield record

    def save() -> None:
        journal.save(student.state())
        journal.publish(learner.save)

    for record in watch(updates(), recipe.updates - student.done):
        journal.log(record)
        if journal.due():
            save()
    save()
    return student
