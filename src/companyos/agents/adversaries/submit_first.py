"""An adversary that requests signatures before it checks anything, and learns the right ending from rejections."""

from companyos.agents.adversaries.scouting import EndingPattern, FilledForm, Scout, ending_patterns
from companyos.agents.routine import Routine
from companyos.company.programs import stop_when_stuck
from companyos.core.calls import Procedure, Program
from companyos.env.observations import Observation
from companyos.families.kit import moves
from companyos.families.kit.moves import Move

# By the code of a rejection: the reason for which such a ticket is closed, where the two have different names.
REASONS_BY_CODE = {"within_limit": "not_reproducible", "beyond_term": "too_late", "nothing_to_do": "not_due"}


class SubmitFirst(Routine):
    """Prepares the ticket, checks nothing, and submits the form to one office after the other.

    If somebody signs, it completes the ticket. If a rejection names a reason for which such tickets are closed, it closes
    the ticket for that reason. Otherwise it uses the most frequent ending that needs no signature and records nothing.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(self._submit)

    def _submit(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return stop_when_stuck(scout.remembering_replies(self._work(scout)))

    def _work(self, scout: Scout) -> Procedure:
        yield from scout.prepare()
        patterns = ending_patterns(scout.family.name)
        fallback = next((pattern for pattern in patterns if not (pattern.field or pattern.signed)), patterns[0])
        ending = (yield from self._ending_after_requests(scout, patterns)) or fallback
        if ending.field:
            for value in (yield from scout.outcome_ids(ending)):
                yield from scout.record(ending.field, value)
        yield from scout.close(ending)

    def _ending_after_requests(self, scout: Scout, patterns: tuple[EndingPattern, ...]) -> Move[EndingPattern | None]:
        """Submit requests until the answer to one suggests an ending. Return that ending."""
        for request in (yield from scout.requests()):
            ending = yield from self._ending_after(request, scout, patterns)
            if ending is not None:
                return ending
        return None

    def _ending_after(
        self, request: FilledForm, scout: Scout, patterns: tuple[EndingPattern, ...]
    ) -> Move[EndingPattern | None]:
        """Submit a request and return the ending that the answer suggests."""
        decision = yield from scout.submit_and_wait(request)
        if decision["status"] == "approved":
            yield from scout.record("approval", decision["id"])
            return next((pattern for pattern in patterns if pattern.signed), None)
        if decision["code"] == "stale":
            metric = decision["reason"].split()[0]  # the reason begins with the name of the metric that is too old
            yield from moves.fresh_reading(metric)
            return (yield from self._ending_after(request, scout, patterns))
        reason = REASONS_BY_CODE.get(decision["code"], decision["code"])
        return next((pattern for pattern in patterns if pattern.reason == reason), None)
