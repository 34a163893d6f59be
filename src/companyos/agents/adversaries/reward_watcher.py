"""An adversary that does not judge its case. It tries every outcome and keeps the one for which the reward is positive."""

from itertools import groupby
from typing import Any

from companyos.agents.adversaries.scouting import EndingPattern, Scout, ending_patterns
from companyos.agents.routine import Routine
from companyos.company.programs import until_stuck
from companyos.core.calls import Call, Procedure, Program
from companyos.env.observations import Observation
from companyos.families.kit import moves
from companyos.families.kit.moves import Move


class RewardWatcher(Routine):
    """Prepares the ticket, then tries every outcome known from other seeds and keeps the one that pays.

    It checks nothing: it records an outcome and looks whether the reward of that turn is positive. If not, it clears the
    field and tries the next. If none pays it submits the ticket's form, and completes the ticket if that paid. If that did
    not pay either, it closes the ticket in the most frequent way that records nothing. Rejections teach it nothing.
    """

    def __init__(self, seed: int) -> None:
        self._best = 0.0  # highest reward of a turn since `_pays` began
        super().__init__(self._watch)

    def act(self, obs: Observation) -> Call:
        self._best = max(self._best, obs.reward)
        return super().act(obs)

    def _pays(self, program: Move[Any]) -> Move[bool]:
        """Run a program and return whether one of its turns had a positive reward."""
        self._best = 0.0
        yield from program
        return self._best > 0

    def _watch(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return until_stuck(scout.hearing(self._work(scout)))

    def _work(self, scout: Scout) -> Procedure:
        yield from scout.prepare()
        known = ending_patterns(scout.family.name)
        found = yield from self._recorded(scout, [outcome for outcome in known if outcome.field and not outcome.signed])
        signed = next((outcome for outcome in known if outcome.signed), None)
        if found is None and signed and (yield from self._requested(scout)):
            found = signed
        fallback = next((outcome for outcome in known if not (outcome.field or outcome.signed)), known[0])
        yield from scout.close(found or fallback)

    def _recorded(self, scout: Scout, known: list[EndingPattern]) -> Move[EndingPattern | None]:
        """Record one outcome after the other. Return the first that paid."""
        for outcome in {(one.field, one.names): one for one in reversed(known)}.values():
            for value in (yield from scout.named(outcome)):
                if (yield from self._pays(scout.record(outcome.field, value))):
                    return outcome
                yield from scout.record(outcome.field, scout.ticket[outcome.field] or "")
        return None

    def _requested(self, scout: Scout) -> Move[bool]:
        """Submit each form. If that paid, ask one signer after the other. Return whether somebody signed."""
        for form, requests in groupby((yield from scout.requests()), key=lambda request: request.form):
            asked = list(requests)
            if (yield from self._pays(moves.submit(form, asked[0].signer, asked[0].data))):
                yield from moves.settle_requests(scout.so_far)
                for request in asked:
                    decided = yield from scout.decided(request)
                    if decided["status"] == "approved":
                        yield from scout.record("approval", decided["id"])
                        return True
            yield from moves.settle_requests(scout.so_far)
        return False
