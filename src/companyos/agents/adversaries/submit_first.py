"""An adversary that requests signatures before it checks anything, and learns the right ending from rejections."""

from companyos.agents.adversaries.scouting import EndingPattern, FilledForm, Scout, ending_patterns
from companyos.agents.routine import Routine
from companyos.company.programs import until_stuck
from companyos.core.calls import Procedure, Program
from companyos.env.observations import Observation
from companyos.families.kit import moves
from companyos.families.kit.moves import Move

# The reason for which tickets are closed after a rejection with this code, where code and reason have different names.
GROUNDS = {"within_limit": "not_reproducible", "beyond_term": "too_late", "nothing_to_do": "not_due"}


class SubmitFirst(Routine):
    """Prepares the ticket, checks nothing, and submits the form to one office after the other.

    If somebody signs, it completes the ticket. If a rejection names a reason for which such tickets are closed, it closes
    the ticket for that reason. Otherwise it uses the most frequent ending that needs no signature and records nothing.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(self._submit)

    def _submit(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return until_stuck(scout.hearing(self._work(scout)))

    def _work(self, scout: Scout) -> Procedure:
        yield from scout.prepare()
        known = ending_patterns(scout.family.name)
        found = (yield from self._asked(scout, known)) or next(
            (outcome for outcome in known if not (outcome.field or outcome.signed)), known[0]
        )
        for value in (yield from scout.named(found)) if found.field else ():
            yield from scout.record(found.field, value)
        yield from scout.close(found)

    def _asked(self, scout: Scout, known: tuple[EndingPattern, ...]) -> Move[EndingPattern | None]:
        """Return the ending that the approvers' answers suggest."""
        for request in (yield from scout.requests()):
            outcome = yield from self._answer(scout, request, known)
            if outcome is not None:
                return outcome
        return None

    def _answer(self, scout: Scout, request: FilledForm, known: tuple[EndingPattern, ...]) -> Move[EndingPattern | None]:
        decided = yield from scout.decided(request)
        if decided["status"] == "approved":
            yield from scout.record("approval", decided["id"])
            return next((outcome for outcome in known if outcome.signed), None)
        if decided["code"] == "stale":
            yield from moves.fresh_reading(decided["reason"].split()[0])
            return (yield from self._answer(scout, request, known))
        ground = GROUNDS.get(decided["code"], decided["code"])
        return next((outcome for outcome in known if outcome.reason == ground), None)
