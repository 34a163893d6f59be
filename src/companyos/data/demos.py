"""Demonstrations: a dataset of expert episodes, episodes that recover from mistakes, and failures, in given shares."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice, product
from typing import Any

import msgspec

from companyos.agents.adversaries.slips import FAILURES, slip
from companyos.assurance.prove import solve
from companyos.chaos import Chaos
from companyos.company import Toolbox
from companyos.core.episode import Transcript
from companyos.core.errors import BadChoice, BadTask, Unsolvable
from companyos.core.task import MAX_SEED, TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv, task_named
from companyos.env.chat import Message, messages
from companyos.env.rewards import chosen_name, profile
from companyos.env.teacher import resume
from companyos.families import SHORT_FAMILIES, setting
from companyos.families.kit.goals import Damage

MIX: Mapping[str, float] = {"expert": 60, "recovered": 25, "failed": 15}  # shares of the kinds of episodes
_TRIES_PER_TASK = 20
_MAX_TRIES = 1000  # for one episode


class Label(msgspec.Struct, frozen=True, kw_only=True, rename={"total": "return"}):
    """Metadata of an episode, for selecting and training; never shown to the agent.

    `trainable` has a boolean for each call: whether to imitate it. It is false for mistakes and in failed episodes.
    """

    task_id: str
    kind: str
    way: str  # how the episode was made, for example which mistake
    success: bool
    total: float
    missed: tuple[str, ...]  # the goals that do not hold
    damage: tuple[Damage, ...]
    steps: int
    trainable: tuple[bool, ...]
    version: int
    canary: str


class Demo(Label, frozen=True, kw_only=True):
    """An episode with its label. `companyos.replay(demo.transcript)` verifies it."""

    transcript: Transcript


class Chat(Label, frozen=True, kw_only=True):
    """An episode for training language models: `messages`, `tools` and the label.

    `tools` is JSON in a string, as TRL prefers it: in a table with nested columns, all schemas would get the same fields.
    """

    messages: list[Message]
    tools: str


def episodes(
    n: int,
    families: Sequence[str] | None = None,
    chaos: Sequence[Chaos] = (0.5,),
    split: str = "train",
    mix: Mapping[str, float] = MIX,
    seed: int = 0,
    reward: str = "dense",
    held_out: bool = False,
) -> Iterator[Demo]:
    """Yield `n` episodes, with kinds in the shares of `mix`, and each kind spread evenly over all families and doses.

    The same arguments give the same episodes, and a larger `n` only adds to them. `ValueError` says what is not valid.
    """
    if split != "train" and not held_out:
        raise BadTask(f"{split} is held out: do not train on what you test on; held_out=True (--held-out) allows it")
    names = dict.fromkeys(SHORT_FAMILIES if families is None else families)
    family_doses = list(product(names, dict.fromkeys(chaos)))
    # Invalid arguments raise here, not when the first episode is drawn.
    for name, dose in family_doses:
        task_named(name, 0, dose, split)
    reward = chosen_name(reward)
    profile(reward)
    return islice(_episodes(family_doses, split, _shares(mix), f"demos/{seed}/{split}", reward), n)


def as_chat(demo: Demo) -> Chat:
    """Return an episode as a conversation, with its tools."""
    label: dict[str, Any] = {name: getattr(demo, name) for name in Label.__struct_fields__}
    return Chat(messages=messages(demo.transcript), tools=_tools(setting(TaskId.parse(demo.task_id)).toolbox), **label)


def _episodes(
    family_doses: list[tuple[str, float]], split: str, shares: dict[str, float], key: str, reward: str
) -> Iterator[Demo]:
    counts: Counter[str] = Counter()
    for number in count(1):
        # The kind that is most behind its share comes next, so that the shares are right for every `n`.
        behind = {kind: share * number - counts[kind] for kind, share in shares.items()}
        kind = max(behind, key=behind.__getitem__)
        round_number, index = divmod(counts[kind], len(family_doses))
        name, dose = family_doses[index]
        yield _demo(kind, name, dose, split, f"{key}/{kind}/{name}/{dose}/{round_number}", reward)
        counts[kind] += 1


def _demo(kind: str, name: str, dose: float, split: str, key: str, reward: str) -> Demo:
    """Return an episode of a kind. Not every try succeeds; after some tries on one task, another task is drawn."""
    tasks = Streams(key)
    for attempt in range(_MAX_TRIES):
        seed = tasks.at("task", attempt // _TRIES_PER_TASK).between(0, MAX_SEED)
        env = CompanyEnv(task_named(name, seed, dose, split), reward)
        result = KINDS[kind](env, Streams(f"{key}/{attempt}"))
        if result is not None:
            way, slips = result
            return _labelled(env, kind, way, slips)
    raise Unsolvable(f"{name} at dose {dose}: no episode of kind {kind} in {_MAX_TRIES} tries")


def _labelled(env: CompanyEnv, kind: str, way: str, slips: range) -> Demo:
    transcript, verdict = env.transcript(), env.verdict
    assert verdict is not None
    return Demo(
        task_id=env.task_id,
        kind=kind,
        way=way,
        success=verdict.success,
        total=transcript.footer.total,
        missed=tuple(goal for goal, holds in verdict.goals.items() if not holds),
        damage=verdict.damage,
        steps=env.step_count,
        trainable=tuple(number not in slips for number in range(env.step_count)),
        version=transcript.header.version,
        canary=transcript.header.canary,
        transcript=transcript,
    )


# -- kinds -------------------------------------------------------------------------------------------------------------

KindResult = tuple[str, range] | None  # how the episode was made, and the turns with mistakes; None: try again


def _expert(env: CompanyEnv, streams: Streams) -> KindResult:
    """The expert works from the start."""
    solve(env)
    return "expert", range(0)


def _recovered(env: CompanyEnv, streams: Streams) -> KindResult:
    """Some mistakes are made; then the expert corrects them and succeeds within the budget."""
    from_middle = streams.at("middle").chance(0.5)
    slips = slip(env, streams, from_middle)
    if not slips or env.done or env.lost():
        return None
    for _ in resume(env):
        pass
    return ("slips on the way" if from_middle else "slips at the start", slips) if env.success else None


def _failed(env: CompanyEnv, streams: Streams) -> KindResult:
    """The episode is worked to its end, but fails."""
    # Every try on a task makes the same kind of mistake. Otherwise, mistakes that fail more often would be more frequent.
    way = Streams(f"demos/{env.task_id}").at("way").pick(list(FAILURES))
    FAILURES[way](env, streams)
    return (way, range(env.step_count)) if env.success is False else None


KINDS: dict[str, Callable[[CompanyEnv, Streams], KindResult]] = {
    "expert": _expert,
    "recovered": _recovered,
    "failed": _failed,
}


def _shares(mix: Mapping[str, float]) -> dict[str, float]:
    """Return the share of every kind of episode, so that all together are 1."""
    for kind in mix:
        if kind not in KINDS:
            raise BadChoice("kind of episode", kind, KINDS)
    total = sum(mix.values())
    if not 0 < total < math.inf or min(mix.values()) < 0:
        raise BadChoice("mix", dict(mix), ["shares from 0 up, not all of them 0"])
    return {kind: mix.get(kind, 0) / total for kind in KINDS}


@cache
def _tools(toolbox: Toolbox) -> str:
    return msgspec.json.encode(toolbox.schemas).decode()


FORMATS: dict[str, Callable[[Demo], Label]] = {"jsonl": lambda demo: demo, "chat": as_chat}
