"""Reference pages of the command line and of the Python interface."""

import inspect
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import companyos
from companyos import agents
from companyos.cli.main import parser
from companyos.cli.options import EXAMPLE, default_text
from companyos.core import errors
from companyos.data import demos
from companyos.integrations import client
from tools.markdown import code, one_line, page, sentence, table
from tools.sources import signature

# -- the command line --------------------------------------------------------------------------------------------------


def commands() -> str:
    about = "`companyos COMMAND --help` prints the same. Wrong input gives a one-line error and exit code 2."
    return page("Commands", about, *_commands(parser(), "companyos"))


def _commands(whole: ArgumentParser, name: str) -> Iterator[str]:
    for action in whole._actions:
        if isinstance(action, _SubParsersAction):
            for word, one in action.choices.items():
                yield from _command(one, f"{name} {word}")


def _command(one: ArgumentParser, name: str) -> Iterator[str]:
    yield f"## {name}"
    yield one.description or ""
    for example in (one.epilog or "").splitlines():
        yield f"{EXAMPLE}`{example.removeprefix(EXAMPLE)}`"
    options = [action for action in one._actions if action.help != SUPPRESS and action.dest != "help"]
    if rows := [_option(action) for action in options if not isinstance(action, _SubParsersAction)]:
        yield table(["argument", "default", "description"], rows)
    yield from _commands(one, name)


def _option(action: Action) -> list[str]:
    takes = "" if action.nargs == 0 else action.metavar or ("" if action.choices else action.dest.upper())
    flags = ", ".join(action.option_strings) or str(action.metavar)
    name = f"{flags} {takes}".strip() if action.option_strings else flags
    default = (
        "required"
        if action.required
        else "–"
        if action.default is None or action.nargs == 0
        else code(default_text(action.default) or "none")
    )
    choices = f"one of {', '.join(f'`{choice}`' for choice in action.choices)}" if action.choices else ""
    return [code(name), default, "; ".join(filter(None, [one_line(action.help or ""), choices]))]


# -- Python ------------------------------------------------------------------------------------------------------------

PYTHON = """\
The stable names. `import companyos` loads only the standard library and msgspec. Adapters for other frameworks are in
`companyos.integrations`; each imports only its own framework ([hosts](../hosts.md))."""


def python() -> str:
    names = {name: getattr(companyos, name) for name in companyos.__all__}
    functions = {name: one for name, one in names.items() if inspect.isfunction(one)}
    classes = {name: one for name, one in names.items() if inspect.isclass(one) and not issubclass(one, Exception)}
    return page(
        "Python",
        PYTHON,
        "## companyos",
        *(_function(one) for one in functions.values()),
        *(_class(one) for one in classes.values()),
        "## companyos.agents",
        _function(agents.make),
        _function(agents.play),
        "## companyos.demos",
        _function(demos.episodes),
        _function(demos.as_chat),
        "## companyos.integrations.client",
        _function(client.connect),
        _function(client.rollout),
        _class(client.Company),
        "## Errors",
        table(
            ["error", "description"], [[code(one.__name__), one_line(sentence(one.__doc__))] for one in exceptions(errors)]
        ),
    )


def _function(function: Callable[..., Any]) -> str:
    return f"### {function.__name__}\n\n```text\n{signature(function)}\n```\n\n{inspect.getdoc(function)}"


def _class(one: type) -> str:
    rows = []
    for name, member in vars(one).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            rows.append([code(signature(member)), one_line(sentence(member.__doc__))])
        elif isinstance(member, property) and member.fget:
            given = signature(member.fget).partition(" -> ")[2]
            rows.append([code(f"{name}: {given}"), one_line(sentence(member.__doc__))])
        elif isinstance(member, staticmethod | classmethod):
            rows.append([code(signature(member.__func__)), one_line(sentence(member.__doc__))])
    fields = ", ".join(f"`{field}`" for field in getattr(one, "__struct_fields__", ()))
    parts = [f"### {one.__name__}", inspect.getdoc(one) or "", f"Fields: {fields}." if fields else ""]
    return "\n\n".join(part for part in [*parts, table(["member", "description"], rows) if rows else ""] if part)


def exceptions(module: ModuleType) -> Iterable[type[Exception]]:
    return (
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == module.__name__
    )
