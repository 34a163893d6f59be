"""A strict parser for Dockerfiles. It refuses every instruction that our Dockerfile does not use."""

import json
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import msgspec

_KNOWN = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}


class Step(msgspec.Struct, frozen=True):
    """One instruction with its arguments."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments without options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    @property
    def options(self) -> dict[str, str]:
        given = [word[2:].split("=", 1) for word in shlex.split(self.text) if word.startswith("--")]
        return dict(given)

    @property
    def command(self) -> list[str]:
        """The command in its JSON form. Only in this form the process receives signals itself."""
        found: list[str] = json.loads(self.text[self.text.index("[") :])
        return found


class Stage(msgspec.Struct, frozen=True):
    """A build stage: its base image, its name, and its steps."""

    base: str
    name: str
    steps: tuple[Step, ...]

    def last(self, name: str) -> Step:
        """Return the last step of this name, which is the one in effect."""
        return [step for step in self.steps if step.name == name][-1]

    @property
    def environment(self) -> dict[str, str]:
        pairs = [word.split("=", 1) for step in self.steps if step.name == "ENV" for word in step.words]
        return dict(pairs)


def stages(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile in order. Raise `ValueError` for an unknown instruction."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found: list[Stage] = []
    for line in lines.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        step = Step(name.upper(), rest.strip())
        if step.name not in _KNOWN:
            raise ValueError(f"unknown instruction: {line}")
        if step.name == "FROM":
            base, *named = step.words
            found.append(Stage(base, named[1] if named else "", ()))
        else:
            found[-1] = Stage(found[-1].base, found[-1].name, (*found[-1].steps, step))
    return found


def held_back(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Return whether .dockerignore excludes a file. The last pattern that matches the file or one of its folders decides."""
    held = False
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        parts = [path, *path.parents][:-1]
        if wanted.startswith("**/"):
            fits = any(fnmatchcase(part.name, wanted.removeprefix("**/")) for part in parts)
        else:
            fits = any(fnmatchcase(str(part), wanted) for part in parts)
        if fits:
            held = not pattern.startswith("!")
    return held


def ignore_patterns(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
