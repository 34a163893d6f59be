"""Blame in sentences: why one episode was lost, as a colleague would tell it."""

from collections.abc import Iterator, Sequence

from companyos.evaluate.judge.blame import DAMAGE, NOTHING, RAISED, TIME, Blame
from companyos.evaluate.judge.deciding import FactInWords
from companyos.evaluate.judge.story import (
    INVALID_CALLS,
    REFUSED,
    REPEATING,
    UNANSWERED,
    WAITING,
    ExpertPlan,
    PendingRequest,
    Refusal,
    Story,
)

_SPENT = {
    WAITING: "waiting or looking for news",
    REPEATING: "reading the same again",
    INVALID_CALLS: "invalid calls",
    REFUSED: "refused calls",
    UNANSWERED: "calls without an answer",
}
_MAX_SHOWN = 200  # characters that are shown of a call or a refusal
_MAX_WORKING = 3  # working lines that are shown for a call


def headline(blame: Blame) -> str:
    """Return one sentence about an episode: what was done, and what should have been done."""
    story = blame.story
    assert story is not None
    if blame.kind == RAISED:
        return f"The agent raised an exception, which ended the episode at step {story.steps}: {blame.raised}"
    if blame.kind == NOTHING:
        if not blame.success:
            return f"Not over: {story.steps} of {story.max_steps} steps were made, and {story.ticket_id} is open."
        return "Success, but by luck: no reply had shown a fact that decides." if blame.luck else "Success."
    if blame.kind == TIME:
        return (
            f"Ran out of steps: all {story.max_steps} were used, and {story.ticket_id} was not closed. "
            f"It should have been closed as {story.required}."
        )
    if blame.kind == DAMAGE:
        harm = "; ".join(harm.text for harm in story.lasting_harm)
        return (
            f"Lost at step {blame.step} by damage that cannot be repaired: {harm}. "
            f"{story.ticket_id} should have been closed as {story.required}."
        )
    closed = f"Closed {story.ticket_id} as {story.closed} at step {blame.step}"
    if not story.ending_is_right:
        return f"{closed}; the policies required {story.required}."
    faults = [*story.missed, *(f"{harm.text}, though nothing called for it" for harm in story.harm)]
    return f"{closed}, which is right, but {faults[0]}." if faults else f"{closed}, which is right, but not correctly done."


def sentences(blame: Blame) -> Iterator[str]:
    """Yield the story of an episode: headline, policy, deciding facts, the call that lost it, and what else was wrong."""
    story = blame.story
    assert story is not None
    yield headline(blame)
    if blame.kind in (NOTHING, RAISED):
        if blame.luck:
            yield from map(_fact, story.facts)
        return
    if story.clause is not None:
        yield f'The policy says: "{story.clause.text}" ({story.clause.title}, {story.clause.policy_id})'
    if blame.kind != TIME and not story.ending_is_right:
        yield from map(_fact, story.facts)
    yield from _lost_at(blame, story)
    yield from _expert(story.plan)
    yield from _what_was_missed(blame, story)


def _fact(fact: FactInWords) -> str:
    return f"What decides it: {fact.meaning}. {fact.reading}"


def _lost_at(blame: Blame, story: Story) -> Iterator[str]:
    """Yield when the episode was lost and by which call."""
    if blame.kind == TIME:
        if story.spent:
            spent = ", ".join(f"{count} went into {_SPENT[kind]}" for kind, count in story.spent.items())
            yield f"Of the {story.steps} steps, {spent}."
        if story.refusal is not None:
            yield _refused(story.refusal, story.spent[REFUSED])
        yield from map(_pending, story.pending)
        yield f"The last moment to change course was step {blame.step}, where the agent sent: {_cut(story.call)}"
        return
    yield f"The call that lost it: step {blame.step}, {_cut(story.call)}"
    if blame.late < blame.step:
        yield f"From step {blame.late} on, too few steps were left anyway."


def _expert(plan: ExpertPlan) -> Iterator[str]:
    """Yield what the expert would have done at the decisive call."""
    if not plan.call:
        return
    if plan.reasoned_call:
        reasoned = f"{_cut(plan.reasoned_call)}{_because(plan.reasoned_working)}"
        yield f"The expert would have continued there, with this as its call {plan.reasoned_number}: {reasoned}"
    else:
        yield f"The expert would have called there: {_cut(plan.call)}{_because(plan.working)}"
    left = plan.calls - (plan.reasoned_number or 1)
    if left:
        finish = f"{_cut(plan.last_call)}{_because(plan.last_working)}"
        yield f"{left} {'call' if left == 1 else 'calls'} later it would have finished: {finish}"


def _what_was_missed(blame: Blame, story: Story) -> Iterator[str]:
    """Yield the missed goals and the damage that the headline does not mention."""
    told = headline(blame)
    yield from (f"Missed: {fault}." for fault in story.missed if fault not in told)
    yield from (f"Nothing called for this: {harm.text}." for harm in story.harm if harm.text not in told)


def _refused(refusal: Refusal, refused: int) -> str:
    """Return the most frequent refusal, and how many of the refused calls it answered."""
    text = _cut(refusal.text)
    if refused == 1:
        return f"The refused call: {text}"
    often = "All" if refusal.count == refused else f"{refusal.count} of the"
    return f"{often} {refused} refused calls: {text}"


def _pending(request: PendingRequest) -> str:
    absence = f", who is away until {request.away_until}" if request.away_until else ""
    return f"{request.request_id} was still waiting for {request.approver}{absence}."


def _because(working: Sequence[str]) -> str:
    """Return the last comparisons that lead to a call. Earlier ones are about checks that were passed."""
    return f" (because {'; '.join(working[-_MAX_WORKING:])})" if working else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
