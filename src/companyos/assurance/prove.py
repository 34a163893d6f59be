"""Proofs of solvability: the expert solves a task and uses only what the agent is told."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import Any

import msgspec

from companyos.company import ALL_TOOLS, Tool
from companyos.company.apps.tool import PROSE
from companyos.core.calls import OK, Call, Reply
from companyos.core.episode import Turn
from companyos.core.errors import Stuck, Unsolvable
from companyos.core.task import TaskId
from companyos.core.world import clock_text
from companyos.env import CompanyEnv, run_expert
from companyos.env.knowledge import Knowledge
from companyos.families import ExpertStyle, family
from companyos.families.kit.moves import ticket_acted_on
from companyos.families.kit.working import PERCENT
from companyos.rules import Piece
from companyos.rules import untold as unsaid


class Proof(msgspec.Struct, frozen=True):
    """The expert solved this task. Par is the number of its steps."""

    task_id: str
    par: int
    outcome: str


def prove(task_id: str) -> Proof:
    """Solve a task as its expert, through the real tools. Raise `Unsolvable` if the expert fails or guesses.

    It guesses if it uses a value, or needs a rule, that it had not been told.
    """
    env = CompanyEnv(TaskId.parse(task_id), "sparse")
    solve(env)
    guess = untold(env)
    if guess is not None:
        call, value = guess
        raise Unsolvable(f"{task_id}: the expert used {value!r} in {call.tool}, which it had not been told")
    if rules := unread_rules(env):
        raise Unsolvable(f"{task_id}: the ending depends on rules that the expert had not read: {rules}")
    return Proof(task_id, env.step_count, env.setting.ending.name)


def solve(env: CompanyEnv, style: ExpertStyle | None = None) -> CompanyEnv:
    """Let the expert finish an episode. Raise `Unsolvable` if it does not win."""
    try:
        run_expert(env, style)
    except Stuck as stuck:
        raise Unsolvable(f"{env.task_id}: {stuck}; causes {env.setting.causes}") from stuck
    if not env.success:
        steps = f"{env.step_count} of {env.max_steps} steps"
        raise Unsolvable(f"{env.task_id}: {steps}, {env.verdict or 'gave up'}; causes {env.setting.causes}")
    return env


def first_difference(turns: list[Turn], twin_turns: list[Turn]) -> int:
    """Return the number of the first turn whose call or reply differs between two episodes."""
    for number, (turn, twin_turn) in enumerate(zip(turns, twin_turns, strict=False)):
        if turn.call != twin_turn.call or turn.reply != twin_turn.reply:
            return number
    return min(len(turns), len(twin_turns))


def first_irreversible(turns: list[Turn], ticket_id: str) -> int:
    """Return the number of the first turn that closes this ticket or requests a signature for it."""
    return next((n for n, turn in enumerate(turns) if ticket_acted_on(turn.call) == ticket_id), len(turns))


def untold(env: CompanyEnv) -> tuple[Call, Any] | None:
    """Return the first call of an episode with an id, number or choice that the agent had not been told, and that value.

    The agent knows the brief, the replies to its own earlier calls, and what the schema of the called tool offers.
    """
    knowledge = Knowledge(env.setting.case.brief)
    texts = [env.setting.case.brief]
    for turn in (turn for turn in env.turns if not turn.actor):
        tool = env.toolbox.find(turn.call)
        if tool is not None:
            for value in _guesses(turn.call, tool, knowledge, texts):
                return turn.call, value
        knowledge.hear(turn.reply)
        texts += _strings(turn.reply.data)
    return None


def unread_rules(env: CompanyEnv) -> list[Piece]:
    """Return the rules on which the right ending depends and that no reply had said before the first irreversible call."""
    rules, ruling = family(TaskId.parse(env.task_id).family).rules, env.setting.ending.ruling
    if rules is None or ruling is None:
        return []
    turns = env.turns[: first_irreversible(env.turns, env.setting.case.ticket_id)]
    texts = (text for turn in turns for text in _strings(turn.reply.data))
    return unsaid(ruling, texts, rules.language)


def untold_working(env: CompanyEnv, working: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """Return the first working line with an id, date or number that was neither told nor computed, and that value.

    Working lines are the expert's reasoning in text. `working` has the lines before each turn. A line with wrong
    arithmetic is returned, too.
    """
    knowledge = Knowledge(f"{env.setting.case.brief} {clock_text(env.setting.world.now)}")
    computed = {str(PERCENT)}
    for turn, lines in zip(env.turns, working, strict=True):
        for line in lines:
            result = _computed(line)
            known = knowledge.values.keys() | computed
            for value in _IN_WORKING.findall(line if result is None else line.split(" = ")[0]):
                if value not in known:
                    return line, value
            if result is not None:
                if result != line.split(" = ")[-1]:
                    return line, line.split(" = ")[-1]
                computed.add(result)
        knowledge.hear(turn.reply)
        knowledge.hear(Reply(True, OK, turn.now))
    return None


# Dates, times, ids, handles and numbers: 2026-03-01, 09:30, T-12, @ann.lee, -5
_IN_WORKING = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d|[A-Z]+-\d+|@[a-z]+\.[a-z]+|(?<![\w-])-?\d+")
_SUM_OR_PRODUCT = re.compile(r"(\d+) ([+*]) (\d+) = \d+")  # 40 + 2 = 42
# 2026-01-30 to 2026-02-02 = 3, or, added up by months, 2026-01-30 to 2026-02-02 = 1 + 2 = 3
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d) = (?:(\d+(?: \+ \d+)+) = )?-?\d+")


def _computed(line: str) -> str | None:
    """Return the right result of a line that computes something; None for any other line."""
    if match := _SUM_OR_PRODUCT.fullmatch(line):
        first, second = int(match[1]), int(match[3])
        return str(first + second if match[2] == "+" else first * second)
    if match := _DAYS.fullmatch(line):
        days = (date.fromisoformat(match[2]) - date.fromisoformat(match[1])).days
        return str(days) if match[3] is None or sum(map(int, match[3].split(" + "))) == days else "another sum"
    return None


def _guesses(call: Call, tool: Tool, knowledge: Knowledge, texts: list[str]) -> Iterator[Any]:
    """Yield the argument values of a call that the agent was not told. It may choose bounded integers such as `hours`."""
    schema_words, bounded = _schema_of(call.app, call.method)
    for name, argument in call.params.items():
        marks = getattr(tool.hints[name], "__metadata__", ())
        for value in _scalars(argument):
            if value in ("", None) or isinstance(value, bool) or (name in bounded and isinstance(value, int)):
                continue
            if PROSE in marks:
                yield from (part for part in _IDS_AND_NUMBERS.findall(str(value)) if part not in knowledge.values)
            elif str(value) not in knowledge.values and str(value) not in schema_words and not _is_in(str(value), texts):
                yield value


_IDS_AND_NUMBERS = re.compile(r"[A-Z]+-\d+|@[a-z]+\.[a-z]+|\d+")


def _is_in(value: str, texts: list[str]) -> bool:
    """Return whether a text contains the value as a whole, not as part of an id, name, decimal number, date or time."""
    # The value 5 is in "5 days" and "5.", but not in "T-5", "5.2", "12:05" or "2,500".
    whole_value = re.compile(rf"(?<![\w@-])(?<!\w\.)(?<!\d[,:]){re.escape(value)}(?![\w@-]|\.\w|[,:]\d)")
    return any(whole_value.search(text) for text in texts if value in text)


@cache
def _schema_of(app: str, method: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words in a tool's schema, and the names of its arguments that are integers with a maximum."""
    function = ALL_TOOLS.tools[app, method].schema["function"]
    words = {part for text in _strings(function) for part in [text, *re.findall(r"[\w@.-]+", text)]}
    properties = function["parameters"].get("properties", {})
    return frozenset(words), frozenset(name for name, schema in properties.items() if "maximum" in schema)


def _scalars(value: Any) -> Iterator[Any]:
    """Yield all values and keys inside lists and dicts."""
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
