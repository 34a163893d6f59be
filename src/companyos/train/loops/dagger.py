"""DAgger: a model plays tasks, the expert labels every state with what it would do there, and the model learns the labels.

In a round, the model plays new tasks of the train split, half of them greedily and half sampled. The resuming expert labels
every state, on other processes, while other tasks are still being played. Then the model is trained on these episodes and
on new demonstrations. A run that was killed continues after its last finished round.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from statistics import fmean

import msgspec
import torch

from companyos.core.task import MAX_SEED, TaskId
from companyos.core.world import Streams
from companyos.env import task_named
from companyos.families import STARTER_FAMILIES
from companyos.train.data.demonstrations import Demonstration, DemoPlan, dose_at, stream
from companyos.train.data.labels import DIFFERS, OTHER_WORDS, SAME, EpisodeRecord, Labelled, Labellers, LabelRules
from companyos.train.decoding.attempts import LOOP, LOOP_CALLS, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, as_they_end
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.loops.sft import SftRecipe, SftTrainer
from companyos.train.model.branches import Branch, Tree, tree_log_probabilities
from companyos.train.model.forward import batch_limit, by_length
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.decisions import Decision, accuracy, decisions
from companyos.train.runs.journal import Journal, Record

_DEMONSTRATIONS = 10**9  # to choose from: so many that none is shown twice


class DaggerRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of DAgger."""

    families: tuple[str, ...] = STARTER_FAMILIES
    seed: int = 0
    rounds: int = 10
    episodes: int = 512  # per round
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.2), (0.5, 0.8))  # doses and shares of tasks and demonstrations
    rows: int = 512  # episodes that are played at the same time
    loop: int = 4  # equal calls with equal replies after which an episode is cut off
    branches: int = 12  # most branches of an episode: the expert's turns where the model's turn was another (`branches.py`)
    weight: float = 1.0  # weight of a token of a branch in the loss
    beside: float = 1.0  # demonstrations per episode
    at_once: int = 10  # episodes per update
    rate: float = 5e-5  # low: the model has been trained, and a high rate undoes that
    warm_up: int = 15  # updates
    longest_gradient: float = 1.0  # a gradient with a larger norm is scaled down to it
    batch: int = 49152  # tokens in one forward pass on a GPU
    check_every: int = 1  # rounds between measurements of decision accuracy


class DaggerProgress(msgspec.Struct):
    """How far a run is."""

    round: int = 0
    updates: int = 0
    shown: int = 0  # demonstrations so far


def tasks_of(recipe: DaggerRecipe, round_number: int) -> list[str]:
    """Return the new tasks of a round. Families take turns."""
    tasks = []
    for index in range(recipe.episodes):
        streams = Streams(f"dagger/{recipe.seed}/{round_number}/{index}")
        dose = dose_at(recipe.doses, streams.at("dose").random())
        name = recipe.families[index % len(recipe.families)]
        tasks.append(str(task_named(name, streams.at("task").between(0, MAX_SEED), dose)))
    return tasks


def trees_of(episode: EpisodeRecord, labelled: Labelled) -> list[Tree]:
    """Return what is learnt from an episode, a tree for each window of its script."""
    trees = []
    for index, (tokens, _) in enumerate(episode.windows):
        spans = labelled.spans[index]
        branches = [Branch(branch.at, branch.tokens) for branch in labelled.branches if branch.window == index]
        end = max([*(end for _, end in spans), *(branch.at for branch in branches)], default=0)
        if end:
            trees.append(Tree(tokens[:end], spans, branches))
    return trees


