"""Functions that run programs of calls, and parts that such programs share.

A program of calls is a generator that yields a call and receives its reply.
Experts, colleagues and scripted agents are all written as such programs. See `Program` in `core.calls`.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from companyos.core.calls import NO_ANSWER, Call, Program, Reply, Working
from companyos.core.errors import Stuck

T = TypeVar("T")
Y = TypeVar("Y")  # what a program yields: calls, or calls and working lines
Subprogram = Generator[Call, Reply, T]  # a part of a program; it returns a T
Row = dict[str, Any]  # a record as a reply shows it: its fields by name


def advance(program: Generator[Y, Reply, Any], reply: Reply | None) -> Y | None:
    """Send `reply` to a program and return what it yields next, or None if it has ended. A reply of None starts it."""
    try:
        return next(program) if reply is None else program.send(reply)
    except StopIteration:
        return None


def run(program: Generator[Call | Working, Reply, T], make_call: Callable[[Call], Reply]) -> T:
    """Run a program to its end, pass each of its calls to `make_call`, and return what the program returns."""
    try:
        item = next(program)
        while True:
            item = next(program) if isinstance(item, Working) else program.send(make_call(item))
    except StopIteration as end:
        result: T = end.value
        return result


def steered(program: Program, steer: Callable[[Call], Subprogram[Reply]]) -> Program:
    """Run a program, but pass each of its calls to `steer`.

    `steer` makes the calls that it wants (the same, another, several or none) and returns the reply for the program.
    """
    try:
        call = next(program)
        while True:
            call = program.send((yield from steer(call)))
    except StopIteration:
        return


def stop_when_stuck(program: Program) -> Program:
    """Run a program. If it raises `Stuck`, that is, if it cannot go on, end without an error."""
    try:
        yield from program
    except Stuck:
        return


def until_answered(call: Call) -> Subprogram[Reply]:
    """Repeat a call until an answer comes. Only for calls that do no harm when they are carried out twice."""
    while (reply := (yield call)).code == NO_ANSWER:
        pass
    return reply


def all_rows(read_page: Callable[[int], Generator[Y, Reply, Row]]) -> Generator[Y, Reply, list[Row]]:
    """Return the rows of all pages of a list. `read_page` reads the page with a given number; the first is 1."""
    rows: list[Row] = []
    number, last = 1, 1
    while number <= last:
        page = yield from read_page(number)
        rows += page["rows"]
        number, last = number + 1, page.get("pages", 1)
    return rows


def delegate_chain(person: Row, look_up: Callable[[Row], Generator[Y, Reply, Row]]) -> Generator[Y, Reply, list[Row]]:
    """Return the person, the person's delegate, the delegate's delegate and so on, until somebody is present today.

    The last person in the list signs. `look_up` reads the directory's entry of an absent person's delegate. A person
    without a delegate ends the chain.
    """
    chain = [person]
    while chain[-1]["presence"] != "in" and chain[-1]["delegate"]:
        chain.append((yield from look_up(chain[-1])))
    return chain
