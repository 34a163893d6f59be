"""Planted failures: episodes lost at a call that is known beforehand, by the rules of grading and not by any expert."""

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
from companyos.env import CompanyEnv, make, work
from companyos.evaluate.judge.blame import ACT, DAMAGE, TIME
from tests.laws import DOSES

IDLE = Call("ticketdesk", "my_changes", {})  # tells nothing, changes nothing, is always answered


class Planted(msgspec.Struct, frozen=True):
    """A failed episode, and what is to be blamed for it."""

    transcript: Transcript
    kind: str
    step: int


def planted(family: str, sort: str, number: int) -> list[Planted]:
    """So many failures of one sort (`act`, `slip` and then an act, `time`), at all doses, on the way of one who wins."""
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


# -- an act that nothing takes back ------------------------------------------------------------------------------------


def _act(env: CompanyEnv, way: Sequence[Call], draw: Draw) -> Planted | None:
    """All is well up to the act: the rest of the way would have won."""
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
    """Does what cannot be taken back, then goes on as if nothing had happened. None where it was not carried out."""
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
    """Stops on the way and looks at its own changes until the budget is out."""
    cut = draw.between(0, len(way) - 1)
    for call in (*way[:cut], *[IDLE] * env.max_steps):
        if not env.done:
            env.step(call)
    last = max(number for number in range(len(env.turns)) if _wins_after(env, number))
    return Planted(env.transcript(), TIME, last + 1)


def _wins_after(env: CompanyEnv, calls: int) -> bool:
    """Whether the expert, called in after so many calls, is done before the budget is: tried out from the first morning."""
    again = make(env.task_id, reward="sparse")
    for turn in env.turns[:calls]:
        again.step(turn.call)
    try:
        work(again)
    except Stuck:
        return False
    return bool(again.success)


_SORTS = {"act": _act, "slip": _slip, "time": _time}
