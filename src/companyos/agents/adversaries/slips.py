"""Ways in which work goes wrong: slips (a few random calls that the work did not need) and whole failing episodes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.agents.agent import play
from companyos.agents.baselines import Random
from companyos.agents.choices.candidates import Candidates
from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.core.episode import Turn
from companyos.core.errors import Stuck
from companyos.core.world import Streams
from companyos.env import CompanyEnv, run_expert
from companyos.env.knowledge import Knowledge

MAX_SLIPS = 6
_TRIES = 100  # number of random calls to try
_CLOSING = next(tool for tool in TOOLBOX if tool.ends)


def slip(env: CompanyEnv, streams: Streams, from_middle: bool) -> range:
    """Make up to `MAX_SLIPS` random calls that succeed, from the start or from a random point of the expert's solution.

    Return the numbers of the turns that are slips.
    """
    knowledge = Knowledge(env.setting.case.brief)
    if from_middle:
        solution = expert_turns(env)
        _follow(env, knowledge, solution[: streams.at("cut").between(0, len(solution) - 1)])
    first = len(env.turns)
    remaining = streams.at("slips").between(0, MAX_SLIPS)
    for attempt in range(_TRIES):
        if not remaining or env.done:
            break
        call = Candidates(knowledge, env.toolbox).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.turns[-1].reply.ok:
            env.step(call)
            knowledge.hear(env.turns[-1].reply)
            remaining -= 1
    return range(first, len(env.turns))


def expert_turns(env: CompanyEnv) -> list[Turn]:
    """Return the turns that the expert would take from here."""
    solved = env.fork()
    run_expert(solved)
    return solved.turns[len(env.turns) :]


def _follow(env: CompanyEnv, knowledge: Knowledge, turns: list[Turn]) -> None:
    """Make the calls of these turns, and add the replies to what is known."""
    for turn in turns:
        env.step(turn.call)
        knowledge.hear(turn.reply)


# -- failures ----------------------------------------------------------------------------------------------------------
# Each of these works an episode badly. It may still win by luck, or leave the episode unfinished, so callers must check.


def _at_random(env: CompanyEnv, streams: Streams) -> None:
    """Makes random calls."""
    play(env, Random(streams.at("agent").between(0, 10**9)))


def _hastily(env: CompanyEnv, streams: Streams) -> None:
    """Follows the expert for a while, then closes the ticket at random."""
    knowledge, solution = Knowledge(env.setting.case.brief), expert_turns(env)
    _follow(env, knowledge, solution[: streams.at("cut").between(0, len(solution) - 2)])
    call = Candidates(knowledge).fill(_CLOSING, streams.at("closing"))
    assert call is not None, "the brief names the ticket"
    env.step(_with(call, ticket_id=env.setting.case.ticket_id))


def _carelessly(env: CompanyEnv, streams: Streams) -> None:
    """Works as the expert does, but with one careless habit."""
    play(env, Careless(streams.at("habit").pick(list(HABITS.values()))))


def _mistakenly(env: CompanyEnv, streams: Streams) -> None:
    """Does all the work, then closes the ticket with a wrong resolution, a wrong reason or missing evidence."""
    knowledge, solution, draw = Knowledge(env.setting.case.brief), expert_turns(env), streams.at("closing")
    _follow(env, knowledge, solution[:-1])
    closing = solution[-1].call
    field = draw.pick(("resolution", "reason", "evidence"))
    if field == "evidence":
        value: Any = closing.params["evidence"][1:]
    else:
        value = draw.pick(Candidates(knowledge).options(_CLOSING, field))
    env.step(_with(closing, **{field: value}))


def _harmfully(env: CompanyEnv, streams: Streams) -> None:
    """Follows the expert for a while, does damage that cannot be undone, then does the rest of the work."""
    knowledge, solution = Knowledge(env.setting.case.brief), expert_turns(env)
    _follow(env, knowledge, solution[: streams.at("cut").between(0, len(solution) - 1)])
    reads_left = MAX_SLIPS  # reads on the way, which show more records that can be damaged
    for attempt in range(_TRIES):
        call = Candidates(knowledge, env.toolbox).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.lost() == "damage":
            env.step(call)
            # An expert that is stuck leaves the ticket open, so the episode stays unfinished.
            with suppress(Stuck):
                run_expert(env)
            return
        if reads_left and trial.turns[-1].reply.ok and not env.toolbox.tools[call.app, call.method].writes:
            _follow(env, knowledge, trial.turns[-1:])
            reads_left -= 1


def _with(call: Call, **params: Any) -> Call:
    """Return a call with some parameters replaced."""
    return Call(call.app, call.method, {**call.params, **params})


Failure = Callable[[CompanyEnv, Streams], None]
# No scripts here: they replay episodes of a held-out split.
FAILURES: dict[str, Failure] = {
    "random": _at_random,
    "hasty": _hastily,
    "careless": _carelessly,
    "mistaken": _mistakenly,
    "harmful": _harmfully,
}
