"""GRPO: a model learns from its own attempts, by how each compares with the others at the same task. The lean loop, whole.

An update: some tasks, half of them twins; a group of attempts at each; the score of each attempt, and more where twins are
told apart; its advantage, which is that less its group's mean; a step on the tokens of all calls, no further than the clip
allows. No critic, no reference model. What comes next is a function of the seed, the number of the update and what a
checkpoint holds, so a run that was killed goes on as if it had not been.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

import msgspec
import torch

from companyos.core.calls import BAD_ACTION, BAD_ARGUMENTS, UNKNOWN_TOOL
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import judge
from companyos.families import STARTER_FAMILIES
from companyos.train.data.script import RESERVE
from companyos.train.data.tasks import Lesson, lessons
from companyos.train.data.turns import LINES, ROOM
from companyos.train.decoding.rollout import Played, Spent, Tongue, Window, rollout
from companyos.train.decoding.speakers import Speaker, speaker_of
from companyos.train.model.forward import by_length, fitting, log_probabilities
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.journal import Journal, Record

_INVALID = (BAD_ACTION, BAD_ARGUMENTS, UNKNOWN_TOOL)
_FURTHEST = 20.0  # in log probability: beyond that the clip has long held it, and numbers would overflow
_JUDGED = 4  # one attempt at every so many tasks
_LEAST_WEIGHT = 0.05  # of a family in which all goes well


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to learn."""

    families: tuple[str, ...] = STARTER_FAMILIES
    seed: int = 0
    tasks: int = 64  # of an update
    group: int = 16  # attempts at each
    doses: tuple[float, ...] = (0.25, 0.5)  # each until `good` of its attempts succeed
    good: float = 0.6
    reward: str = "score"
    bonus: float = 0.2  # for a success, where more than half of the attempts at both twins are
    rate: float = 1e-4
    clip: tuple[float, float] = (0.2, 0.28)
    steps: int = 1  # of an update, each on its share of the groups
    longest_gradient: float = 1.0
    batch: int = 32768  # tokens that go through a GPU at once
    rows: int = 1024  # episodes that are at work at once
    patience: int = 0  # how often an attempt may say one line before it is given up, unpaid; 0: as often as it likes
    reserve: int = RESERVE  # tokens that a call may have; working may have more
    check_every: int = 10  # updates


class Standing(msgspec.Struct):
    """What a run has come to, beside weights."""

    update: int = 0
    rung: int = 0  # which of the doses
    success: dict[str, float] = {}  # of the latest attempts, by family


class Group(msgspec.Struct):
    """The attempts at one task, and what each was worth."""

    task_id: str
    attempts: list[Played]
    rewards: list[float]

    @property
    def success(self) -> float:
        return fmean(bool(one.env.success) for one in self.attempts)

    @property
    def advantages(self) -> list[float]:
        mean = fmean(self.rewards)
        return [reward - mean for reward in self.rewards]

    @property
    def teaches(self) -> bool:
        """Whether any attempt was better than another."""
        return max(self.rewards) > min(self.rewards)


