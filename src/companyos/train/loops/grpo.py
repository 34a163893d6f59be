"""GRPO: a model learns from its own attempts, by comparing the attempts at the same task. This is the `lean` loop.

An update plays a group of attempts at each of some tasks, half of which are twins. The reward of an attempt is its score,
plus a bonus if both twins are solved; its advantage is the reward minus the mean of its group. Then comes a clipped step
on the tokens of all calls. With exact credit (`credit.py`), a lost attempt is blamed only for the call that lost it. There
is no critic and no reference model. The next update depends only on the seed, its number and the checkpoint, so a run that
was killed continues as if nothing had happened.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
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
from companyos.train.data.turns import MAX_WORKING_LINES, MAX_WORKING_TOKENS
from companyos.train.decoding.rollout import ModelEpisode, PlayedWindow, TimeSpent, rollout
from companyos.train.decoding.speakers import Speaker, speaker_of
from companyos.train.loops.credit import EXACT, PLAIN, call_factors
from companyos.train.model.forward import batch_limit, by_length, log_probabilities
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import Checkup
from companyos.train.runs.journal import Journal, Record

_INVALID = (BAD_ACTION, BAD_ARGUMENTS, UNKNOWN_TOOL)  # codes of replies to invalid calls
_MAX_LOG_RATIO = 20.0  # `exp` must not overflow; the clip acts long before
_TASKS_PER_JUDGED = 4  # one attempt at every fourth task is judged in detail
_MIN_WEIGHT = 0.05  # weight of a family in which all attempts succeed


class GrpoRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of GRPO."""

    families: tuple[str, ...] = STARTER_FAMILIES
    seed: int = 0
    tasks: int = 64  # per update
    group: int = 16  # attempts at each task
    doses: tuple[float, ...] = (0.25, 0.5)  # the next is used once the share `good` of attempts succeeds
    good: float = 0.6
    reward: str = "score"
    credit: str = PLAIN  # plain: all calls of an attempt have its advantage; exact: see `credit.py`
    blame: float = 8.0  # with exact credit, the factor of the call that lost an attempt: it stands for the whole attempt
    workers: int = 1  # processes that look for these calls
    bonus: float = 0.2  # for a success, if more than half of the attempts at both twins succeed
    rate: float = 1e-4
    clip: tuple[float, float] = (0.2, 0.28)
    steps: int = 1  # optimizer steps per update, each on its share of the groups
    longest_gradient: float = 1.0  # a gradient with a larger norm is scaled down to it
    batch: int = 32768  # tokens in one forward pass on a GPU
    rows: int = 1024  # episodes that are played at the same time
    patience: int = 0  # how often an attempt may write the same line before it is given up; 0 means no limit
    reserve: int = RESERVE  # most tokens of a call; working lines get `MAX_WORKING_TOKENS` more
    check_every: int = 10  # updates between checkups


class GrpoProgress(msgspec.Struct):
    """How far a run is."""

    update: int = 0
    rung: int = 0  # index of the present dose
    success: dict[str, float] = {}  # share of successes of the latest attempts, by family


class AttemptGroup(msgspec.Struct):
    """The attempts at one task, and their rewards."""

    task_id: str
    attempts: list[ModelEpisode]
    rewards: list[float]
    factors: list[list[float]] = []  # for each attempt and each of its calls; empty: all 1

    @property
    def success(self) -> float:
        """The share of successes."""
        return fmean(bool(attempt.env.success) for attempt in self.attempts)

    @property
    def advantages(self) -> list[float]:
        """The reward of each attempt minus the mean reward."""
        mean = fmean(self.rewards)
        return [reward - mean for reward in self.rewards]

    @property
    def teaches(self) -> bool:
        """Whether the attempts have different rewards."""
        return max(self.rewards) > min(self.rewards)


