"""Reference: what there is to call, to name and to set. `python -m tools.reference` writes docs/reference/ anew.

All of it follows from the registries and from the code as it is written, so a test says when a page is out of date.
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from companyos.agents import AGENTS
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.adversaries.careless import HABITS
from companyos.chaos import DIALS, PRESETS
from companyos.company import EXTRAS, TOOLBOX, Tool
from companyos.core import calls
from companyos.env import rewards
from companyos.env.line_syntax import argument_help, usage
from companyos.env.rewards import PROFILES
from companyos.evaluate.runs.roster import OPENERS
from companyos.evaluate.suites.suite import SUITES, suite
from companyos.serve import errors as served
from companyos.serve.ops.settings import PREFIX, Settings
from tools.interface import commands, exceptions, python
from tools.markdown import code, one_line, page, said, sentence, table
from tools.sources import comments, refusals

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


# -- tools -------------------------------------------------------------------------------------------------------------

TOOLS = """\
The {count} tools of the three apps, as an agent sees them. Each takes minutes of the company's time; **writes** says
that it changes something; **may fail to answer** says that dial `flaky` can strike it. Then
the answer is `no_answer`. A refusal has written nothing; beside the codes named here every tool may answer
`bad_arguments` ([all codes](codes.md))."""
CLUTTER = """\
## Tools that no work needs

Dial `tool_clutter` offers some of these {count} as well. They do what they say, and what they write is damage like
any other's."""


def tools() -> str:
    parts = []
    for app in TOOLBOX.apps:
        parts += [f"## {app}", *(_tool(tool) for tool in TOOLBOX if tool.app == app)]
    rows = [[code(tool.name), one_line(tool.description)] for tool in EXTRAS]
    clutter = [CLUTTER.format(count=len(EXTRAS)), table(["tool", "what it does"], rows)]
    return page("Tools", TOOLS.format(count=len(list(TOOLBOX))), *parts, *clutter)


def _tool(tool: Tool) -> str:
    traits = [f"{tool.minutes} min"] + ["**writes**"] * tool.writes + ["**may fail to answer**"] * (not tool.steady)
    lines = [f"### {tool.method}", f"`{usage(tool)}` · {' · '.join(traits)}", tool.description]
    if tool.hints:
        properties = tool.schema["function"]["parameters"]["properties"]
        rows = [
            [code(name), _kind(properties[name]), _default(tool, name), one_line(argument_help(tool, name))]
            for name in tool.hints
        ]
        lines.append(table(["argument", "kind", "unless given", "what it is"], rows))
    if words := refusals(tool.function):
        lines.append(f"Refuses with {', '.join(f'`{word}`' for word in words)}.")
    return "\n\n".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    kinds = ["choice" if "enum" in one else one.get("type", "any") for one in schema.get("anyOf", [schema])]
    return " or ".join(dict.fromkeys("nothing" if kind == "null" else str(kind) for kind in kinds))


def _default(tool: Tool, name: str) -> str:
    if name in tool.required:
        return "required"
    [default] = [field.default for field in msgspec.structs.fields(tool.arguments) if field.name == name]
    return "–" if default in (None, "") else code(default)


# -- what can be named -------------------------------------------------------------------------------------------------

CHAOS = """\
`chaos=` takes one dose from 0 to 1 for all dials, `{"stale": 0.5, "flaky": 1.0}` for some of them, or a preset by its
name. What strikes at 0.3 strikes at 0.6, no dial changes what is right, and every one leaves a way out. What each
costs somebody who does not mind it stands on the [families' pages](../families/README.md)."""


def dials() -> str:
    rows = [
        [
            code(one.dial),
            code(one.letter),
            sentence(type(one).__doc__),
            ", ".join(str(level) for level in one.levels[1:]) if len(one.levels) > 2 else "",
            sentence(HABITS[one.dial].__doc__),
        ]
        for one in DIALS.values()
    ]
    days = [[code(name), f"all dials at {dose:g}"] for name, dose in PRESETS.items() if isinstance(dose, float)]
    days.append(["`only_DIAL`", "that dial alone, at 1"])
    heading = ["dial", "in task ids", "what one sees; what was written; what recovers", "levels", "who loses by it"]
    return page("Dials", CHAOS, table(heading, rows), "## Presets", table(["preset", "what it is"], days))


AGENT = """\
`companyos eval --agent NAME`, `companyos watch TASK --agent NAME`, `agents.make(name, seed)`. The expert and the
jittered one do the work; all others are adversaries, and what they reach is [the floor](../floor.md). Of a policy
that comes in variants, the trial's number is the variant's."""


