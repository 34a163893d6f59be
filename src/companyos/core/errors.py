"""All errors of this package, and who is meant to see them.

There are three kinds:

* `Refused`: a rule of the company forbids a call. The caller gets a reply with the code and the message of the error, and
  the episode goes on. `Toolbox` in `company/apps/tool.py` runs all tools and makes this reply.
* `ValueError` (`BadTask`, `BadDose`, `BadChoice`, `BadPlugin`, `Misuse`): a mistake of the user. The message is one line
  and lists what is valid.
* `Stuck`, `Unsolvable`, `LawBroken`, `ReplayDiffers`: an expert cannot go on, or a check of a task, of a family or of a
  transcript failed.

Every other exception is a bug in this package. Nothing catches it, so it stops the run. Code that a user brings as an agent
may raise anything: `agents/custom.py` turns that into `AgentRaised`, and the agent loses its episode.
"""

from collections.abc import Iterable


class Refused(Exception):
    """A rule of the company forbids a call. `code` never changes; `message` states the rule, never the solution."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class BadTask(ValueError):
    """A task id, family, split or cause that does not exist."""


class BadDose(ValueError):
    """A dial that does not exist, or a dose outside [0, 1]."""


class BadChoice(ValueError):
    """A name or value that is not valid, such as an unknown agent or reward profile. The message lists what is valid."""

    def __init__(self, what: str, name: object, valid: Iterable[str]) -> None:
        super().__init__(f"unknown {what} {name!r}; valid: {', '.join(valid)}")


class BadPlugin(ValueError):
    """A plug-in of another distribution that cannot be used."""


class Stuck(Exception):
    """An expert does not know how to go on. If the task can still be won, this is a defect of the family."""


class Unsolvable(Exception):
    """The expert could not solve a task from what the replies showed. This is a defect of the family."""


class LawBroken(Exception):
    """A family breaks a law: a property that all families must have. The message names the task and the cause."""


class ReplayDiffers(Exception):
    """Replaying the calls of a transcript gives other lines than the recorded ones."""


class Misuse(ValueError):
    """A command line that cannot be carried out. The message is one line."""


def install_hint(extra: str) -> str:
    """Return the end of an error message: how to install an extra. CompanyOS is not on PyPI, so a checkout is needed."""
    return f"{install_command(extra)} in a checkout"


def install_command(extra: str) -> str:
    """Return the command that installs an extra in a checkout."""
    return f'pip install ".[{extra}]"'
