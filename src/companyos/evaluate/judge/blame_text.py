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


def sentences(one: Blame) -> Iterable[str]:
    """Yield a few sentences about one episode."""
    if one.kind == NOTHING:
        yield "Success." if one.success else "Not over."
    else:
        yield f"Lost at step {one.step}, {called(one.tool)}, {HOW[one.kind]}."
        if one.kind != TIME and one.late < one.step:
            yield f"From step {one.late} on, too few steps were left anyway."
        yield f"The expert would have called: {one.due}" + (f" ({'; '.join(one.working)})" if one.working else "")
    if one.missed:
        yield f"Goals not reached: {', '.join(one.missed)}."
    if one.damage:
        yield f"Damage: {', '.join(one.damage)}."
    if one.blind and (one.success or one.kind != NOTHING):
        yield f"{_BLIND[one.kind]}: {', '.join(one.blind)}."
    if one.misjudged:
        facts = ", ".join(one.misjudged)
        yield f"Replies had shown these facts, but the ticket was closed as if they were otherwise: {facts}."


def called(name: str) -> str:
    """The name of a tool or an app; "no call" for an action that was not a call."""
    return name.strip(".") or "no call"
