"""Demos: episodes as a dataset. Work done right, work put right after slips, and work that failed, in stated shares."""

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

MIX: Mapping[str, float] = {"expert": 60, "recovered": 25, "failed": 15}
_TRIES_PER_TASK = 20
_TRIES = 1000


class Label(msgspec.Struct, frozen=True, kw_only=True, rename={"total": "return"}):
    """What stands beside an episode, for whoever picks and trains; never for the agent.

    `trainable` has a truth for each call: whether it is worth imitating. Slips are not, nor is anything in a failure.
    """

    task_id: str
    kind: str
    way: str  # how it came to be of its kind
    success: bool
    total: float
    missed: tuple[str, ...]  # goals
    damage: tuple[Damage, ...]
    steps: int
    trainable: tuple[bool, ...]
    version: int
    canary: str


class Demo(Label, frozen=True, kw_only=True):
    """An episode with its label. `replay(demo.transcript)` verifies it."""

    transcript: Transcript


class Chat(Label, frozen=True, kw_only=True):
    """An episode as a trainer of language models takes it: `messages`, `tools`, and the label beside them.

    `tools` is JSON in a string, as TRL prefers it: tables of nested columns would fill the gaps between the schemas.
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
    """This many episodes, the kinds mixed in these shares, each kind spread evenly over all families and doses.

    The same arguments give the same episodes; with a larger `n` those come first. `ValueError` says what is not valid.
    """
    if split != "train" and not held_out:
        raise BadTask(f"{split} is held out, and who learns from it cannot be tested on it; ask with held_out (--held-out)")
    names = dict.fromkeys(SHORT_FAMILIES if families is None else families)
    places = list(product(names, dict.fromkeys(chaos)))
    for name, dose in places:
        task_named(name, 0, dose, split)
    reward = chosen_name(reward)
    profile(reward)
    return islice(_episodes(places, split, _shares(mix), f"demos/{seed}/{split}", reward), n)


def as_chat(demo: Demo) -> Chat:
    """The same episode as a conversation, with the tools that it offered."""
    label: dict[str, Any] = {name: getattr(demo, name) for name in Label.__struct_fields__}
    return Chat(messages=messages(demo.transcript), tools=_tools(setting(TaskId.parse(demo.task_id)).toolbox), **label)


def _episodes(
    places: list[tuple[str, float]], split: str, shares: dict[str, float], key: str, reward: str
) -> Iterator[Demo]:
    made: Counter[str] = Counter()
    for number in count(1):
        # Whichever kind lags most behind its share: the shares are right at every length.
        behind = {kind: share * number - made[kind] for kind, share in shares.items()}
        kind = max(behind, key=behind.__getitem__)
        turn, place = divmod(made[kind], len(places))
        name, dose = places[place]
        yield _demo(kind, name, dose, split, f"{key}/{kind}/{name}/{dose}/{turn}", reward)
        made[kind] += 1


def _demo(kind: str, name: str, dose: float, split: str, key: str, reward: str) -> Demo:
    """The first episode of this kind that comes about, trying some times on one task before it takes another."""
    tasks = Streams(key)
    for attempt in range(_TRIES):
        seed = tasks.at("task", attempt // _TRIES_PER_TASK).between(0, MAX_SEED)
        env = CompanyEnv(task_named(name, seed, dose, split), reward)
        made = KINDS[kind](env, Streams(f"{key}/{attempt}"))
        if made is not None:
            way, slips = made
            return _labelled(env, kind, way, slips)
    raise Unsolvable(f"{name} at dose {dose}: no episode of kind {kind} in {_TRIES} tries")


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

Made = tuple[str, range] | None  # how it came about, and which turns nobody should imitate; None: try again


def _expert(env: CompanyEnv, streams: Streams) -> Made:
    """The expert from the start."""
    solve(env)
    return "expert", range(0)


def _recovered(env: CompanyEnv, streams: Streams) -> Made:
    """A few slips, then the expert goes on from there, putting right what has to be, and wins within the budget."""
    from_middle = streams.at("middle").chance(0.5)
    slips = slip(env, streams, from_middle)
    if not slips or env.done or env.lost():
        return None
    for _ in resume(env):
        pass
    return ("slips on the way" if from_middle else "slips at the start", slips) if env.success else None


def _failed(env: CompanyEnv, streams: Streams) -> Made:
    """Worked to its end, and not right."""
    # The same at every try on this task, so that the surest ways to fail do not crowd out the others.
    way = Streams(f"demos/{env.task_id}").at("way").pick(list(FAILURES))
    FAILURES[way](env, streams)
    return (way, range(env.step_count)) if env.success is False else None


KINDS: dict[str, Callable[[CompanyEnv, Streams], Made]] = {"expert": _expert, "recovered": _recovered, "failed": _failed}


def _shares(mix: Mapping[str, float]) -> dict[str, float]:
    for kind in mix:
        if kind not in KINDS:
            raise BadChoice("kind of episode", kind, KINDS)
    whole = sum(mix.values())
    if not 0 < whole < math.inf or min(mix.values()) < 0:
        raise BadChoice("mix", dict(mix), ["shares from 0 up, not all of them 0"])
    return {kind: mix.get(kind, 0) / whole for kind in KINDS}


@cache
def _tools(toolbox: Toolbox) -> str:
    return msgspec.json.encode(toolbox.schemas).decode()


FORMATS: dict[str, Callable[[Demo], Label]] = {"jsonl": lambda demo: demo, "chat": as_chat}
