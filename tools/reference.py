"""Write the reference pages in docs/reference/ from the registries and the source code: `python -m tools.reference`.

A test fails when a page is out of date.
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
from companyos.cli.agents import add_trained_models
from companyos.cli.options import default_text
from companyos.company import EXTRAS, TOOLBOX, Tool
from companyos.core import calls
from companyos.env import rewards
from companyos.env.line_syntax import argument_help, usage
from companyos.env.rewards import PROFILES
from companyos.evaluate.runs.roster import AGENT_KINDS
from companyos.evaluate.suites.suite import SUITES, suite
from companyos.serve import errors as served
from companyos.serve.ops.settings import PREFIX, Settings
from tools.interface import commands, exceptions, python
from tools.markdown import code, one_line, page, sentence, table
from tools.sources import comments, refusals

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


# -- tools -------------------------------------------------------------------------------------------------------------

TOOLS = """\
The {count} tools of the three apps, as an agent sees them. Each call takes some minutes of simulated time. **writes** marks
a tool that changes something. **may fail to answer** marks a tool that dial `flaky` can affect; its reply is then
`no_answer`. A refused call has written nothing. Besides the codes on this page, every tool may reply
`bad_arguments` ([all codes](codes.md))."""
CLUTTER = """\
## Tools that no task needs

