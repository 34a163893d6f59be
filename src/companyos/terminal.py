"""Terminal: episodes, verdicts, tools and proofs as a person sees them."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from companyos import agents
from companyos.agents.candidates import Candidates
from companyos.apps import TOOLBOX, Tool
from companyos.apps.tool import PROSE
from companyos.calls import Call
from companyos.env import CompanyEnv, par
from companyos.lines import find_tool, how_to_write, parse_line, unfinished, usage, write_line, write_value
from companyos.observe import Observation, observe
from companyos.task import TaskId
from companyos.told import Told

_HARM = "Written, though nothing called for it."
_REPLY_LINES = 6  # of a reply, in what scrolls by


def screen() -> Console:
    """The console we show things on. What is piped on is not squeezed into the 80 columns of a screen that is not there."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
    return Console(width=wide, highlight=False)


# -- watching ----------------------------------------------------------------------------------------------------------


def watch(env: CompanyEnv, name: str, seed: int, console: Console, delay: float = 0.0, replies: bool = True) -> None:
    """Lets an agent work an episode and shows each turn as it happens."""
    agent = agents.make(name, seed)
    obs = env.reset()
    title = f"{name} works {env.task_id}"
    console.print(Panel(Text(obs.task), title=Text(title), subtitle=Text(f"{obs.now}, {obs.max_steps} steps at most")))
    while not obs.done:
        obs = env.step(agent.act(obs))
        show_turn(env, obs, console, replies)
        time.sleep(delay)
    show_verdict(env, console)


def show_turn(env: CompanyEnv, obs: Observation, console: Console, replies: bool = True) -> None:
    """One turn: the call, what came of it, what it was worth, and the clock."""
    turn = env.turns[-1]
    style = "bold cyan" if turn.reply.ok else "bold yellow"
    line = Text(f"{obs.step:>3}  ").append(write_line(turn.call), style)
    if not replies:
        line.append("" if turn.reply.ok else f"  {turn.reply.code}", "yellow")
        console.print(line, no_wrap=True, overflow="ellipsis")
        return
    console.print(line, soft_wrap=not console.is_terminal)
    body = obs.text.partition("] ")[2].removeprefix("ok\n").split("\n")
    for shown in body[:_REPLY_LINES]:
        console.print(Text(f"     {shown}"), no_wrap=True, overflow="ellipsis")
    if len(body) > _REPLY_LINES:
        console.print(f"     and {len(body) - _REPLY_LINES} lines more", style="dim")
    parts = ", ".join(f"{name} {worth:+.2f}" for name, worth in turn.parts.items()) or "no reward"
    console.print(f"     {obs.now}   {parts}", style="dim", markup=False)


def show_verdict(env: CompanyEnv, console: Console) -> None:
    """How an ended episode is judged: each goal, the damage, steps against par, the return."""
    verdict, ending = env.verdict, env.setting.ending
    assert verdict is not None
    meanings = {type(goal).__name__: (type(goal).__doc__ or "").partition("\n")[0] for goal in ending.goals}
    table = Table.grid(padding=(0, 2))
    for name, reached in verdict.goals.items():
        mark = Text("reached", "green") if reached else Text("missed", "red")
        table.add_row(mark, Text(name), Text(meanings.get(name.partition(":")[0], ""), "dim"))
    for harm in verdict.damage:
        table.add_row(Text("damage", "red"), Text(f"{harm.record} {harm.field}"), Text(_HARM, "dim"))
    console.print(Text("Success." if verdict.success else "Failure.", "bold green" if verdict.success else "bold red"))
    console.print(table)
    total = sum(turn.reward for turn in env.turns)
    steps = f"{env.step_count} steps, par {par(TaskId.parse(env.task_id))}"
    console.print(f"Right was {ending.name}. Damage: {len(verdict.damage) or 'none'}. {steps}. Return {total:+.2f}.")


# -- tools -------------------------------------------------------------------------------------------------------------


def tool_table() -> Table:
    """Every tool with its arguments and what it does."""
    table = Table.grid(padding=(0, 2))
    for tool in TOOLBOX:
        name, _, arguments = usage(tool).partition(" ")
        line = Text(name, "cyan").append(f" {arguments}", "default")
        table.add_row(line, Text(tool.description.partition("\n")[0]))
    return table


def show_tool(tool: Tool, console: Console) -> None:
    """One tool in full: its arguments, their choices, and when it is refused."""
    console.print(Text(usage(tool), "bold cyan"))
    console.print(Text(tool.description))
    table = Table.grid(padding=(0, 2))
    for name, schema in tool.schema["function"]["parameters"]["properties"].items():
        offers = [schema, *schema.get("anyOf", ())]
        said = [part["description"] for part in offers if "description" in part]
        said += ["one of " + ", ".join(map(str, part["enum"])) for part in offers if "enum" in part]
        said += [f"written {how_to_write(tool.hints[name])}"] if how_to_write(tool.hints[name]) else []
        table.add_row(Text(f"  {name}"), Text("; ".join(said)))
    console.print(table)
