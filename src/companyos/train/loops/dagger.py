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
from companyos.train.data.demonstrations import Demonstration, DemoPlan, by_share, stream
from companyos.train.data.labels import DIFFERS, OTHER_WORDS, SAME, EpisodeRecord, Labelled, Labellers, Rules
from companyos.train.decoding.attempts import LOOPED, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, as_they_end
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.loops.sft import SftRecipe, SftTrainer
from companyos.train.model.branches import Branch, Tree, tree_log_probabilities
from companyos.train.model.forward import by_length, fitting
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.decisions import Decision, accuracy, decisions
from companyos.train.runs.journal import Journal, Record

_MANY = 10**9  # demonstrations to choose from: none is shown twice


class DaggerRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of DAgger."""

    families: tuple[str, ...] = STARTER_FAMILIES
    seed: int = 0
    rounds: int = 10
    episodes: int = 512  # per round
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.2), (0.5, 0.8))  # doses and shares of tasks and demonstrations
    rows: int = 512  # episodes that are played at the same time
    loop: int = 4  # equal calls with equal replies after which an episode is cut off
    branches: int = 12  # most branches of an episode
    weight: float = 1.0  # weight of a token of a branch in the loss
    beside: float = 1.0  # demonstrations per episode
    at_once: int = 10  # episodes per update
    rate: float = 5e-5  # low: the model has been trained, and a high rate undoes that
    warm_up: int = 15  # updates
    longest_gradient: float = 1.0
    batch: int = 49152  # tokens in one forward pass on a GPU
    check_every: int = 1  # rounds between measurements of decision accuracy


class DaggerProgress(msgspec.Struct):
    """How far a run is."""

    round: int = 0
    updates: int = 0
    shown: int = 0  # demonstrations so far


def tasks_of(recipe: DaggerRecipe, number: int) -> list[str]:
    """Return the new tasks of a round. Families take turns."""
    found = []
    for place in range(recipe.episodes):
        streams = Streams(f"dagger/{recipe.seed}/{number}/{place}")
        dose = by_share(recipe.doses, streams.at("dose").random())
        name = recipe.families[place % len(recipe.families)]
        found.append(str(task_named(name, streams.at("task").between(0, MAX_SEED), dose)))
    return found


def trees_of(story: EpisodeRecord, labelled: Labelled) -> list[Tree]:
    """Return what is learnt from an episode, a tree for each window."""
    found = []
    for number, (tokens, _) in enumerate(story.windows):
        spans = labelled.spans[number]
        branches = [Branch(twig.at, twig.tokens) for twig in labelled.twigs if twig.window == number]
        end = max([*(end for _, end in spans), *(branch.at for branch in branches)], default=0)
        if end:
            found.append(Tree(tokens[:end], spans, branches))
    return found


class DaggerRun:
    """A run of DAgger."""

    def __init__(self, learner: Learner, recipe: DaggerRecipe, checkup: Checkup | None = None) -> None:
        self.learner, self.recipe = learner, recipe
        self.standing = DaggerProgress()
        self.student = SftTrainer(learner, SftRecipe(rate=recipe.rate))
        self.tokenizer = learner.script_tokenizer()
        self.rules = Rules(learner.working, recipe.branches, recipe.loop - 1, learner.reserve, recipe.seed)
        self.plan = DemoPlan(recipe.families, recipe.doses, 0.0, recipe.seed + 1, learner.limit, working=learner.working)
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
        self, labellers: Labellers, fresh: Iterator[Demonstration], progress: float, until: float = math.inf
    ) -> Record:
        """Play, label and learn once. Return the log record. `progress` is the share of the run that is over."""
        spent, number = TimeSpent(), self.standing.round
        torch.manual_seed(self.recipe.seed * 1_000_003 + number)
        speaker = self.speaker()
        checked = self._decisions if number % self.recipe.check_every == 0 else []
        record: Record = {"update": number, **(accuracy(self.learner, speaker, checked) if checked else {})}
        played, asked = list[BoundedEpisode](), list[Future[Labelled]]()
        for _, one in as_they_end(speaker, self._attempts(number, until), spent):
            played.append(one)
            asked.append(labellers.label(one.story()))
        rolled = spent.wall
        labelled = [future.result() for future in asked]
        record |= _seen(played, labelled)
        record["rollout_seconds"], record["label_seconds"] = round(rolled, 3), round(spent.wall - rolled, 3)
        record["tokens_per_second"], record["episodes_per_second"] = spent.tokens / rolled, len(played) / rolled
        record["ours"] = {kind: seconds / rolled for kind, seconds in spent.seconds.items()}
        order = sorted(zip(played, labelled, strict=True), key=lambda both: both[0].task_id)
        record |= self.learn([trees_of(one.story(), found) for one, found in order], fresh, progress)
        record["seconds"] = round(spent.wall, 3)
        self.standing.round += 1
        return record

    def _attempts(self, number: int, until: float) -> Iterator[BoundedEpisode]:
        learner, recipe = self.learner, self.recipe
        for place, task_id in enumerate(tasks_of(recipe, number)):
            greedy = place // len(recipe.families) % 2 == 0
            one = BoundedEpisode(task_id, greedy, self.tokenizer, learner.limit, learner.reserve)
            one.loop, one.lost, one.until = recipe.loop, True, until
            yield one

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, episodes: Sequence[list[Tree]], fresh: Iterator[Demonstration], progress: float) -> Record:
        """Learn from every episode of a round once, together with demonstrations."""
        recipe, standing = self.recipe, self.standing
        order = Streams(f"dagger/{recipe.seed}/{standing.round}/order")
        shuffled = sorted(range(len(episodes)), key=lambda n: order.at(n).random())
        made: list[dict[str, float]] = []
        for first in range(0, len(shuffled), recipe.at_once):
            some = [episodes[n] for n in shuffled[first : first + recipe.at_once]]
            beside = list(islice(fresh, round(recipe.beside * len(some))))
            standing.shown += len(beside)
            windows = [Tree(one.tokens, one.calls) for shown in beside for one in shown.windows if one.calls]
            passed = progress + first / (len(shuffled) * recipe.rounds)
            made.append(self.update([*(tree for trees in some for tree in trees), *windows], passed))
            standing.updates += 1
        sums: Counter[str] = Counter()
        for one in made:
            sums.update(one)
        return {
            "updates": len(made),
            "loss": sums["loss"] / max(1.0, sums["learnt"]),
            "loss_branches": sums["loss_branches"] / max(1.0, sums["branched"]),
            "learned_tokens": int(sums["learnt"] + sums["branched"]),
            "branch_tokens": int(sums["branched"]),
            "tokens": int(sums["tokens"]),
            "gradient": sums["gradient"] / max(1, len(made)),
            "rate": made[-1]["rate"] if made else 0.0,
            "demonstrations": standing.shown,
        }

    def update(self, trees: Sequence[Tree], progress: float) -> dict[str, float]:
        """Make one step on the mean loss over all learnt tokens. Tokens of branches have the weight `recipe.weight`."""
        recipe, student, device = self.recipe, self.student, self.learner.device
        warm = min(1.0, (self.standing.updates + 1) / recipe.warm_up)
        rate = recipe.rate * warm * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        for group in student.optimizer.param_groups:
            group["lr"] = rate
        learnt, branched = sum(tree.learnt for tree in trees), sum(tree.branched for tree in trees)
        whole, sums = learnt + recipe.weight * branched, torch.zeros(2, device=device)
        self.learner.model.train()
        for some in by_length(trees, _burden, fitting(device, recipe.batch)):
            stems, twigs = tree_log_probabilities(self.learner.model, some)
            parts = torch.stack((-stems.sum(), -twigs.sum()))
            ((parts[0] + recipe.weight * parts[1]) / whole).backward()
            sums += parts.detach()
        norm = torch.nn.utils.clip_grad_norm_(student.weights.values(), recipe.longest_gradient)
        student.optimizer.step()
        student.optimizer.zero_grad(set_to_none=True)
        lost, lost_on_branches = sums.tolist()
        return {
            "loss": lost, "loss_branches": lost_on_branches, "learnt": learnt, "branched": branched, "rate": rate,
            "gradient": float(norm), "tokens": sum(tree.size for tree in trees),
        }  # fmt: skip

    # -- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> Record:
        """Return the state for a checkpoint."""
        return {"standing": msgspec.to_builtins(self.standing), "student": self.student.state()}

    def resume(self, state: Record) -> None:
        self.standing = msgspec.convert(state["standing"], DaggerProgress)
        self.student.resume(state["student"])


def _burden(tree: Tree) -> int:
    """Return the tokens of a tree by their memory: a key that is copied for a branch counts as a twelfth of a token."""
    return tree.size + sum(branch.at for branch in tree.branches) // 12


def _seen(played: Sequence[BoundedEpisode], labelled: Sequence[Labelled]) -> Record:
    """Return the log numbers of the episodes of a round."""
    counts: Counter[str] = Counter()
    for one in labelled:
        counts.update(one.counts)
    families: dict[str, list[bool]] = {}
    for attempt in played:
        families.setdefault(TaskId.parse(attempt.task_id).family, []).append(bool(attempt.env.success))
    greedy, sampled = ([bool(one.env.success) for one in played if one.greedy == how] for how in (True, False))
    states = max(1, counts["states"])
    return {
        "success": fmean(bool(one.env.success) for one in played),
        "success_greedy": fmean(greedy) if greedy else None,
        "success_sampled": fmean(sampled) if sampled else None,
        "families": {name: fmean(won) for name, won in sorted(families.items())},
        "agreement": (counts[SAME] + counts[OTHER_WORDS]) / states,
        "differs": counts[DIFFERS],
        "labels": dict(sorted(counts.items())),
        "branches": sum(len(one.twigs) for one in labelled),
        "ended": dict(sorted(Counter(one.ended for one in played).items())),
        "loops": sum(one.ended == "loop" or one.most_alike >= LOOPED for one in played),
        "turns": fmean(len(one.lines) for one in played),
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
        standing, recipe = dagger.standing, dagger.recipe
        last, longest = begun, 0.0
        with closing(stream(dagger.plan, dagger.learner.tokenizer_json, standing.shown, _MANY, workers)) as fresh:
            while dagger.standing.round < recipe.rounds and last + longest - begun <= minutes * 60:
                passed = (clock() - begun) / (60 * minutes)
                progress = max(passed, dagger.standing.round / recipe.rounds)
                yield dagger.round(labellers, fresh, progress, begun + 60 * minutes)
                longest, last = max(longest, clock() - last), clock()

    try:
        for record in watch(rounds(), dagger.recipe.rounds - dagger.standing.round):
            journal.log(record)
            journal.save(dagger.state())
            journal.publish(dagger.learner.save)
    finally:
        labellers.close()