class Sample(msgspec.Struct, frozen=True):
    """A window, and how much better its episode was than others."""

    window: Window
    advantage: float

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where in its tokens the drawn ones stand."""
        return [(start, start + len(logprobs)) for start, logprobs in self.window.calls]

    def __len__(self) -> int:
        return len(self.window.tokens)


# -- what attempts are worth -------------------------------------------------------------------------------------------


def grouped(plan: Sequence[Lesson], attempts: Sequence[Played], bonus: float) -> list[Group]:
    """The groups of an update, from attempts in the order of its tasks."""
    size = len(attempts) // sum(map(len, plan))
    rest = iter(attempts)
    groups: list[Group] = []
    for lesson in plan:
        some = [[next(rest) for _ in range(size)] for _ in lesson]
        found = [Group(task_id, ones, [one.total for one in ones]) for task_id, ones in zip(lesson, some, strict=True)]
        if len(found) > 1 and all(group.success > 0.5 for group in found):
            for group in found:  # one that all of a group got would be gone from its advantages
                group.rewards = [
                    r + bonus * bool(one.env.success) for r, one in zip(group.rewards, group.attempts, strict=True)
                ]
        groups += found
    return groups


def samples_of(groups: Sequence[Group]) -> list[Sample]:
    return [
        Sample(window, advantage)
        for group in groups
        for attempt, advantage in zip(group.attempts, group.advantages, strict=True)
        for window in attempt.windows
    ]


# -- what a model learns from them -------------------------------------------------------------------------------------


def loss_of(model: Any, samples: Sequence[Sample], clip: tuple[float, float]) -> tuple[Any, Any]:
    """The clipped loss of samples, summed over the tokens of their calls; and, of these, how many moved as far as they may
    and by how much in all their log probabilities are not those at which they were drawn."""
    likely = log_probabilities(model, [(sample.window.tokens, sample.spans) for sample in samples])
    drawn = [(logprob, s.advantage) for s in samples for _, logprobs in s.window.calls for logprob in logprobs]
    before, worth = torch.tensor(drawn, device=likely.device).unbind(1)
    apart = likely - before
    ratio = apart.clamp(-_FURTHEST, _FURTHEST).exp()
    low, high = clip
    gains = torch.minimum(ratio * worth, ratio.clamp(1 - low, 1 + high) * worth)
    with torch.no_grad():
        clipped = ((worth > 0) & (ratio > 1 + high)) | ((worth < 0) & (ratio < 1 - low))
        seen = torch.stack((clipped.sum(), apart.abs().sum()))
    return -gains.sum(), seen


# -- the loop ----------------------------------------------------------------------------------------------------------


class Lean:
    """A run of the lean loop: a model, how it learns, and what it has come to."""

    def __init__(self, learner: Learner, recipe: Recipe, checkup: Checkup | None = None) -> None:
        self.learner, self.recipe, self.checkup = learner, recipe, checkup
        self.standing = Standing(success=dict.fromkeys(recipe.families, 0.0))
        self.tongue = Tongue(learner)
        self.weights = {name: weight for name, weight in learner.model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.0)
        self._speaker: Speaker | None = None
        torch.set_float32_matmul_precision("high")  # a GPU multiplies float32 in TF32; a processor as ever

    def update(self) -> Record:
        """Learns from one round of attempts. Gives what is to be logged of it."""
        recipe, standing, spent = self.recipe, self.standing, Spent()
        torch.manual_seed(recipe.seed * 1_000_003 + standing.update)
        dose = recipe.doses[standing.rung]
        with spent.on("tasks"):
            shares = {name: max(_LEAST_WEIGHT, 1 - success) for name, success in standing.success.items()}
            plan = lessons(recipe.seed, standing.update, recipe.tasks, shares, dose)
        tasks = [(task_id, False) for lesson in plan for task_id in lesson for _ in range(recipe.group)]
        measured = self.checkup.ids if self.checkup and standing.update % recipe.check_every == 0 else ()
        played = self.play([*tasks, *((task_id, True) for task_id in measured)], spent)
        rolled = spent.wall
        attempts, checked = played[: len(tasks)], played[len(tasks) :]
        groups = grouped(plan, attempts, recipe.bonus)
        learned = self.learn(groups)
        record: Record = {"update": standing.update, "dose": dose, **self._seen(plan, groups, spent), **learned}
        if self.checkup and checked:
            with spent.on("checkup"):
                record["checkup"] = self.checkup.numbers(one.env for one in checked)
        record |= _pace(spent, rolled, len(played))
        self.advance(groups)
        return record

    def check(self) -> Record:
        """Measures the model as it is, and nothing else."""
        assert self.checkup is not None
        played = self.play([(task_id, True) for task_id in self.checkup.ids], Spent())
        return {"update": self.standing.update, "checkup": self.checkup.numbers(one.env for one in played)}

    def play(self, tasks: Sequence[tuple[str, bool]], spent: Spent) -> list[Played]:
        """Plays tasks with the model as it is, each greedily or not."""
        learner, recipe = self.learner, self.recipe
        if self._speaker is None:
            rows = min(recipe.rows, recipe.tasks * recipe.group)
            working = LINES if learner.working else None
            self._speaker = speaker_of(learner.model, learner.decode, rows, learner.limit, self.reserve, working)
        else:
            self._speaker.load(learner.model)
        how = self.tongue, learner.limit, self.reserve, recipe.reward
        # What is measured is played to its end.
        episodes = (Played(task_id, greedy, *how, 0 if greedy else recipe.patience) for task_id, greedy in tasks)
        return rollout(self._speaker, episodes, spent)

    @property
    def reserve(self) -> int:
        """Tokens that a turn may have."""
        return self.recipe.reserve + (ROOM if self.learner.working else 0)

    def learn(self, groups: Sequence[Group]) -> dict[str, float]:
        """Takes the steps of an update on the groups that teach something."""
        teaching = [group for group in groups if group.teaches]
        made: list[dict[str, float]] = []
        for number in range(self.recipe.steps):
            samples = samples_of(teaching[number :: self.recipe.steps])
            if samples:
                made.append(self._step(samples))
        means = {name: fmean(one[name] for one in made) for name in made[0]} if made else {}
        return {"teaching": len(teaching) / len(groups), **means}

    def _step(self, samples: Sequence[Sample]) -> dict[str, float]:
        """One step on the mean loss over all tokens of all calls."""
        whole = sum(end - start for sample in samples for start, end in sample.spans)
        seen = torch.zeros(3, device=self.learner.device)
        for batch in by_length(samples, len, fitting(self.learner.device, self.recipe.batch)):
            loss, others = loss_of(self.learner.model, batch, self.recipe.clip)
            (loss / whole).backward()
            seen += torch.cat((loss.detach()[None], others))
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.longest_gradient)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        lost, clipped, apart = (seen / whole).tolist()
        return {"loss": lost, "clipped": clipped, "apart": apart, "gradient": float(norm), "learned_tokens": whole}

    def _seen(self, plan: Sequence[Lesson], groups: Sequence[Group], spent: Spent) -> dict[str, Any]:
        """What attempts came to. Where calls went takes long to find out, and is for some attempts only."""
        with spent.on("judge"):
            outcomes = [judge(group.attempts[0].env.transcript()) for group in groups[::_JUDGED]]
        turns = [turn for group in groups for one in group.attempts for turn in one.env.turns]
        by_task = {group.task_id: group.success for group in groups}
        twins = [lesson for lesson in plan if len(lesson) > 1]
        return {
            "reward": fmean(reward for group in groups for reward in group.rewards),
            "success": fmean(group.success for group in groups),
            "families": _by_family(groups),
            "twins": fmean(all(by_task[task_id] > 0.5 for task_id in lesson) for lesson in twins) if twins else None,
            "invalid": fmean(turn.reply.code in _INVALID for turn in turns),
            "routing": sum(one.routed for one in outcomes) / max(1, sum(one.steps - one.waits for one in outcomes)),
            "turns": len(turns) / sum(len(group.attempts) for group in groups),
        }

    def advance(self, groups: Sequence[Group]) -> None:
        """Takes in how an update went, for the choice of the next one's tasks."""
        standing, recipe = self.standing, self.recipe
        standing.update += 1
        standing.success |= _by_family(groups)
        if fmean(group.success for group in groups) >= recipe.good:
            standing.rung = min(standing.rung + 1, len(recipe.doses) - 1)

    # -- what a checkpoint holds -----------------------------------------------------------------------------------

    def state(self) -> Record:
        """What a run goes on from, to be written before it does."""
        return {
            "standing": msgspec.to_builtins(self.standing),
            "weights": {name: weight.detach().cpu() for name, weight in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
        }

    def resume(self, state: Record) -> None:
        self.standing = msgspec.convert(state["standing"], Standing)
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])


