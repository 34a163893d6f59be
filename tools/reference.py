"""Reference: what there is to call, to name and to set. `python -m tools.reference` writes docs/reference/ anew.

All of it follows from the registries and from the code as it is written, so a test says when a page is out of date.
"""

import inspect
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

import companyos
from companyos import agents, calls, client, demos, errors, rewards
from companyos.agents import AGENTS
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.careless import HABITS
from companyos.apps import EXTRAS, TOOLBOX, Tool
from companyos.chaos import DIALS, PRESETS
from companyos.cli import parser
from companyos.evaluate.roster import OPENERS
from companyos.evaluate.suite import SUITES, suite
from companyos.lines import argument_help, usage
from companyos.rewards import PROFILES
from companyos.serve import errors as served
from companyos.serve.settings import PREFIX, Settings
from tools.markdown import sentence, table
from tools.sources import comments, refusals, signature

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WRITTEN = "*Written by `make pages`, from the code itself; please do not edit.*"


def _page(title: str, about: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", about, *parts, WRITTEN]) + "\n"


def _code(text: object) -> str:
    """As code in a table, whose bars would end the cell."""
    return f"`{text}`".replace("|", "\\|")


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- tools -------------------------------------------------------------------------------------------------------------

TOOLS = """The {count} tools of the three apps, as an agent sees them. Each takes minutes of the company's time; **writes** says
that it changes something; **may fail to answer** says that dial `flaky` can strike it. A refusal has written nothing; beside the
codes named here every tool may answer `bad_arguments` or, at a dose, `no_answer` ([all codes](codes.md))."""
CLUTTER = """## Tools that no work needs

Dial `tool_clutter` offers some of these {count} as well. They do what they say, and what they write is damage like any other's."""


def tools() -> str:
    parts = []
    for app in TOOLBOX.apps:
        parts += [f"## {app}", *(_tool(tool) for tool in TOOLBOX if tool.app == app)]
    rows = [[_code(tool.name), _one_line(tool.description)] for tool in EXTRAS]
    clutter = [CLUTTER.format(count=len(EXTRAS)), table(["tool", "what it does"], rows)]
    return _page("Tools", TOOLS.format(count=len(list(TOOLBOX))), *parts, *clutter)


def _tool(tool: Tool) -> str:
    traits = [f"{tool.minutes} min"] + ["**writes**"] * tool.writes + ["**may fail to answer**"] * (not tool.steady)
    lines = [f"### {tool.method}", f"`{usage(tool)}` · {' · '.join(traits)}", tool.description]
    if tool.hints:
        properties = tool.schema["function"]["parameters"]["properties"]
        rows = [[_code(name), _kind(properties[name]), _default(tool, name), _one_line(argument_help(tool, name))] for name in tool.hints]
        lines.append(table(["argument", "kind", "unless given", "what it is"], rows))
    if codes := refusals(tool.function):
        lines.append(f"Refuses with {', '.join(f'`{code}`' for code in codes)}.")
    return "\n\n".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    kinds = ["choice" if "enum" in one else one.get("type", "any") for one in schema.get("anyOf", [schema])]
    return " or ".join(dict.fromkeys("nothing" if kind == "null" else str(kind) for kind in kinds))


def _default(tool: Tool, name: str) -> str:
    if name in tool.required:
        return "required"
    [default] = [field.default for field in msgspec.structs.fields(tool.arguments) if field.name == name]
    return "–" if default in (None, "") else _code(default)


# -- what can be named -------------------------------------------------------------------------------------------------

CHAOS = """`chaos=` takes one dose from 0 to 1 for all dials, `{"stale": 0.5, "flaky": 1.0}` for some of them, or a preset by
its name. What strikes at 0.3 strikes at 0.6, no dial changes what is right, and every one leaves a way out. What each costs
somebody who does not mind it stands on the [families' pages](../families/README.md)."""


def dials() -> str:
    rows = [
        [
            _code(one.dial),
            _code(one.letter),
            sentence(type(one).__doc__),
            ", ".join(str(level) for level in one.levels[1:]) if len(one.levels) > 2 else "",
            sentence(HABITS[one.dial].__doc__),
        ]
        for one in DIALS.values()
    ]
    days = [[_code(name), f"all dials at {dose:g}"] for name, dose in PRESETS.items() if isinstance(dose, float)]
    days.append(["`only_DIAL`", "that dial alone, at 1"])
    heading = ["dial", "in task ids", "what one sees; what was written; what recovers", "levels", "who loses by it"]
    return _page("Dials", CHAOS, table(heading, rows), "## Presets", table(["preset", "what it is"], days))


AGENT = """`companyos eval --agent NAME`, `companyos watch TASK --agent NAME`, `agents.make(name, seed)`. The expert and the
jittered one do the work; all others are adversaries, and what they reach is [the floor](../floor.md). Of a policy that comes in
variants, the trial's number is the variant's."""


def agent_names() -> str:
    rows = []
    for name, make in AGENTS.items():
        adversary = ADVERSARIES.get(name)
        variants = "yes" if adversary and adversary.variants else ""
        rows.append([_code(name), adversary.group if adversary else "does the work", variants, _one_line(sentence(make.__doc__))])
    more = [[_code(f"{kind}:{opener.__doc__}"), NAMED[kind]] for kind, opener in OPENERS.items()]
    habits = [[_code(f"careless:{dial}"), sentence(habit.__doc__)] for dial, habit in HABITS.items()]
    return _page(
        "Agents",
        AGENT,
        table(["agent", "group", "variants", "what it does"], rows),
        "## By something more than a name",
        table(["name", "who that is"], more),
        "## Experts with one bad habit",
        table(["name", "the habit"], habits),
    )


NAMED = {
    "variant": "one variant of a policy that has several",
    "careless": "the expert who does not mind one dial",
    "saved": "whoever played the transcripts that lie in a folder",
    "openai": "a language model behind an OpenAI-compatible endpoint (`companyos[llm]`)",
    "local": "what `companyos train sft` or `grpo` wrote (`companyos[train]`)",
    "tiny": "what `companyos train tiny` wrote (`companyos[tiny]`)",
}


def suites() -> str:
    about = "Frozen lists of task ids. How they are used, and how to have one drawn after your agent is fixed: [measuring agents](../evaluate.md)."
    rows = []
    for name, what in SUITES.items():
        one = suite(name)
        splits = ", ".join(dict.fromkeys(task.split("-")[2] for task in one.tasks))
        rows.append([_code(name), what, str(len(one.tasks)), str(len(one.pairs) or ""), splits, str(one.version), _code(one.hash)])
    return _page("Suites", about, table(["suite", "what", "tasks", "pairs", "split", "version", "hash"], rows))


REWARD = """`make(..., reward=NAME)`. A turn's reward is the sum of named parts (`turn.parts`). Whatever the profile, success is
judged by the state that is left behind; that every success beats every failure, and that nothing can be farmed, is computed from
these constants and attacked by search in the tests."""


def reward_profiles() -> str:
    rows = [[_code(name), sentence(profile.__doc__)] for name, profile in PROFILES.items()]
    constants = {
        "success": f"{rewards.SUCCESS:+g}",
        "failure": f"{rewards.FAILURE:+g}".replace("-", "−"),
        "a step": f"−{rewards.STEP:g}, and for all steps of an episode together at most {rewards.STEP * rewards.STEPS_CHARGED:g}",
        "a refused call": _shrinks(rewards.FAILED_CALL),
        "a request rejected for good reason": _shrinks(rewards.REJECTION),
        "a tool that is not there": _shrinks(rewards.UNKNOWN_TOOL),
        "all milestones of a task": f"from {rewards.LEAST_POTENTIAL:g} to {rewards.MOST_POTENTIAL:g}; given back when undone",
        "all penalties of an episode": f"at most {rewards.most_penalty():.1f}",
        "no answer": "nothing: it is the company's doing",
    }
    return _page(
        "Rewards",
        REWARD,
        table(["profile", "what it pays"], rows),
        "## Profile `seed` in numbers",
        table(["for", "paid"], [[what, worth] for what, worth in constants.items()]),
    )


def _shrinks(cost: tuple[float, float]) -> str:
    return f"−{cost[0]:g}, the next {cost[1]:g} times as much, and so on"


# -- the command line --------------------------------------------------------------------------------------------------


def commands() -> str:
    about = "`companyos COMMAND --help` says the same. A caller's mistake is one line and exit code 2."
    return _page("Commands", about, *_commands(parser(), "companyos"))


def _commands(whole: ArgumentParser, name: str) -> Iterator[str]:
    for action in whole._actions:
        if isinstance(action, _SubParsersAction):
            for word, one in action.choices.items():
                yield from _command(one, f"{name} {word}")


def _command(one: ArgumentParser, name: str) -> Iterator[str]:
    yield f"## {name}"
    yield one.description or ""
    options = [action for action in one._actions if action.help != SUPPRESS and action.dest != "help"]
    if rows := [_option(action) for action in options if not isinstance(action, _SubParsersAction)]:
        yield table(["argument", "unless given", "what it is"], rows)
    yield from _commands(one, name)


def _option(action: Action) -> list[str]:
    takes = "" if action.nargs == 0 else action.metavar or ("" if action.choices else action.dest.upper())
    flags = ", ".join(action.option_strings) or str(action.metavar)
    name = f"{flags} {takes}".strip() if action.option_strings else flags
    default = "required" if action.required else "–" if action.default is None or action.nargs == 0 else _code(_said(action.default))
    choices = f"one of {', '.join(f'`{choice}`' for choice in action.choices)}" if action.choices else ""
    return [_code(name), default, "; ".join(filter(None, [_one_line(action.help or ""), choices]))]


def _said(value: object) -> str:
    if isinstance(value, range):
        return f"{value.start}:{value.stop}"
    if isinstance(value, dict):
        return ",".join(f"{key}={share:g}" for key, share in value.items())
    if isinstance(value, list | tuple):
        return ",".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- Python ------------------------------------------------------------------------------------------------------------

PYTHON = """The names that stay. `import companyos` loads the standard library, msgspec and nothing heavier; adapters live in
`companyos.integrations` and import their hosts alone ([hosts](../hosts.md))."""


def python() -> str:
    names = {name: getattr(companyos, name) for name in companyos.__all__}
    functions = {name: one for name, one in names.items() if inspect.isfunction(one)}
    classes = {name: one for name, one in names.items() if inspect.isclass(one) and not issubclass(one, Exception)}
    return _page(
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
        "## companyos.client",
        _function(client.connect),
        _function(client.rollout),
        _class(client.Company),
        "## Errors",
        table(["error", "what it is"], [[_code(one.__name__), _one_line(sentence(one.__doc__))] for one in _exceptions(errors)]),
    )


def _function(function: Callable[..., Any]) -> str:
    return f"### {function.__name__}\n\n```text\n{signature(function)}\n```\n\n{inspect.getdoc(function)}"


def _class(one: type) -> str:
    rows = []
    for name, member in vars(one).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            rows.append([_code(signature(member)), _one_line(sentence(member.__doc__))])
        elif isinstance(member, property) and member.fget:
            given = signature(member.fget).partition(" -> ")[2]
            rows.append([_code(f"{name}: {given}"), _one_line(sentence(member.__doc__))])
        elif isinstance(member, staticmethod | classmethod):
            rows.append([_code(signature(member.__func__)), _one_line(sentence(member.__doc__))])
    fields = ", ".join(f"`{field}`" for field in getattr(one, "__struct_fields__", ()))
    parts = [f"### {one.__name__}", inspect.getdoc(one) or "", f"Fields: {fields}." if fields else ""]
    return "\n\n".join(part for part in [*parts, table(["of it", "what it is"], rows) if rows else ""] if part)


def _exceptions(module: ModuleType) -> Iterable[type[Exception]]:
    return (one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == module.__name__)


# -- the server --------------------------------------------------------------------------------------------------------

SERVER = """Every setting is a variable `COMPANYOS_<NAME>`; `companyos serve --help` says which have a flag as well. Secrets come by
variable only. `PORT` counts where `COMPANYOS_PORT` is not set. `/docs` of a running server describes every place and body."""


def server() -> str:
    said = comments(inspect.getsource(Settings))
    rows = []
    for field in msgspec.structs.fields(Settings):
        default = _said(field.default).lower()
        rows.append([_code(f"{PREFIX}{field.name.upper()}"), _code(default) if default else "–", _one_line(said[field.name])])
    return _page("Server settings", SERVER, table(["variable", "unless set", "what it is"], rows))


# -- codes -------------------------------------------------------------------------------------------------------------

CODES = """Codes never change; messages may. Three kinds, and no fourth: rules of the company refuse politely and the episode goes
on, bad input gets one line, bugs crash."""


def codes() -> str:
    by_code: dict[str, list[str]] = {}
    for tool in (*TOOLBOX, *EXTRAS):
        for code in refusals(tool.function):
            by_code.setdefault(code, []).append(tool.method)
    refused = [[_code(code), ", ".join(f"`{method}`" for method in methods)] for code, methods in sorted(by_code.items())]
    doors = [[_code(one.code), str(one.status), one.what_next] for one in _exceptions(served) if hasattr(one, "code")]
    return _page(
        "Codes",
        CODES,
        "## Of any call",
        table(["code", "what it says"], [[_code(code), what] for code, what in _of_any_call()]),
        "## Refusals",
        "A rule of the company said no, and nothing was written. The message says the rule, never the solution.",
        table(["code", "who refuses so"], refused),
        "## Errors of the server",
        "A request that fails with one has changed nothing, but where its words say that this is not known.",
        table(["code", "status", "what next"], doors),
    )


def _of_any_call() -> Iterator[tuple[str, str]]:
    said = comments(inspect.getsource(calls))
    for name, value in vars(calls).items():
        if name.isupper() and not name.startswith("_") and isinstance(value, str):
            yield value, said[name]


# -- all of them -------------------------------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {
    "tools": tools,
    "dials": dials,
    "agents": agent_names,
    "suites": suites,
    "rewards": reward_profiles,
    "commands": commands,
    "python": python,
    "server": server,
    "codes": codes,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page())


if __name__ == "__main__":
    main()
