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
        self._highest_reward = 0.0  # of a turn since `_pays` began
        super().__init__(self._watch)

    def act(self, obs: Observation) -> Call:
        self._highest_reward = max(self._highest_reward, obs.reward)
        return super().act(obs)

    def _pays(self, program: Move[Any]) -> Move[bool]:
        """Run a program and return whether one of its turns had a positive reward."""
        self._highest_reward = 0.0
        yield from program
        return self._highest_reward > 0

    def _watch(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return until_stuck(scout.hearing(self._work(scout)))

    def _work(self, scout: Scout) -> Procedure:
        yield from scout.prepare()
        patterns = ending_patterns(scout.family.name)
        recorded = [pattern for pattern in patterns if pattern.field and not pattern.signed]
        ending = yield from self._first_that_pays(scout, recorded)
        signed = next((pattern for pattern in patterns if pattern.signed), None)
        if ending is None and signed and (yield from self._gets_signature(scout)):
            ending = signed
        fallback = next((pattern for pattern in patterns if not (pattern.field or pattern.signed)), patterns[0])
        yield from scout.close(ending or fallback)

    def _first_that_pays(self, scout: Scout, patterns: list[EndingPattern]) -> Move[EndingPattern | None]:
        """Record one outcome after the other. Return the first that paid."""
        # Of patterns that record the same, keep the most frequent: it is the last one of the reversed list.
        distinct = {(pattern.field, pattern.names): pattern for pattern in reversed(patterns)}
        for pattern in distinct.values():
            for value in (yield from scout.outcome_ids(pattern)):
                if (yield from self._pays(scout.record(pattern.field, value))):
                    return pattern
                yield from scout.record(pattern.field, scout.ticket[pattern.field] or "")
        return None

    def _gets_signature(self, scout: Scout) -> Move[bool]:
        """Submit each form. If that paid, ask one signer after the other. Return whether somebody signed."""
        for form, group in groupby((yield from scout.requests()), key=lambda request: request.form):
            requests = list(group)
            if (yield from self._pays(moves.submit(form, requests[0].signer, requests[0].data))):
                yield from moves.settle_requests(scout.so_far)
                for request in requests:
                    decided = yield from scout.decided(request)
                    if decided["status"] == "approved":
                        yield from scout.record("approval", decided["id"])
                        return True
            yield from moves.settle_requests(scout.so_far)
        return False