class Sample(msgspec.Struct, frozen=True):
    """A window of an episode's script, the advantage of the episode, and a factor for each of the window's turns.

    Without factors, all are 1.
    """

    window: PlayedWindow
    advantage: float
    factors: list[float] = []

    @property
    def learnt_from(self) -> "Sample":
        """The same sample without the turns whose factor is 0."""
        if not self.factors:
            return self
        kept = [(turn, factor) for turn, factor in zip(self.window.turns, self.factors, strict=True) if factor]
        window = PlayedWindow(self.window.tokens, [turn for turn, _ in kept])
        return Sample(window, self.advantage, [factor for _, factor in kept])

    @property
    def advantages(self) -> list[float]:
        """The advantage of each sampled token."""
        factors = self.factors or [1.0] * len(self.window.turns)
        turns = zip(self.window.turns, factors, strict=True)
        return [self.advantage * factor for (_, logprobs), factor in turns for _ in logprobs]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The spans of the sampled tokens."""
        return [(start, start + len(logprobs)) for start, logprobs in self.window.turns]

    def __len__(self) -> int:
        return len(self.window.tokens)


# -- rewards and advantages --------------------------------------------------------------------------------------------


def grouped(plan: Sequence[Lesson], attempts: Sequence[ModelEpisode], bonus: float) -> list[AttemptGroup]:
    """Return the groups of an update. Attempts are in the order of its tasks.

    If most attempts at both twins of a lesson succeed, each success gets the bonus. A bonus for the whole group would not
    change its advantages.
    """
    group_size = len(attempts) // sum(map(len, plan))
    rest = iter(attempts)
    groups: list[AttemptGroup] = []
    for lesson in plan:
        groups_of_lesson = []
        for task_id in lesson:
            attempts_at_task = [next(rest) for _ in range(group_size)]
            rewards = [attempt.total for attempt in attempts_at_task]
            groups_of_lesson.append(AttemptGroup(task_id, attempts_at_task, rewards))
        if len(lesson) > 1 and all(group.success > 0.5 for group in groups_of_lesson):
            for group in groups_of_lesson:
                group.rewards = [
                    reward + bonus * bool(attempt.env.success)
                    for reward, attempt in zip(group.rewards, group.attempts, strict=True)
                ]
        groups += groups_of_lesson
    return groups


def samples_of(groups: Sequence[AttemptGroup]) -> list[Sample]:
    """Return a sample for each window in which a turn is learnt from."""
    samples: list[Sample] = []
    for group in groups:
        factors = group.factors or [[1.0] * len(attempt.lines) for attempt in group.attempts]
        for attempt, advantage, factors_of_attempt in zip(group.attempts, group.advantages, factors, strict=True):
            rest = iter(factors_of_attempt)
            for window in attempt.windows:
                samples.append(Sample(window, advantage, [next(rest) for _ in window.turns]).learnt_from)
    return [sample for sample in samples if sample.window.turns]


# -- the loss ----------------------------------------------------------------------------------------------------------


def loss_of(model: Any, samples: Sequence[Sample], clip: tuple[float, float]) -> tuple[Any, Any]:
    """Return the clipped loss, summed over the sampled tokens, and a tensor of two numbers for the log.

    They are: how many tokens were clipped, and the sum of the absolute differences between the log probabilities now and
    when the tokens were sampled.
    """
    logprobs_now = log_probabilities(model, [(sample.window.tokens, sample.spans) for sample in samples])
    sampled_logprobs = [logprob for sample in samples for _, logprobs in sample.window.turns for logprob in logprobs]
    logprobs_then = torch.tensor(sampled_logprobs, device=logprobs_now.device)
    advantages = torch.tensor(list(chain(*(sample.advantages for sample in samples))), device=logprobs_now.device)
    log_ratio = logprobs_now - logprobs_then
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    low, high = clip
    gains = torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    with torch.no_grad():
        is_clipped = ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))
        numbers = torch.stack((is_clipped.sum(), log_ratio.abs().sum()))
    return -gains.sum(), numbers


# -- the loop ----------------------------------------------------------------------------------------------------------


class GrpoRun:
    """A run of the lean loop."""

    def __init__(self, learner: Learner, recipe: GrpoRecipe, checkup: Checkup | None = None) -> None:
        self.learner, self.recipe, self.checkup = learner, recipe, checkup
        self.progress = GrpoProgress(success=dict.fromkeys(recipe.families, 0.0))
        self.tokenizer = learner.script_tokenizer()
        self.weights = {name: weight for name, weight in learner.model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.0)
        self._speaker: Speaker | None = None
        torch.set_float32_matmul_precision("high")  # on a GPU, multiply float32 as TF32

    def update(self) -> Record:
        """Make one update. Return its log record."""
        recipe, progress, spent = self.recipe, self.progress, TimeSpent()
        torch.manual_seed(recipe.seed * 1_000_003 + progress.update)
        dose = recipe.doses[progress.rung]
        with spent.on("tasks"):
            weights = {name: max(_MIN_WEIGHT, 1 - success) for name, success in progress.success.items()}
            plan = lessons(recipe.seed, progress.update, recipe.tasks, weights, dose)
        tasks = [(task_id, False) for lesson in plan for task_id in lesson for _ in range(recipe.group)]
        checkup_ids = self.checkup.ids if self.checkup and progress.update % recipe.check_every == 0 else ()
        played = self.play([*tasks, *((task_id, True) for task_id in checkup_ids)], spent)
        rollout_seconds = spent.wall
        attempts, checked = played[: len(tasks)], played[len(tasks) :]
        groups = grouped(plan, attempts, recipe.bonus)
        learning_numbers = self.learn(groups)
        rollout_numbers = self._rollout_numbers(plan, groups, spent)
        record: Record = {"update": progress.update, "dose": dose, **rollout_numbers, **learning_numbers}
        if self.checkup and checked:
            with spent.on("checkup"):
                record["checkup"] = self.checkup.numbers(episode.env for episode in checked)
        record |= _speed(spent, rollout_seconds, len(played))
        self.advance(groups)
        return record

    def check(self) -> Record:
        """Measure the model without an update. Return the log record."""
        assert self.checkup is not None
        played = self.play([(task_id, True) for task_id in self.checkup.ids], TimeSpent())
        return {"update": self.progress.update, "checkup": self.checkup.numbers(episode.env for episode in played)}

    def play(self, tasks: Sequence[tuple[str, bool]], spent: TimeSpent) -> list[ModelEpisode]:
        """Play tasks with the present model. Each has a task id, and whether it is played greedily or sampled."""
        learner, recipe = self.learner, self.recipe
        if self._speaker is None:
            rows = min(recipe.rows, recipe.tasks * recipe.group)
            working_lines = MAX_WORKING_LINES if learner.working else None
            self._speaker = speaker_of(learner.model, learner.decode, rows, learner.limit, self.reserve, working_lines)
        else:
            self._speaker.load(learner.model)
        settings = self.tokenizer, learner.limit, self.reserve, recipe.reward
        episodes = (
            # Episodes of a checkup, which are greedy, are never given up.
            ModelEpisode(task_id, greedy, *settings, patience=0 if greedy else recipe.patience)
            for task_id, greedy in tasks
        )
        return rollout(self._speaker, episodes, spent)

    @property
    def reserve(self) -> int:
        """Most tokens of a turn."""
        return self.recipe.reserve + (MAX_WORKING_TOKENS if self.learner.working else 0)

    def learn(self, groups: Sequence[AttemptGroup]) -> dict[str, float]:
        """Make the optimizer steps of an update, on the groups whose rewards differ."""
        teaching = [group for group in groups if group.teaches]
        if self.recipe.credit == EXACT:
            attempts = [attempt.env for group in teaching for attempt in group.attempts]
            factors = iter(call_factors(attempts, self.recipe.blame, self.recipe.workers))
            for group in teaching:
                group.factors = [next(factors) for _ in group.attempts]
        steps: list[dict[str, float]] = []  # the numbers of each
        for number in range(self.recipe.steps):
            samples = samples_of(teaching[number :: self.recipe.steps])
            if samples:
                steps.append(self._step(samples))
        means = {name: fmean(step[name] for step in steps) for name in steps[0]} if steps else {}
        return {"teaching": len(teaching) / len(groups), **means}

    def _step(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Make one step on the mean loss over all tokens of all calls."""
        tokens = sum(end - start for sample in samples for start, end in sample.spans)
        sums = torch.zeros(3, device=self.learner.device)
        for batch in by_length(samples, len, batch_limit(self.learner.device, self.recipe.batch)):
            loss, numbers = loss_of(self.learner.model, batch, self.recipe.clip)
            (loss / tokens).backward()
            sums += torch.cat((loss.detach()[None], numbers))
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.longest_gradient)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mean_loss, clipped, apart = (sums / tokens).tolist()
        return {"loss": mean_loss, "clipped": clipped, "apart": apart, "gradient": float(norm), "learned_tokens": tokens}

    def _rollout_numbers(self, plan: Sequence[Lesson], groups: Sequence[AttemptGroup], spent: TimeSpent) -> dict[str, Any]:
        """Return the log numbers of attempts. `routing` takes long to compute, so only some attempts are judged."""
        with spent.on("judge"):
            outcomes = [judge(group.attempts[0].env.transcript()) for group in groups[::_TASKS_PER_JUDGED]]
        turns = [turn for group in groups for attempt in group.attempts for turn in attempt.env.turns]
        by_task = {group.task_id: group.success for group in groups}
        twins = [lesson for lesson in plan if len(lesson) > 1]
        return {
            "reward": fmean(reward for group in groups for reward in group.rewards),
            "success": fmean(group.success for group in groups),
            "families": _by_family(groups),
            "twins": fmean(all(by_task[task_id] > 0.5 for task_id in lesson) for lesson in twins) if twins else None,
            "invalid": fmean(turn.reply.code in _INVALID for turn in turns),
            "routing": sum(outcome.routed for outcome in outcomes)
            / max(1, sum(outcome.steps - outcome.waits for outcome in outcomes)),
            "turns": len(turns) / sum(len(group.attempts) for group in groups),
        }

    def advance(self, groups: Sequence[AttemptGroup]) -> None:
        """Record the results of an update, which decide the families and the dose of the next one."""
        progress, recipe = self.progress, self.recipe
        progress.update += 1
        progress.success |= _by_family(groups)
        if fmean(group.success for group in groups) >= recipe.good:
            progress.rung = min(progress.rung + 1, len(recipe.doses) - 1)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> Record:
        """Return the state for a checkpoint. Write it before the next update changes it."""
        return {
            "standing": msgspec.to_builtins(self.progress),
            "weights": {name: weight.detach().cpu() for name, weight in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
        }

    def resume(self, state: Record) -> None:
        self.progress = msgspec.convert(state["standing"], GrpoProgress)
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])


