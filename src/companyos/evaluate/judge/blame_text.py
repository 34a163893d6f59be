"""Blame in sentences: why one episode was lost."""

from collections.abc import Iterable

from companyos.evaluate.judge.blame import ACT, DAMAGE, NOTHING, TIME, Blame

HOW = {
    ACT: "by an act that nothing takes back",
    DAMAGE: "by damage that cannot be repaired",
    TIME: "for lack of time",
}
_BLIND = dict.fromkeys((ACT, DAMAGE), "Before that call, no reply had shown these deciding facts") | {
    TIME: "No reply ever showed these deciding facts",
    NOTHING: "This was luck: no reply had shown these deciding facts",
}


def sentences(blame: Blame) -> Iterable[str]:
    """Yield a few sentences about one episode."""
    if blame.kind == NOTHING:
        yield "Success." if blame.success else "Not over."
    else:
        yield f"Lost at step {blame.step}, {called(blame.tool)}, {HOW[blame.kind]}."
        if blame.kind != TIME and blame.late < blame.step:
            yield f"From step {blame.late} on, too few steps were left anyway."
        yield f"The expert would have called: {blame.due}" + (f" ({'; '.join(blame.working)})" if blame.working else "")
    if blame.missed:
        yield f"Goals not reached: {', '.join(blame.missed)}."
    if blame.damage:
        yield f"Damage: {', '.join(blame.damage)}."
    if blame.blind and (blame.success or blame.kind != NOTHING):
        yield f"{_BLIND[blame.kind]}: {', '.join(blame.blind)}."
    if blame.misjudged:
        facts = ", ".join(blame.misjudged)
        yield f"Replies had shown these facts, but the ticket was closed as if they were otherwise: {facts}."


def called(name: str) -> str:
    """Return the name of a tool or an app; "no call" for an action that was not a call."""
    return name.strip(".") or "no call"