def agent_names() -> str:
    rows = []
    for name, make in AGENTS.items():
        adversary = ADVERSARIES.get(name)
        variants = "yes" if adversary and adversary.variants else ""
        rows.append(
            [code(name), adversary.group if adversary else "does the work", variants, one_line(sentence(make.__doc__))]
        )
    more = [[code(f"{kind}:{opener.__doc__}"), NAMED[kind]] for kind, opener in OPENERS.items()]
    habits = [[code(f"careless:{dial}"), sentence(habit.__doc__)] for dial, habit in HABITS.items()]
    return page(
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
    about = "Frozen lists of task ids; [measuring agents](../evaluate.md) says how they are used, and how to have one drawn."
    rows = []
    for name, what in SUITES.items():
        one = suite(name)
        splits = ", ".join(dict.fromkeys(task.split("-")[2] for task in one.tasks))
        rows.append(
            [code(name), what, str(len(one.tasks)), str(len(one.pairs) or ""), splits, str(one.version), code(one.hash)]
        )
    return page("Suites", about, table(["suite", "what", "tasks", "pairs", "split", "version", "hash"], rows))


REWARD = """\
`make(..., reward=NAME)`. A turn's reward is the sum of named parts (`turn.parts`). Whatever the profile, success is
judged by the state that is left behind; that every success beats every failure, and that nothing can be farmed, is
computed from these constants and attacked by search in the tests."""
REVEALED = """\
## What rewards reveal

An agent that sees its rewards while it works could use them to find the right branch. So a law over all families
(`companyos.assurance.reward_laws`) compares each task with its `ending` twins: along one sequence of calls both pay the
same until a reply differs or the episode ends.

Profile `dense` pays three kinds of milestones on the way: the ticket has a priority, is unblocked and is verified (every
ending needs these), and the figures of the case are fresh and were read (some ending needs each of them). The last turn
settles the difference: it pays what belongs to the right ending alone (outcome recorded, valid request, approved, linked
tickets closed rightly) and takes back the worth of fresh data that the right ending did not need. The sum over an
episode is therefore the worth of the right ending's milestones that stand. A rejection is charged when a reply shows it
(`check_status`, `list_approvals`, a letter), or in the last turn.

Two settings do reveal the right ending, and both are for trainers only: `make(..., progress=True)`, which shows the
milestones of the right ending that stand, and `env.potential`, their worth."""


def reward_profiles() -> str:
    rows = [[code(name), sentence(profile.__doc__), rewards.REVEALS[name]] for name, profile in PROFILES.items()]
    constants = {
        "success": f"{rewards.SUCCESS:+g}",
        "failure": f"{rewards.FAILURE:+g}".replace("-", "−"),
        "a step": f"−{rewards.STEP:g}, and for all of an episode at most {rewards.STEP * rewards.STEPS_CHARGED:g}",
        "a refused call": _shrinks(rewards.FAILED_CALL),
        "a request rejected for good reason, when a reply tells": _shrinks(rewards.REJECTION),
        "a tool that is not there": _shrinks(rewards.UNKNOWN_TOOL),
        "all milestones": f"from {rewards.LEAST_POTENTIAL:g} to {rewards.MOST_POTENTIAL:g}; given back when undone",
        "all penalties of an episode": f"at most {rewards.most_penalty():.1f}",
        "no answer": "nothing: it is the company's doing",
    }
    return page(
        "Rewards",
        REWARD,
        table(["profile", "what it pays", "what it reveals"], rows),
        REVEALED,
        "## Profile `dense` in numbers",
        table(["for", "paid"], [[what, worth] for what, worth in constants.items()]),
    )


def _shrinks(cost: tuple[float, float]) -> str:
    return f"−{cost[0]:g}, the next {cost[1]:g} times as much, and so on"


# -- the server --------------------------------------------------------------------------------------------------------

SERVER = """\
Every setting is a variable `COMPANYOS_<NAME>`; `companyos serve --help` says which have a flag as well. Secrets come
by variable only. `PORT` counts where `COMPANYOS_PORT` is not set. `/docs` of a running server describes every place
and body."""


def server() -> str:
    told = comments(inspect.getsource(Settings))
    rows = []
    for field in msgspec.structs.fields(Settings):
        default = said(field.default).lower()
        rows.append([code(f"{PREFIX}{field.name.upper()}"), code(default) if default else "–", one_line(told[field.name])])
    return page("Server settings", SERVER, table(["variable", "unless set", "what it is"], rows))


# -- codes -------------------------------------------------------------------------------------------------------------

CODES = """\
Codes never change; messages may. Three kinds, and no fourth: rules of the company refuse politely and the episode
goes on, bad input gets one line, bugs crash."""


def codes() -> str:
    by_code: dict[str, list[str]] = {}
    for tool in (*TOOLBOX, *EXTRAS):
        for refusal in refusals(tool.function):
            by_code.setdefault(refusal, []).append(tool.method)
    refused = [[code(word), ", ".join(f"`{method}`" for method in methods)] for word, methods in sorted(by_code.items())]
    doors = [
        [code(one.code), str(one.status), one.what_next]
        for one in exceptions(served)
        if issubclass(one, served.ServeError) and hasattr(one, "code")
    ]
    return page(
        "Codes",
        CODES,
        "## Of any call",
        table(["code", "what it says"], [[code(word), what] for word, what in _of_any_call()]),
        "## Refusals",
        "A rule of the company said no, and nothing was written. The message says the rule, never the solution.",
        table(["code", "who refuses so"], refused),
        "## Errors of the server",
        "A request that fails with one has changed nothing, but where its words say that this is not known.",
        table(["code", "status", "what next"], doors),
    )


def _of_any_call() -> Iterator[tuple[str, str]]:
    told = comments(inspect.getsource(calls))
    for name, value in vars(calls).items():
        if name.isupper() and not name.startswith("_") and isinstance(value, str):
            yield value, told[name]


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
    for name, written in PAGES.items():
        (FOLDER / f"{name}.md").write_text(written())


if __name__ == "__main__":
    main()
