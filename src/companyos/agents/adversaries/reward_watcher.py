"""An adversary that does not judge its case. It records one outcome after the other and keeps the first that is rewarded.

An outcome is a value in a field of the ticket, such as the person in `escalated_to` (see `OUTCOME_FIELDS`).
"""

from itertools import groupby
from typing import Any

from companyos.agents.adversaries.scouting import EndingPattern, Scout, ending_patterns
from companyos.agents.routine import Routine
from companyos.company.programs import stop_when_stuck
from companyos.core.calls import Call, Procedure, Program
from companyos.env.observations import Observation
from companyos.families.kit import moves
from companyos.families.kit.moves import Move


class RewardWatcher(Routine):
    """Prepares the ticket, then tries every outcome that other seeds have recorded and keeps the first that pays.

    It checks nothing: it records an outcome and looks whether the reward of that turn is positive. If not, it restores the
    field and tries the next outcome. If none pays, it submits each form. If that pays and somebody signs, it closes the
    ticket with the most frequent ending that needs a signature. Otherwise it uses the most frequent ending that needs
    neither a recorded outcome nor a signature. It does not read why a signer rejects a form.
    """

    def __init__(self, seed: int) -> None:
        self._highest_reward = 0.0  # of a turn since `_pays` began
        super().__init__(self._watch)

    def act(self, obs: Observation) -> Call:
        self._highest_reward = max(self._highest_reward, obs.reward)
        return super().act(obs)

    def _pays(self, move: Move[Any]) -> Move[bool]:
        """Make a move and return whether one of its turns had a positive reward."""
        self._highest_reward = 0.0
        yield from move
        return self._highest_reward > 0

    def _watch(self, obs: Observation) -> Program:
        scout = Scout(obs)
        return stop_when_stuck(scout.remembering_replies(self._work(scout)))

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
        """Record the outcomes of these patterns, one after the other. Return the first pattern that paid."""
        # `patterns` begins with the most frequent. Reversed, it comes last and replaces the others with the same key.
        distinct = {(pattern.field, pattern.value_kind): pattern for pattern in reversed(patterns)}
        for pattern in distinct.values():
            for value in (yield from scout.outcome_ids(pattern)):
                if (yield from self._pays(scout.record(pattern.field, value))):
                    return pattern
                value_before = scout.ticket[pattern.field] or ""
                yield from scout.record(pattern.field, value_before)
        return None

    def _gets_signature(self, scout: Scout) -> Move[bool]:
        """Submit each form. If that paid, ask one signer after the other. Return whether somebody signed."""
        for form, group in groupby((yield from scout.requests()), key=lambda request: request.form):
            requests = list(group)
            if (yield from self._pays(moves.submit(form, requests[0].signer, requests[0].data))):
                yield from moves.withdraw_pending_requests(scout.so_far)
                for request in requests:
                    decision = yield from scout.submit_and_wait(request)
                    if decision["status"] == "approved":
                        yield from scout.record("approval", decision["id"])
                        return True
            yield from moves.withdraw_pending_requests(scout.so_far)
        return False
