"""Proof: every task can be done from what one is told."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from companyos.apps import ALL_TOOLS, Tool
from companyos.apps.tool import PROSE
from companyos.calls import Call
from companyos.env import CompanyEnv, work
from companyos.episode import Turn
from companyos.errors import Stuck, Unsolvable
from companyos.families import Taste
from companyos.families.moves import ticket_acted_on
from companyos.task import TaskId
from companyos.told import Told


class Proof(msgspec.Struct, frozen=True):
    """That the expert did a task, in how many steps, and how it ended."""

    task_id: str
    steps: int
    par: int
    outcome: str


def prove(task_id: str) -> Proof:
    """Solves a task as its expert, through the real tools, using nothing that was not told. Raises `Unsolvable`."""
    env = CompanyEnv(TaskId.parse(task_id), "sparse")
    solve(env)
    guess = untold(env)
    if guess is not None:
        raise Unsolvable(f"{task_id}: the expert used {guess[1]!r} in {guess[0].tool}, which nothing had told it")
    return Proof(task_id, env.step_count, env.step_count, env.setting.ending.name)


def solve(env: CompanyEnv, taste: Taste | None = None) -> CompanyEnv:
    """Lets the expert finish an episode. Raises `Unsolvable` where it does not."""
    try:
        work(env, taste)
    except Stuck as stuck:
        raise Unsolvable(f"{env.task_id}: {stuck}; causes {env.setting.causes}") from stuck
    if not env.success:
        took = f"{env.step_count} of {env.max_steps} steps"
        raise Unsolvable(f"{env.task_id}: {took}, {env.verdict or 'gave up'}; causes {env.setting.causes}")
    return env


def first_difference(ours: list[Turn], theirs: list[Turn]) -> int:
    """The first turn whose call or reply is not the same in both."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one.call != other.call or one.reply != other.reply:
            return number
    return min(len(ours), len(theirs))


def first_irreversible(turns: list[Turn], ticket_id: str) -> int:
    """The first turn that closes this ticket or has it signed for."""
    return next((n for n, turn in enumerate(turns) if ticket_acted_on(turn.call) == ticket_id), len(turns))


def untold(env: CompanyEnv) -> tuple[Call, Any] | None:
    """The first call of an episode that used an id, number or choice which nothing had told, and that value."""
    told = Told(env.setting.case.brief)
    texts = [env.setting.case.brief]
    for turn in (turn for turn in env.turns if not turn.actor):
        tool = env.toolbox.find(turn.call)
        if tool is not None:
            for value in _guesses(turn.call, tool, told, texts):
                return turn.call, value
        told.hear(turn.reply)
        texts += _strings(turn.reply.data)
    return None


def _guesses(call: Call, tool: Tool, told: Told, texts: list[str]) -> Iterator[Any]:
    schema_words, bounded = _schema_of(call.app, call.method)
    for name, argument in call.params.items():
        marks = getattr(tool.hints[name], "__metadata__", ())
        for value in _scalars(argument):
            if value in ("", None) or isinstance(value, bool) or (name in bounded and isinstance(value, int)):
                continue
            if PROSE in marks:
                yield from (part for part in _IDS_AND_NUMBERS.findall(str(value)) if part not in told.values)
            elif str(value) not in told.values and str(value) not in schema_words and not _stood_in(str(value), texts):
                yield value


_IDS_AND_NUMBERS = re.compile(r"[A-Z]+-\d+|@[a-z]+\.[a-z]+|\d+")


def _stood_in(value: str, texts: list[str]) -> bool:
    whole = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return any(whole.search(text) for text in texts if value in text)


@cache
def _schema_of(app: str, method: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words that a tool's schema offers, and its arguments that are whole numbers within bounds."""
    function = ALL_TOOLS.tools[app, method].schema["function"]
    words = {part for text in _strings(function) for part in [text, *re.findall(r"[\w@.-]+", text)]}
    properties = function["parameters"].get("properties", {})
    return frozenset(words), frozenset(name for name, schema in properties.items() if "maximum" in schema)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _scalars(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item)
    else:
        yield value


def _strings(value: Any) -> list[str]:
    return [item for item in _scalars(value) if isinstance(item, str)]
