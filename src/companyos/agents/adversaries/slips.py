"""Slips: how work goes wrong. A few calls that nothing called for, and whole episodes that end in failure."""

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
from companyos.env import CompanyEnv, work
from companyos.env.knowledge import Told

MOST_SLIPS = 6
_TRIES = 100  # calls that are looked at for those slips
_CLOSING = next(tool for tool in TOOLBOX if tool.ends)


def slip(env: CompanyEnv, streams: Streams, from_middle: bool) -> range:
    """Up to six random calls that the company carries out, from the start or from somewhere on the expert's way.

    Gives the numbers of the turns that are slips.
    """
    told = Told(env.setting.case.brief)
    if from_middle:
        way = experts_way(env)
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


def experts_way(env: CompanyEnv) -> list[Turn]:
    """The turns that the expert would take from here."""
    solved = env.fork()
    work(solved)
    return solved.turns[len(env.turns) :]


def _follow(env: CompanyEnv, told: Told, way: list[Turn]) -> None:
    for turn in way:
        env.step(turn.call)
        told.hear(turn.reply)


# -- failures ----------------------------------------------------------------------------------------------------------
# Each works an episode badly. By luck it may win, or not come to an end: whoever wants a failure looks at the verdict.


def _at_random(env: CompanyEnv, streams: Streams) -> None:
    """Makes any call that can be filled in."""
    play(env, Random(streams.at("agent").between(0, 10**9)))


def _hastily(env: CompanyEnv, streams: Streams) -> None:
    """Begins well, then closes the ticket on whatever it happens to know."""
    told, way = Told(env.setting.case.brief), experts_way(env)
    _follow(env, told, way[: streams.at("cut").between(0, len(way) - 2)])
    call = Candidates(told).fill(_CLOSING, streams.at("closing"))
    assert call is not None, "the brief names the ticket"
    env.step(_with(call, ticket_id=env.setting.case.ticket_id))


def _carelessly(env: CompanyEnv, streams: Streams) -> None:
    """Works as the expert does, but for one thing that it never looks at."""
    play(env, Careless(streams.at("habit").pick(list(HABITS.values()))))


def _mistakenly(env: CompanyEnv, streams: Streams) -> None:
    """Does all the work, then closes the ticket wrongly in one respect."""
    told, way, draw = Told(env.setting.case.brief), experts_way(env), streams.at("closing")
    _follow(env, told, way[:-1])
    last = way[-1].call
    field = draw.pick(("resolution", "reason", "evidence"))
    if field == "evidence":
        value: Any = last.params["evidence"][1:]
    else:
        value = draw.pick(Candidates(told).options(_CLOSING, field))
    env.step(_with(last, **{field: value}))


def _harmfully(env: CompanyEnv, streams: Streams) -> None:
    """Looks around on the way and does what cannot be put back, then the rest as if nothing had happened."""
    told, way = Told(env.setting.case.brief), experts_way(env)
    _follow(env, told, way[: streams.at("cut").between(0, len(way) - 1)])
    looks = MOST_SLIPS
    for attempt in range(_TRIES):
        call = Candidates(told, env.toolbox).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.lost() == "damage":
            env.step(call)
            # An expert that cannot go on leaves the ticket open: no failure that was seen to its end.
            with suppress(Stuck):
                work(env)
            return
        if looks and trial.turns[-1].reply.ok and not env.toolbox.tools[call.app, call.method].writes:
            _follow(env, told, trial.turns[-1:])
            looks -= 1


def _with(call: Call, **params: Any) -> Call:
    return Call(call.app, call.method, {**call.params, **params})


Failure = Callable[[CompanyEnv, Streams], None]
# Scripts are not among them: what they repeat was won on a held-out split.
FAILURES: dict[str, Failure] = {
    "random": _at_random,
    "hasty": _hastily,
    "careless": _carelessly,
    "mistaken": _mistakenly,
    "harmful": _harmfully,
}
