"""Errors: every error we raise, and who is meant to see it.

Three kinds, and no fourth:

* `Refused` is a rule of the company. The toolbox turns it into a reply with a stable code; the episode goes on.
* `ValueError` (here `BadTask`, `BadDose`, `BadChoice`, `BadPlugin`) is a mistake of the person who calls our Python: one
  line that lists what is valid.
* `Stuck` is an expert that cannot go on; `Unsolvable`, `LawBroken` and `ReplayDiffers` are verdicts of `prove`, of the laws
  and of `replay`: the episode, the family or the file is not what it claims.

Anything else is a bug of ours. Nobody catches it; it stops the run loudly.
"""

from collections.abc import Iterable


class Refused(Exception):
    """A rule of the company says no. `code` never changes; `message` says the rule, never the solution."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class BadTask(ValueError):
    """A task id, family, split or cause that does not exist."""


class BadDose(ValueError):
    """A dial that does not exist, or a dose outside [0, 1]."""


class BadChoice(ValueError):
    """A name that is not in one of our registries (agent, reward profile, observation form)."""

    def __init__(self, what: str, given: object, valid: Iterable[str]) -> None:
        super().__init__(f"unknown {what} {given!r}; valid: {', '.join(valid)}")


class BadPlugin(ValueError):
    """What another distribution brings is nothing that we can use."""


class Stuck(Exception):
    """An expert met what its way of working has no answer to. Where the task can still be won: a defect of the family."""


class Unsolvable(Exception):
    """The expert could not do the task from what it was told. A defect of the family, never of the agent."""


class LawBroken(Exception):
    """A family does not keep a law that all keep. The message names the task, so family and seed, and the cause."""


class ReplayDiffers(Exception):
    """A transcript does not follow from its own task id and calls."""


class Misuse(ValueError):
    """A command line that cannot be carried out. The message is one line."""
