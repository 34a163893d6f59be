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

MOST_SLIPS = 6
_TRIES = 100  # random calls to look at
_CLOSING = next(tool for tool in TOOLBOX if tool.ends)


def slip(env: CompanyEnv, streams: Streams, from_middle: bool) -> range:
    """Make up to six random calls that succeed, from the start or from a random point of the expert's solution.

    Return the numbers of the turns that are slips.
    """
    told = Knowledge(env.setting.case.brief)
    if from_middle:
        way = expert_turns(env)
        _follow(env, told, way[: streams.at("cut").between(0, len(way) - 1)])
    first = len(env.turns)
    left = streams.at("slips").between(0, MOST_SLIPS)
    for attempt in range(_TRIES):
        if not left or env.done:
            break
        call = Candidates(told, env.toolbox).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.turns[-1].reply.ok:
            env.step(call)
            told.hear(env.turns[-1].reply)
            left -= 1
    return range(first, len(env.turns))


def expert_turns(env: CompanyEnv) -> list[Turn]:
    """Return the turns that the expert would take from here."""
    solved = env.fork()
    run_expert(solved)
    return solved.turns[len(env.turns) :]


def _follow(env: CompanyEnv, told: Knowledge, way: list[Turn]) -> None:
    for turn in way:
        env.step(turn.call)
        told.hear(turn.reply)


# -- failures ----------------------------------------------------------------------------------------------------------
# Each of these works an episode badly. It may still win by luck, or leave the episode unfinished, so callers must check.


def _at_random(env: CompanyEnv, streams: Streams) -> None:
    """Makes random calls."""
    play(env, Random(streams.at("agent").between(0, 10**9)))


def _hastily(env: CompanyEnv, streams: Streams) -> None:
    """Follows the expert for a while, then closes the ticket at random."""
    told, way = Knowledge(env.setting.case.brief), expert_turns(env)
    _follow(env, told, way[: streams.at("cut").between(0, len(way) - 2)])
    call = Candidates(told).fill(_CLOSING, streams.at("closing"))
    assert call is not None, "the brief names the ticket"
    env.step(_with(call, ticket_id=env.setting.case.ticket_id))


def _carelessly(env: CompanyEnv, streams: Streams) -> None:
    """Works as the expert does, but with one careless habit."""
    play(env, Careless(streams.at("habit").pick(list(HABITS.values()))))


def _mistakenly(env: CompanyEnv, streams: Streams) -> None:
    """Does all the work, then closes the ticket with a wrong resolution, a wrong reason or missing evidence."""
    told, way, draw = Knowledge(env.setting.case.brief), expert_turns(env), streams.at("closing")
    _follow(env, told, way[:-1])
    last = way[-1].call
    field = draw.pick(("resolution", "reason", "evidence"))
    if field == "evidence":
        value: Any = last.params["evidence"][1:]
    else:
        value = draw.pick(Candidates(told).options(_CLOSING, field))
    env.step(_with(last, **{field: value}))


def _harmfully(env: CompanyEnv, streams: Streams) -> None:
    """Follows the expert for a while, does damage that cannot be undone, then does the rest of the work."""
    told, way = Knowledge(env.setting.case.brief), expert_turns(env)
    _follow(env, told, way[: streams.at("cut").between(0, len(way) - 1)])
    looks = MOST_SLIPS
    for attempt in range(_TRIES):
        call = Candidates(told, env.toolbox).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.lost() == "damage":
            env.step(call)
            # An expert that is stuck leaves the ticket open, so the episode stays unfinished.
            with suppress(Stuck):
                run_expert(env)
            return
        if looks and trial.turns[-1].reply.ok and not env.toolbox.tools[call.app, call.method].writes:
            _follow(env, told, trial.turns[-1:])
            looks -= 1


def _with(call: Call, **params: Any) -> Call:
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
