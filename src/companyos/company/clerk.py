"""Programs of calls: generators that yield a call and receive its reply, and the steps that such programs share.

Experts, colleagues and scripted agents are all written as such programs. See `Program` in `core.calls`.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from companyos.core.calls import NO_ANSWER, Call, Program, Reply, Working
from companyos.core.errors import Stuck

T = TypeVar("T")
Y = TypeVar("Y")  # what a program yields: calls, or calls and working lines
Steps = Generator[Call, Reply, T]  # a part of a program that returns something
Row = dict[str, Any]


def advance(program: Generator[Y, Reply, Any], reply: Reply | None) -> Y | None:
    """Send a reply to a program, None to start it, and return what it yields next; None when it has ended."""
    try:
        return next(program) if reply is None else program.send(reply)
    except StopIteration:
        return None


def run(program: Generator[Call | Working, Reply, T], make: Callable[[Call], Reply]) -> T:
    """Run a program to its end, making each call with `make`, and return what the program returns."""
    try:
        step = next(program)
        while True:
            step = next(program) if isinstance(step, Working) else program.send(make(step))
    except StopIteration as end:
        result: T = end.value
        return result


def steered(program: Program, steer: Callable[[Call], Steps[Reply]]) -> Program:
    """Run a program whose calls are made by `steer`, which can change, repeat or skip a call and its reply."""
    try:
        call = next(program)
        while True:
            call = program.send((yield from steer(call)))
    except StopIteration:
        return


def until_stuck(program: Program) -> Program:
    """Run a program and end without an error where it raises `Stuck`."""
    try:
        yield from program
    except Stuck:
        return


def until_answered(call: Call) -> Steps[Reply]:
    """Repeat a call until an answer comes. Only for calls that do no harm when they are carried out twice."""
    while (reply := (yield call)).code == NO_ANSWER:
        pass
    return reply


def all_rows(show: Callable[[int], Generator[Y, Reply, Row]]) -> Generator[Y, Reply, list[Row]]:
    """Return the rows of all pages of a list. `show` reads the page with a given number; the first is 1."""
    rows: list[Row] = []
    page, last = 1, 1
    while page <= last:
        shown = yield from show(page)
        rows += shown["rows"]
        page, last = page + 1, shown.get("pages", 1)
    return rows


def stand_ins(person: Row, look_up: Callable[[Row], Generator[Y, Reply, Row]]) -> Generator[Y, Reply, list[Row]]:
    """Return a person and the chain of delegates up to the first who is in today: the last one signs.

    `look_up` reads the directory's entry of an absent person's delegate. A person without a delegate ends the chain.
    """
    chain = [person]
    while chain[-1]["presence"] != "in" and chain[-1]["delegate"]:
        chain.append((yield from look_up(chain[-1])))
    return chain
