"""Questions that a decision asks, and the ruling that it comes to."""

from collections.abc import Callable, Generator
from typing import TypeVar

from msgspec import Struct

from companyos.rules.conditions import Value
from companyos.rules.pieces import Piece, Then

T = TypeVar("T")


class Question(Struct, frozen=True):
    """A fact that a decision depends on. `how` are its parameters.

    A plain fact has none. `Question("edition", (limit, day))` asks which version of a limit was in force on that day: 0 for
    the present one, 1 for the one before it. `Question("covers", (form, office))` asks if an office may sign the form.
    A computed fact has the ways to work it out as parameters.
    """

    fact: str
    how: tuple[str, ...] = ()


class Ruling(Struct, frozen=True):
    """The result: which check decided (or `NO_CHECK`), and what has to be done, cited and signed."""

    check: str
    then: Then
    cites: tuple[str, ...]
    signers: tuple[str, ...]  # offices, in the order in which they sign
    used: tuple[Piece, ...]  # the pieces that the result depends on
    asked: tuple[str, ...] = ()  # the facts that the result depends on

    @property
    def ending(self) -> tuple[object, ...]:
        """The result without the pieces, to compare two rulings."""
        return self.check, self.then, self.cites, self.signers


Inquiry = Generator[Question, Value, T]  # asks questions, receives their answers, and returns a result


def answered(inquiry: Inquiry[T], answer: Callable[[Question], Value]) -> T:
    """Run an inquiry to its end, with a function that answers its questions."""
    try:
        question = next(inquiry)
        while True:
            question = inquiry.send(answer(question))
    except StopIteration as end:
        result: T = end.value
        return result