def _by_family(groups: Sequence[AttemptGroup]) -> dict[str, float]:
    """Return the share of successes by family."""
    shares: dict[str, list[float]] = defaultdict(list)
    for group in groups:
        shares[TaskId.parse(group.task_id).family].append(group.success)
    return {name: fmean(shares_of_family) for name, shares_of_family in sorted(shares.items())}


def _speed(spent: TimeSpent, rollout_seconds: float, episodes: int) -> dict[str, Any]:
    """Return the log numbers of time. `ours` has the shares of time that are spent outside the model, by kind."""
    wall = spent.wall
    return {
        "seconds": round(wall, 3),
        "rollout_seconds": round(rollout_seconds, 3),
        "tokens_per_second": spent.tokens / rollout_seconds,
        "episodes_per_second": episodes / rollout_seconds,
        "ours": {kind: seconds / wall for kind, seconds in spent.seconds.items()},
    }


def run(
    grpo: GrpoRun,
    journal: Journal,
    updates: int,
    minutes: float = math.inf,
    watch: Callable[[Iterator[Record], int], Iterable[Record]] = lambda records, total: records,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run all updates, from the journal's checkpoint if there is one. Stop when the next update would exceed `minutes`."""
    state = journal.resume()
    if state is not None:
        grpo.resume(state)

    def records() -> Iterator[Record]:
        begun = last = clock()
        longest = 0.0
        while grpo.progress.update < updates and last + longest - begun <= minutes * 60:
            yield grpo.update()
            longest, last = max(longest, clock() - last), clock()
        if grpo.checkup and grpo.progress.update >= updates:
            yield grpo.check()

    def save() -> None:
        journal.save(grpo.state())
        journal.publish(grpo.learner.save)

    for record in watch(records(), updates - grpo.progress.update):
        journal.log(record)
        if journal.due():
            save()
    save()