Dial `tool_clutter` also offers some of these {count} tools. They work as described. What they write counts as damage."""


def tools() -> str:
    parts = []
    for app in TOOLBOX.apps:
        parts += [f"## {app}", *(_tool(tool) for tool in TOOLBOX if tool.app == app)]
    rows = [[code(tool.name), one_line(tool.description)] for tool in EXTRAS]
    clutter = [CLUTTER.format(count=len(EXTRAS)), table(["tool", "description"], rows)]
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
        lines.append(table(["argument", "type", "default", "description"], rows))
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


# -- dials, agents, suites and rewards ---------------------------------------------------------------------------------

CHAOS = """\
`chaos=` takes one dose from 0 to 1 for all dials, `{"stale": 0.5, "flaky": 1.0}` for some of them, or a preset by its
name. Troubles at dose 0.3 also occur at dose 0.6. No dial changes the right ending, and every task stays solvable. The
[families' pages](../families/README.md) show how much success an agent loses that ignores a dial."""


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
    heading = [
        "dial",
        "letter in task ids",
        "visible effect; what was written; recovery",
        "levels",
        "habit that loses by it",
    ]
    return page("Dials", CHAOS, table(heading, rows), "## Presets", table(["preset", "description"], days))


AGENT = """\
Use a name with `companyos eval --agent NAME`, `companyos watch TASK --agent NAME` or `agents.make(name, seed)`. `expert` and
`jittered` do the work. All others are adversaries; their success rates are [the floor](../floor.md). If an agent has
variants, the number of the trial selects the variant."""


def agent_names() -> str:
    rows = []
    for name, make in AGENTS.items():
        adversary = ADVERSARIES.get(name)
        variants = "yes" if adversary and adversary.variants else ""
        rows.append(
            [code(name), adversary.group if adversary else "does the work", variants, one_line(sentence(make.__doc__))]
        )
    add_trained_models()
    more = [[code(f"{name}:{kind.metavar}"), NAMED[name]] for name, kind in AGENT_KINDS.items()]
    habits = [[code(f"careless:{dial}"), sentence(habit.__doc__)] for dial, habit in HABITS.items()]
    return page(
        "Agents",
        AGENT,
        table(["agent", "group", "variants", "description"], rows),
        "## Agents with a parameter",
        table(["name", "description"], more),
        "## Experts with one careless habit",
        table(["name", "the habit"], habits),
    )


NAMED = {
    "variant": "one variant of an agent that has several",
    "careless": "the expert with a habit that ignores one dial",
    "saved": "the agent that played the transcripts in a folder",
    "openai": "a language model behind an OpenAI-compatible endpoint (extra `llm`)",
    "local": "a model that `companyos train sft` or `grpo` wrote (extra `train`)",
    "tiny": "a policy that `companyos train tiny` wrote (extra `tiny`)",
}


def suites() -> str:
    about = (
        "Frozen lists of task ids. [Measuring agents](../evaluate.md) explains how to use them and how to draw a new one."
    )
    rows = []
    for name, what in SUITES.items():
        one = suite(name)
        splits = ", ".join(dict.fromkeys(task.split("-")[2] for task in one.tasks))
        rows.append(
            [code(name), what, str(len(one.tasks)), str(len(one.pairs) or ""), splits, str(one.version), code(one.hash)]
        )
    return page("Suites", about, table(["suite", "description", "tasks", "pairs", "split", "version", "hash"], rows))


REWARD = """\
Choose a profile with `make(..., reward=NAME)`. The reward of a turn is the sum of named parts (`turn.parts`). With every
profile, success is judged by the state of the company at the end. Tests compute from these constants that every success
earns more than every failure and that no cycle of calls earns reward, and search for counterexamples."""
REVEALED = """\
## What rewards reveal

An agent that sees its rewards during an episode could use them to find the right ending. So a law over all families
(`companyos.assurance.reward_laws`) compares each task with its `ending` twins: for the same calls, both give the same
rewards until a reply differs or the episode ends.

During an episode, profile `dense` pays for milestones that every ending needs (the ticket has a priority, is unblocked and
is verified) or that some ending needs (the metrics of the case are fresh and were read). The last turn settles the
difference: it pays for milestones that only the right ending needs (outcome recorded, valid request, approved, linked
tickets closed correctly), and takes back the payment for fresh data that the right ending did not need. So the sum over an
episode is the value of the right ending's milestones that are reached at the end. A rejection is charged when a reply shows
it (`check_status`, `list_approvals`, a letter), or in the last turn.

Two settings reveal the right ending, and both are for trainers only: `make(..., progress=True)` shows the reached
milestones of the right ending, and `env.potential` is their value."""


def reward_profiles() -> str:
    rows = [[code(name), sentence(profile.__doc__), rewards.REVEALS[name]] for name, profile in PROFILES.items()]
    constants = {
        "success": f"{rewards.SUCCESS:+g}",
        "failure": f"{rewards.FAILURE:+g}".replace("-", "−"),
        "a step": f"−{rewards.STEP:g}, and for all of an episode at most {rewards.STEP * rewards.STEPS_CHARGED:g}",
        "a refused call": _shrinks(rewards.FAILED_CALL),
        "a request rejected for a good reason, when a reply shows it": _shrinks(rewards.REJECTION),
        "a call of an unknown tool": _shrinks(rewards.UNKNOWN_TOOL),
        "all milestones": f"from {rewards.MIN_POTENTIAL:g} to {rewards.MAX_POTENTIAL:g}; taken back when undone",
        "all penalties of an episode": f"at most {rewards.max_penalty():.1f}",
        "no answer": "0, because it is not the agent's fault",
    }
    return page(
        "Rewards",
        REWARD,
        table(["profile", "rewards", "what it reveals"], rows),
        REVEALED,
        "## Profile `dense` in numbers",
        table(["for", "paid"], [[what, worth] for what, worth in constants.items()]),
    )


def _shrinks(cost: tuple[float, float]) -> str:
    return f"−{cost[0]:g}; each further one costs {cost[1]:g} times the one before"


# -- the server --------------------------------------------------------------------------------------------------------

SERVER = """\
Every setting is an environment variable `COMPANYOS_<NAME>`. `companyos serve --help` lists those that also have a flag.
Secrets can be set by variable only. `PORT` is used if `COMPANYOS_PORT` is not set. `/docs` of a running server describes
every path and body."""


def server() -> str:
    told = comments(inspect.getsource(Settings))
    rows = []
    for field in msgspec.structs.fields(Settings):
        default = default_text(field.default).lower()
        rows.append([code(f"{PREFIX}{field.name.upper()}"), code(default) if default else "–", one_line(told[field.name])])
    return page("Server settings", SERVER, table(["variable", "default", "description"], rows))


# -- codes -------------------------------------------------------------------------------------------------------------

CODES = """\
Codes never change; messages may. There are three kinds of errors: a rule of the company refuses a call and the episode
continues; wrong input gives a one-line error; a bug raises an exception."""


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
        "## Codes of any call",
        table(["code", "meaning"], [[code(word), what] for word, what in _of_any_call()]),
        "## Refusals",
        "A rule of the company refused the call, and nothing was written. The message states the rule, never the solution.",
        table(["code", "tools"], refused),
        "## Errors of the server",
        "A request that fails with one of these has changed nothing, unless its message says that this is unknown.",
        table(["code", "status", "what to do"], doors),
    )


def _of_any_call() -> Iterator[tuple[str, str]]:
    told = comments(inspect.getsource(calls))
    for name, value in vars(calls).items():
        if name.isupper() and not name.startswith("_") and isinstance(value, str):
            yield value, told[name]


# -- all pages ---------------------------------------------------------------------------------------------------------

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
