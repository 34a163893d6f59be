"""DAgger: a model works tasks in its own way, an expert says at every state what it would do, and that is learnt.

A round: fresh tasks of the train split are played, half of them greedily and half of them sampled. Every state is labelled
by the resuming expert, on other processes, while other tasks are still being played. Then come updates on these episodes,
with as many fresh demonstrations beside them. A run that was killed goes on from the last round that it has finished.
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
from companyos.train.data.demonstrations import Demonstration, Plan, by_share, stream
from companyos.train.data.labels import DIFFERS, OTHER_WORDS, SAME, Labelled, Labellers, Rules, Story
from companyos.train.decoding.attempts import LOOPED, Attempt
from companyos.train.decoding.rollout import Spent, Tongue, as_they_end
from companyos.train.decoding.speakers import Speaker, speaker_for
from companyos.train.loops.sft import Recipe as Rate
from companyos.train.loops.sft import Student
from companyos.train.model.branches import Branch, Tree, tree_log_probabilities
from companyos.train.model.forward import by_length, fitting
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.decisions import Decision, accuracy, decisions
from companyos.train.runs.journal import Journal, Record

_MANY = 10**9  # demonstrations, which never come round again


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to learn."""

    families: tuple[str, ...] = STARTER_FAMILIES
    seed: int = 0
    rounds: int = 10
    episodes: int = 512  # of a round
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.2), (0.5, 0.8))  # with their shares, of tasks and demonstrations
    rows: int = 512  # episodes that are at work at once
    loop: int = 4  # an attempt with so many equal calls that had equal replies is cut off
    branches: int = 12  # of an episode
    weight: float = 1.0  # of a token of a branch
    beside: float = 1.0  # demonstrations for each episode
    at_once: int = 10  # episodes of an update
    rate: float = 5e-5
    warm_up: int = 15  # updates
    longest_gradient: float = 1.0
    batch: int = 49152  # tokens that go through a GPU at once
    check_every: int = 1  # rounds


class Standing(msgspec.Struct):
    """What a run has come to, beside weights."""

    round: int = 0
    updates: int = 0
    shown: int = 0  # demonstrations


def tasks_of(recipe: Recipe, number: int) -> list[str]:
    """The fresh tasks of a round, families taking turns."""
    found = []
    for place in range(recipe.episodes):
        streams = Streams(f"dagger/{recipe.seed}/{number}/{place}")
        dose = by_share(recipe.doses, streams.at("dose").random())
        name = recipe.families[place % len(recipe.families)]
        found.append(str(task_named(name, streams.at("task").between(0, MAX_SEED), dose)))
    return found


def trees_of(story: Story, labelled: Labelled) -> list[Tree]:
    """What is learnt of an episode, window by window."""
    found = []
    for number, (tokens, _) in enumerate(story.windows):
        spans = labelled.spans[number]
        branches = [Branch(twig.at, twig.tokens) for twig in labelled.twigs if twig.window == number]
        end = max([*(end for _, end in spans), *(branch.at for branch in branches)], default=0)
        if end:
            found.append(Tree(tokens[:end], spans, branches))
    return found


class Dagger:
    """A run: a model, how it learns, and what it has come to."""

    def __init__(self, learner: Learner, recipe: Recipe, checkup: Checkup | None = None) -> None:
        self.learner, self.recipe = learner, recipe
        self.standing = Standing()
        self.student = Student(learner, Rate(rate=recipe.rate))
        self.tongue = Tongue(learner)
        self.tokenizer: str = learner.tokenizer.backend_tokenizer.to_str()
        self.rules = Rules(learner.working, recipe.branches, recipe.loop - 1, learner.reserve, recipe.seed)
        self.plan = Plan(recipe.families, recipe.doses, 0.0, recipe.seed + 1, learner.limit, working=learner.working)
        self._decisions: list[Decision] = decisions(learner, checkup.pairs) if checkup else []
        self._speaker: Speaker | None = None

    def speaker(self) -> Speaker:
        """Whoever speaks for the model as it is now."""
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
        """Plays, labels and learns once; gives what is to be logged. `progress` is the share of the run that is over."""
        spent, number = Spent(), self.standing.round
        torch.manual_seed(self.recipe.seed * 1_000_003 + number)
        speaker = self.speaker()
        checked = self._decisions if number % self.recipe.check_every == 0 else []
        record: Record = {"update": number, **(accuracy(self.learner, speaker, checked) if checked else {})}
        played, asked = list[Attempt](), list[Future[Labelled]]()
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

    def _attempts(self, number: int, until: float) -> Iterator[Attempt]:
        learner, recipe = self.learner, self.recipe
        for place, task_id in enumerate(tasks_of(recipe, number)):
            greedy = place // len(recipe.families) % 2 == 0
            one = Attempt(task_id, greedy, self.tongue, learner.limit, learner.reserve)
            one.loop, one.lost, one.until = recipe.loop, True, until
            yield one

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, episodes: Sequence[list[Tree]], fresh: Iterator[Demonstration], progress: float) -> Record:
        """Every episode of a round once, with demonstrations beside it."""
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
        """One step on the mean loss over all tokens that are learnt; those of branches weigh `weight` times as much."""
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

    # -- what a checkpoint holds -----------------------------------------------------------------------------------

    def state(self) -> Record:
        """What a run goes on from."""
        return {"standing": msgspec.to_builtins(self.standing), "student": self.student.state()}

    def resume(self, state: Record) -> None:
        self.standing = msgspec.convert(state["standing"], Standing)
        self.student.resume(state["student"])


def _burden(tree: Tree) -> int:
    """Tokens that take up memory: what a branch looks at is copied, about a twelfth of what a token takes."""
    return tree.size + sum(branch.at for branch in tree.branches) // 12


def _seen(played: Sequence[Attempt], labelled: Sequence[Labelled]) -> Record:
    """What the attempts of a round came to."""
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
    dagger: Dagger,
    journal: Journal,
    workers: int,
    minutes: float = math.inf,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Goes on from where a journal stands until all rounds are made, or until the next would not be over in time."""
    state = journal.resume()
    if state is not None:
        dagger.resume(state)
    begun = clock()
    labellers = Labellers(workers, dagger.rules, dagger.tokenizer)

    def rounds() -> Iterator[Record]:
        standing, recipe = dagger.standing, dagger.recipe
        last, longest = begun, 0.0
        with closing(stream(dagger.plan, dagger.tokenizer, standing.shown, _MANY, workers)) as fresh:
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
