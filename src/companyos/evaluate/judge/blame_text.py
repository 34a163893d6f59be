"""Blame in sentences: why one episode was lost."""

from collections.abc import Iterable

from companyos.evaluate.judge.blame import ACT, DAMAGE, NOTHING, TIME, Blame

HOW = {
    ACT: "by an act that nothing takes back",
    DAMAGE: "by damage that cannot be put back",
    TIME: "for lack of time",
}
_BLIND = dict.fromkeys((ACT, DAMAGE), "Before that nothing had told it of") | {
    TIME: "To the end nothing had told it of",
    NOTHING: "By luck: nothing had told it of",
}


def sentences(one: Blame) -> Iterable[str]:
    """Yield a few sentences about one episode."""
    if one.kind == NOTHING:
        yield "Success." if one.success else "Not over."
    else:
        yield f"Lost at step {one.step}, {called(one.tool)}, {HOW[one.kind]}."
        if one.kind != TIME and one.late < one.step:
            yield f"Since step {one.late} too few steps had been left anyway."
        yield f"Due was: {one.due}" + (f" ({'; '.join(one.working)})" if one.working else "")
    if one.missed:
        yield f"Not reached: {', '.join(one.missed)}."
    if one.damage:
        yield f"Damage: {', '.join(one.damage)}."
    if one.blind and (one.success or one.kind != NOTHING):
        yield f"{_BLIND[one.kind]} {', '.join(one.blind)}."
    if one.misjudged:
        yield f"It had seen, and closed the ticket as if it were otherwise: {', '.join(one.misjudged)}."


def called(name: str) -> str:
    """The name of a tool or an app; a line that is no call has none."""
    return name.strip(".") or "no call"