class DaggerRun:
    """A run of DAgger."""

    def __init__(self, learner: Learner, recipe: DaggerRecipe, checkup: Checkup | None = None) -> None:
        self.learner, self.recipe = learner, recipe
        self.progress = DaggerProgress()
        self.trainer = SftTrainer(learner, SftRecipe(rate=recipe.rate))
        self.tokenizer = learner.script_tokenizer()
        self.rules = LabelRules(
            working=learner.working,
            branches=recipe.branches,
            loop=recipe.loop - 1,
            reserve=learner.reserve,
            seed=recipe.seed,
        )
        self.plan = DemoPlan(
            recipe.families,
            recipe.doses,
            slips=0.0,
            seed=recipe.seed + 1,
            limit=learner.limit,
            working=learner.working,
        )
        self._decisions: list[Decision] = decisions(learner, checkup.pairs) if checkup else []
        self._speaker: Speaker | None = None

    def speaker(self) -> Speaker:
        """Return a speaker with the present weights of the model."""
        if self._speaker is None:
            self._speaker = speaker_for(self.learner, min(self.recipe.rows, self.recipe.episodes))
        else:
            self._speaker.load(self.learner.model)
        self.learner.model.eval()
        return self._speaker

    # -- a round ---------------------------------------------------------------------------------------------------

    def round(
        self, labellers: Labellers, fresh: Iterator[Demonstration], share_done: float, until: float = math.inf
    ) -> Record:
        """Play, label and learn once. Return the log record. `share_done` is the share of the run that is over."""
        spent, round_number = TimeSpent(), self.progress.round
        torch.manual_seed(self.recipe.seed * 1_000_003 + round_number)
        speaker = self.speaker()
        checked = self._decisions if round_number % self.recipe.check_every == 0 else []
        record: Record = {"update": round_number, **(accuracy(self.learner, speaker, checked) if checked else {})}
        played, futures = list[BoundedEpisode](), list[Future[Labelled]]()
        for _, episode in as_they_end(speaker, self._attempts(round_number, until), spent):
            played.append(episode)
            futures.append(labellers.label(episode.record()))
        rollout_seconds = spent.wall
        labelled = [future.result() for future in futures]
        record |= _rollout_numbers(played, labelled)
        record["rollout_seconds"] = round(rollout_seconds, 3)
        record["label_seconds"] = round(spent.wall - rollout_seconds, 3)
        record["tokens_per_second"] = spent.tokens / rollout_seconds
        record["episodes_per_second"] = len(played) / rollout_seconds
        record["ours"] = {kind: seconds / rollout_seconds for kind, seconds in spent.seconds.items()}
        # Episodes end in any order; sorted, the same run learns in the same order.
        by_task = sorted(zip(played, labelled, strict=True), key=lambda pair: pair[0].task_id)
        record |= self.learn([trees_of(episode.record(), labels) for episode, labels in by_task], fresh, share_done)
        record["seconds"] = round(spent.wall, 3)
        self.progress.round += 1
        return record

    def _attempts(self, round_number: int, until: float) -> Iterator[BoundedEpisode]:
        """Yield the episodes of a round. In each family, greedy and sampled ones take turns."""
        learner, recipe = self.learner, self.recipe
        for index, task_id in enumerate(tasks_of(recipe, round_number)):
            greedy = index // len(recipe.families) % 2 == 0
            episode = BoundedEpisode(task_id, greedy, self.tokenizer, learner.limit, learner.reserve)
            episode.max_repeats, episode.stop_when_lost, episode.until = recipe.loop, True, until
            yield episode

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, episodes: Sequence[list[Tree]], fresh: Iterator[Demonstration], share_done: float) -> Record:
        """Learn from every episode of a round once, together with the next demonstrations of `fresh`."""
        recipe, progress = self.recipe, self.progress
        order = Streams(f"dagger/{recipe.seed}/{progress.round}/order")
        shuffled = sorted(range(len(episodes)), key=lambda index: order.at(index).random())
        updates: list[dict[str, float]] = []  # the numbers of each
        for first in range(0, len(shuffled), recipe.at_once):
            batch = [episodes[index] for index in shuffled[first : first + recipe.at_once]]
            demonstrations = list(islice(fresh, round(recipe.beside * len(batch))))
            progress.shown += len(demonstrations)
            windows = [window for demonstration in demonstrations for window in demonstration.windows if window.spans]
            trees = [tree for trees_of_episode in batch for tree in trees_of_episode]
            trees += [Tree(window.tokens, window.spans) for window in windows]
            updates.append(self.update(trees, share_done + first / (len(shuffled) * recipe.rounds)))
            progress.updates += 1
        sums: Counter[str] = Counter()
        for numbers in updates:
            sums.update(numbers)
        return {
            "updates": len(updates),
            "loss": sums["loss"] / max(1.0, sums["learnt"]),
            "loss_branches": sums["loss_branches"] / max(1.0, sums["branched"]),
            "learned_tokens": int(sums["learnt"] + sums["branched"]),
            "branch_tokens": int(sums["branched"]),
            "tokens": int(sums["tokens"]),
            "gradient": sums["gradient"] / max(1, len(updates)),
            "rate": updates[-1]["rate"] if updates else 0.0,
            "demonstrations": progress.shown,
        }

    def update(self, trees: Sequence[Tree], share_done: float) -> dict[str, float]:
        """Make one step on the mean loss over all learnt tokens. Tokens of branches have the weight `recipe.weight`."""
        recipe, trainer, device = self.recipe, self.trainer, self.learner.device
        warm_up = min(1.0, (self.progress.updates + 1) / recipe.warm_up)
        rate = recipe.rate * warm_up * 0.5 * (1 + math.cos(math.pi * min(1.0, share_done)))
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        span_tokens, branch_tokens = sum(tree.learnt_tokens for tree in trees), sum(tree.branch_tokens for tree in trees)
        total_weight, sums = span_tokens + recipe.weight * branch_tokens, torch.zeros(2, device=device)
        self.learner.model.train()
        for batch in by_length(trees, _memory_tokens, batch_limit(device, recipe.batch)):
            span_logprobs, branch_logprobs = tree_log_probabilities(self.learner.model, batch)
            losses = torch.stack((-span_logprobs.sum(), -branch_logprobs.sum()))
            ((losses[0] + recipe.weight * losses[1]) / total_weight).backward()
            sums += losses.detach()
        norm = torch.nn.utils.clip_grad_norm_(trainer.weights.values(), recipe.longest_gradient)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        span_loss, branch_loss = sums.tolist()
        return {
            "loss": span_loss,
            "loss_branches": branch_loss,
            "learnt": span_tokens,
            "branched": branch_tokens,
            "rate": rate,
            "gradient": float(norm),
            "tokens": sum(tree.size for tree in trees),
        }

    # -- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> Record:
        """Return the state for a checkpoint."""
        return {"standing": msgspec.to_builtins(self.progress), "student": self.trainer.state()}

    def resume(self, state: Record) -> None:
        self.progress = msgspec.convert(state["standing"], DaggerProgress)
        self.trainer.resume(state["student"])


