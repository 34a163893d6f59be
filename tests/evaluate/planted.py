"""Planted failures: episodes whose decisive call is known from the rules of grading, without asking an expert."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import get_args

import msgspec

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.company import Person, Ticket
from companyos.company.apps.ticketdesk import Reason, Resolution
from companyos.core.calls import Call
from companyos.core.episode import Transcript
from companyos.core.errors import Stuck
from companyos.core.world import Draw, Streams
from companyos.env import CompanyEnv, make, run_expert
from companyos.evaluate.judge.blame import ACT, DAMAGE, TIME
from tests.laws import DOSES

IDLE = Call("ticketdesk", "my_changes", {})  # shows nothing new, changes nothing, and is always answered


class Planted(msgspec.Struct, frozen=True):
    """A failed episode, with the kind and step that blame must find."""

    transcript: Transcript
    kind: str
    step: int


def planted(family: str, sort: str, number: int) -> list[Planted]:
    """Make `number` failures of one sort, at all doses, each from an episode that was won.

    `act`: a final wrong act; `slip`: first a mistake that could be corrected, then such an act; `time`: out of steps.
    """
    found: list[Planted] = []
    for seed in count():
        if len(found) == number:
            return found
        env = make(family, seed=seed, chaos=DOSES[seed % len(DOSES)], split="validation", reward="sparse")
        winner = play(env.fork(), make_agent("jittered" if seed % 2 else "expert", seed))
        assert winner.success, winner.task_id
        way = [turn.call for turn in winner.turns]
        made = _SORTS[sort](env, way, Streams(f"planted/{sort}/{seed}").at(family))
        if made is not None:
            assert made.transcript.footer.success is False
            found.append(made)
    raise AssertionError("seeds do not end")


# -- an act that cannot be undone --------------------------------------------------------------------------------------


def _act(env: CompanyEnv, way: Sequence[Call], draw: Draw) -> Planted | None:
    """Everything before the act is right: the rest of the winning calls would have won."""
    cut = draw.between(0, len(way) - 1)
    for call in way[:cut]:
        env.step(call)
    return _spoil(env, way[cut:], draw)


def _slip(env: CompanyEnv, way: Sequence[Call], draw: Draw) -> Planted | None:
    """A field of the ticket is overwritten first; setting it back and going on would have won."""
    cuts = sorted(draw.between(0, len(way) - 1) for _ in range(2))
    for call in way[: cuts[0]]:
        env.step(call)
    ticket = env.world.get(Ticket, env.setting.case.ticket_id)
    if ticket.assignee is None:
        return None
    other = next(person.id for person in env.world.all(Person) if person.id != ticket.assignee)
    there, back = (
        Call("ticketdesk", "update_ticket", {"ticket_id": ticket.id, "field": "assignee", "value": value})
        for value in (other, ticket.assignee)
    )
    env.step(there)
    if not env.turns[-1].reply.ok:
        return None
    for call in way[cuts[0] : cuts[1]]:
        env.step(call)
    mended = env.fresh_budget()
    for call in (back, *way[cuts[1] :]):
        mended.step(call)
    return _spoil(env, way[cuts[1] :], draw) if mended.success and not env.done else None


def _spoil(env: CompanyEnv, rest: Sequence[Call], draw: Draw) -> Planted | None:
    """Do something irreversible, then make the rest of the calls. None if the act was not carried out."""
    kind, call = draw.pick(list(_irreversible(env, draw)))
    env.step(call)
    step = env.step_count
    if not env.turns[-1].reply.ok:
        return None
    for later in (*rest, *[IDLE] * env.max_steps):
        if not env.done:
            env.step(later)
    return Planted(env.transcript(), kind, step)


def _irreversible(env: CompanyEnv, draw: Draw) -> Iterator[tuple[str, Call]]:
    ticket, right = env.world.get(Ticket, env.setting.case.ticket_id), env.setting.ending
    others = [(r, g) for r in get_args(Resolution) for g in get_args(Reason) if (r, g) != (right.resolution, right.reason)]
    resolution, reason = draw.pick(others)
    wrong = {"ticket_id": ticket.id, "resolution": resolution, "reason": reason, "evidence": []}
    yield ACT, Call("ticketdesk", "resolve_ticket", wrong)
    strange = next(other for other in env.world.all(Ticket) if other.desk != ticket.desk)
    yield DAMAGE, Call("ticketdesk", "comment", {"ticket_id": strange.id, "text": "Is this one still open?"})
    for other in env.world.all(Ticket):
        if other.desk == ticket.desk and other.id != ticket.id and other.status == "open" and not other.blocked_by:
            kind = ACT if other.id in env.setting.linked else DAMAGE
            yield kind, Call("ticketdesk", "resolve_ticket", {**wrong, "ticket_id": other.id})
            return


# -- time --------------------------------------------------------------------------------------------------------------


def _time(env: CompanyEnv, way: Sequence[Call], draw: Draw) -> Planted | None:
    """Make some of the calls, then list the own changes until the budget is used up."""
    cut = draw.between(0, len(way) - 1)
    for call in (*way[:cut], *[IDLE] * env.max_steps):
        if not env.done:
            env.step(call)
    last = max(number for number in range(len(env.turns)) if _wins_after(env, number))
    return Planted(env.transcript(), TIME, last + 1)


def _wins_after(env: CompanyEnv, calls: int) -> bool:
    """Whether the expert, taking over after this many calls, wins within the budget. Tried from the start."""
    again = make(env.task_id, reward="sparse")
    for turn in env.turns[:calls]:
        again.step(turn.call)
    try:
        run_expert(again)
    except Stuck:
        return False
    return bool(again.success)


_SORTS = {"act": _act, "slip": _slip, "time": _time}
