"""Submitting: an agent that asks for signatures before it checks anything, and lets rejections tell it how the case ends."""

from companyos.agents.adversaries.scouting import Outcome, Request, Scout, outcomes
from companyos.agents.routine import Routine
from companyos.company.clerk import until_stuck
from companyos.core.calls import Procedure, Program
from companyos.env.observations import Observation
from companyos.families.kit import moves
from companyos.families.kit.moves import Move

# The ground on which tickets end where a request was rejected with this code, if its own name is not that ground.
GROUNDS = {"within_limit": "not_reproducible", "beyond_term": "too_late", "nothing_to_do": "not_due"}


class SubmitFirst(Routine):
    """Prepares the ticket, checks nothing, and puts the form to one office after the other.

    If somebody signs it completes the ticket. If a rejection names a ground on which such tickets end, it closes the ticket
    on that ground. Otherwise it closes it in the most frequent way that needs no signature and records nothing.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(self._submit)

    def _submit(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return until_stuck(scout.hearing(self._work(scout)))

    def _work(self, scout: Scout) -> Procedure:
        yield from scout.prepare()
        known = outcomes(scout.family.name)
        found = (yield from self._asked(scout, known)) or next(
            (outcome for outcome in known if not (outcome.field or outcome.signed)), known[0]
        )
        for value in (yield from scout.named(found)) if found.field else ():
            yield from scout.record(found.field, value)
        yield from scout.close(found)

    def _asked(self, scout: Scout, known: tuple[Outcome, ...]) -> Move[Outcome | None]:
        """The outcome that the approvers' answers suggest."""
        for request in (yield from scout.requests()):
            outcome = yield from self._answer(scout, request, known)
            if outcome is not None:
                return outcome
        return None

    def _answer(self, scout: Scout, request: Request, known: tuple[Outcome, ...]) -> Move[Outcome | None]:
        decided = yield from scout.decided(request)
        if decided["status"] == "approved":
            yield from scout.record("approval", decided["id"])
            return next((outcome for outcome in known if outcome.signed), None)
        if decided["code"] == "stale":
            yield from moves.fresh_reading(decided["reason"].split()[0])
            return (yield from self._answer(scout, request, known))
        ground = GROUNDS.get(decided["code"], decided["code"])
        return next((outcome for outcome in known if outcome.reason == ground), None)