def _memory_tokens(tree: Tree) -> int:
    """Return the memory that a tree takes, in tokens. A key that is copied for a branch counts as a twelfth of a token."""
    return tree.size + sum(branch.at for branch in tree.branches) // 12


def _rollout_numbers(played: Sequence[BoundedEpisode], labelled: Sequence[Labelled]) -> Record:
    """Return the log numbers of the episodes of a round."""
    counts: Counter[str] = Counter()
    for labels in labelled:
        counts.update(labels.counts)
    families: dict[str, list[bool]] = {}
    for episode in played:
        families.setdefault(TaskId.parse(episode.task_id).family, []).append(bool(episode.env.success))
    greedy = [bool(episode.env.success) for episode in played if episode.greedy]
    sampled = [bool(episode.env.success) for episode in played if not episode.greedy]
    states = max(1, counts["states"])
    return {
        "success": fmean([*greedy, *sampled]),
        "success_greedy": fmean(greedy) if greedy else None,
        "success_sampled": fmean(sampled) if sampled else None,
        "families": {name: fmean(successes) for name, successes in sorted(families.items())},
        "agreement": (counts[SAME] + counts[OTHER_WORDS]) / states,
        "differs": counts[DIFFERS],
        "labels": dict(sorted(counts.items())),
        "branches": sum(len(labels.branches) for labels in labelled),
        "ended": dict(sorted(Counter(episode.ended for episode in played).items())),
        "loops": sum(episode.ended == LOOP or episode.highest_count >= LOOP_CALLS for episode in played),
        "turns": fmean(len(episode.lines) for episode in played),
    }


# -- the loop ----------------------------------------------------------------------------------------------------------


def run(
    dagger: DaggerRun,
    journal: Journal,
    workers: int,
    minutes: float = math.inf,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run all rounds, from the journal's checkpoint if there is one. Stop when the next round would exceed `minutes`."""
    state = journal.resume()
    if state is not None:
        dagger.resume(state)
    begun = clock()
    labellers = Labellers(workers, dagger.rules, dagger.learner.tokenizer_json)

    def rounds() -> Iterator[Record]:
        progress, recipe = dagger.progress, dagger.recipe
        last, longest = begun, 0.0
        with closing(stream(dagger.plan, dagger.learner.tokenizer_json, progress.shown, _DEMONSTRATIONS, workers)) as fresh:
            while dagger.progress.round < recipe.rounds and last + longest - begun <= minutes * 60:
                share_done = max((clock() - begun) / (60 * minutes), dagger.progress.round / recipe.rounds)
                yield dagger.round(labellers, fresh, share_done, until=begun + 60 * minutes)
                longest, last = max(longest, clock() - last), clock()

    try:
        for record in watch(rounds(), dagger.recipe.rounds - dagger.progress.round):
            journal.log(record)
            journal.save(dagger.state())
            journal.publish(dagger.learner.save)
    finally:
        labellers.close()
