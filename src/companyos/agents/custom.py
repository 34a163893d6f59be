"""Agents that users bring: a function, an object or a class, named `module:attribute` or `path/file.py:attribute`.

An agent is a callable that takes an observation and returns a call, or an object whose method `act` does that. A class of
such agents is constructed once for each episode, without arguments; a function or an object plays all episodes. A call is a
`Call`, or a dict with `app`, `method` and `params`.
"""

import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import iscoroutine, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from companyos.core.calls import Call
from companyos.core.errors import Misuse
from companyos.env.observations import Observation

Act = Callable[[Observation], Any]
CUSTOM_FORMS = ("MODULE:NAME", "FILE.py:NAME")  # of the names of such agents
_MAX_SHOWN = 80  # characters of a wrong action in an error


class AgentRaised(Exception):
    """A user's agent raised, or returned something that is not a call.

    The first line of the message has the exception and the first line of its message. The traceback follows.
    """


def summary_of(error: str) -> str:
    """Return the first line of the message of `AgentRaised`: the exception and what it says."""
    return error.partition("\n")[0]


class CustomAgent:
    """Plays one episode with a user's agent. Whatever the agent raises becomes `AgentRaised`."""

    def __init__(self, name: str, make_act: Callable[[], Act]) -> None:
        self._name = name
        self._make_act = make_act
        self._act: Act | None = None

    def act(self, obs: Observation) -> Call:
        """Return the agent's next call. At the first observation the agent is constructed; this may raise, too."""
        try:
            if self._act is None:
                self._act = self._make_act()
            action = self._act(obs)
        except (Exception, SystemExit) as error:  # the code is not ours: it may raise anything
            theirs = error.__traceback__.tb_next if error.__traceback__ else None
            lines = traceback.format_exception(type(error), error, theirs)
            raise AgentRaised(f"{_one_line(error)}\n\n{''.join(lines)}") from None
        return self._checked(action)

    def _checked(self, action: Any) -> Call:
        """Return an action as a call. An unknown tool or wrong arguments are left to the company, which refuses them."""
        if isinstance(action, Call):
            return action
        if isinstance(action, Mapping):
            try:
                return msgspec.convert(dict(action), Call)
            except msgspec.ValidationError as error:
                raise AgentRaised(f"TypeError: {self._name} returned a dict that is not a call: {error}") from None
        if iscoroutine(action):
            action.close()  # an async agent is not supported; without this, Python would warn that nothing awaits it
        shown = repr(action)[:_MAX_SHOWN]
        wanted = "a companyos.Call, or a dict with app, method and params"
        raise AgentRaised(f"TypeError: {self._name} returned {shown} ({type(action).__name__}); return {wanted}")


@cache
def load_agent(name: str) -> Callable[[], CustomAgent]:
    """Return a function that makes an agent for one episode. Raise `Misuse` with one line if the name cannot be loaded.

    Modules are searched in the current folder first, as `python -m` does. A file is loaded with its own folder first.
    """
    source, _, attribute = name.rpartition(":")
    loaded = _load_file(Path(source)) if source.endswith(".py") else _load_module(source)
    target: Any = loaded
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise Misuse(f"{source} has no {attribute!r}; it has {', '.join(_public_callables(loaded)) or 'no agents'}")
        target = getattr(target, part)
    make_act = _maker(name, target)
    return lambda: CustomAgent(name, make_act)


def is_custom(name: str) -> bool:
    """Return whether a name has the form of a user's agent: `module:attribute` or `path/file.py:attribute`."""
    source, _, attribute = name.rpartition(":")
    dotted = all(part.isidentifier() for part in source.split("."))
    return all(part.isidentifier() for part in attribute.split(".")) and (dotted or source.endswith(".py"))


def source_hash(name: str) -> str:
    """Return the SHA-256 of the file that defines a loaded agent. Empty if there is no such file, as for built-in modules.

    Modules that this file imports are not part of the hash.
    """
    source = name.rpartition(":")[0]
    path = Path(source if source.endswith(".py") else getattr(sys.modules[source], "__file__", None) or "")
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Misuse(f"there is no file {path}")
    _search_first(path.parent)
    spec = spec_from_file_location(f"_agent_{path.stem}", path)  # a name that hides no other module
    assert spec is not None, "Python can load any file whose name ends in .py"
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up there
    _run(partial(spec.loader.exec_module, module), str(path))
    return module


def _load_module(name: str) -> ModuleType:
    _search_first(Path.cwd())
    parents = name.split(".")
    for depth in range(1, len(parents) + 1):
        package = ".".join(parents[:depth])
        if _run(partial(find_spec, package), package) is None:
            raise Misuse(f"there is no module {package!r} in {Path.cwd()} or among the installed packages")
    module: ModuleType = _run(partial(import_module, name), name)
    return module


def _search_first(folder: Path) -> None:
    """Put a folder at the front of the search path for modules."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)


def _run(load: Callable[[], Any], source: str) -> Any:
    """Run code of the user's at import. Raise `Misuse` with the place and the error if it raises."""
    try:
        return load()
    except SyntaxError as error:
        raise Misuse(f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # the code is not ours: it may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise Misuse(f"cannot load {source}: {frame.filename}, line {frame.lineno}: {_one_line(error)}") from None


def _one_line(error: BaseException) -> str:
    """Return the name of an exception and the first line of its message."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _maker(name: str, target: Any) -> Callable[[], Act]:
    """Return a function that returns the agent's `act` for one episode."""
    if isinstance(target, type):
        has_act = hasattr(target, "act")
        if not has_act and not any("__call__" in vars(base) for base in target.__mro__):
            raise Misuse(f"{name} is a class whose objects have no method act and cannot be called")
        try:
            signature(target).bind()
        except TypeError as error:
            raise Misuse(
                f"{name} is constructed for each episode, without arguments, which does not work: {error}"
            ) from None
        return lambda: target().act if has_act else target()
    if callable(getattr(target, "act", None)):
        return lambda: target.act
    if callable(target):
        return lambda: target
    raise Misuse(f"{name} is no agent: it has no method act and cannot be called")


def _public_callables(module: ModuleType) -> list[str]:
    """Return the names of functions and classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]
