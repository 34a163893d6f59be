"""Dockerfiles: their stages and steps, read strictly. Whatever ours does not use is refused rather than overlooked."""

import json
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import msgspec

_KNOWN = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}


class Step(msgspec.Struct, frozen=True):
    """One instruction and what follows it."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What follows, without its options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    @property
    def options(self) -> dict[str, str]:
        given = [word[2:].split("=", 1) for word in shlex.split(self.text) if word.startswith("--")]
        return dict(given)

    @property
    def command(self) -> list[str]:
        """A command in its JSON form, which is the only one that gets signals itself."""
        found: list[str] = json.loads(self.text[self.text.index("[") :])
        return found


class Stage(msgspec.Struct, frozen=True):
    """An image on the way: its base, its name among the stages, and its steps."""

    base: str
    name: str
    steps: tuple[Step, ...]

    def last(self, name: str) -> Step:
        """The one that counts where the last one does."""
        return [step for step in self.steps if step.name == name][-1]

    @property
    def environment(self) -> dict[str, str]:
        pairs = [word.split("=", 1) for step in self.steps if step.name == "ENV" for word in step.words]
        return dict(pairs)


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in order; `ValueError` names what is not known here."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found: list[Stage] = []
    for line in lines.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        step = Step(name.upper(), rest.strip())
        if step.name not in _KNOWN:
            raise ValueError(f"a step that is not known here: {line}")
        if step.name == "FROM":
            base, *named = step.words
            found.append(Stage(base, named[1] if named else "", ()))
        else:
            found[-1] = Stage(found[-1].base, found[-1].name, (*found[-1].steps, step))
    return found


def held_back(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore keeps a file from the build: the last of its lines that fits the file, or a folder it is in."""
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