def _by_family(groups: Sequence[Group]) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for group in groups:
        found[TaskId.parse(group.task_id).family].append(group.success)
    return {name: fmean(shares) for name, shares in sorted(found.items())}


def _pace(spent: Spent, rolled: float, episodes: int) -> dict[str, Any]:
    wall = spent.wall
    return {
        "seconds": round(wall, 3),
        "rollout_seconds": round(rolled, 3),
        "tokens_per_second": spent.tokens / rolled,
        "episodes_per_second": episodes / rolled,
        "ours": {kind: seconds / wall for kind, seconds in spent.seconds.items()},
    }


def run(
    lean: Lean,
    journal: Journal,
    updates: int,
    minutes: float = math.inf,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Goes on from where a journal stands until that many updates are made, or until the next would not be over in time."""
    state = journal.resume()
    if state is not None:
        lean.resume(state)

    def records() -> Iterator[Record]:
        begun = last = clock()
        longest = 0.0
        while lean.standing.update < updates and last + longest - begun <= minutes * 60:
            yield lean.update()
            longest, last = max(longest, clock() - last), clock()
        if lean.checkup and lean.standing.update >= updates:
            yield lean.check()

    def save() -> None:
        journal.save(lean.state())
        journal.publish(lean.learner.save)

    for record in watch(records(), updates - lean.standing.update):
        journal.log(record)
        if journal.due():
            save()
    save()
