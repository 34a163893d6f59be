"""Terminal: how episodes, verdicts, tools and proofs are shown to a person."""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from companyos.agents import Agent
from companyos.agents.custom import AgentRaised
from companyos.assurance.prove_many import ProofResult, blame, spread
from companyos.assurance.regrade import CHANGED, NO_TRANSCRIPT, OTHER_VERSION, REPLAY_FAILED, UNCHANGED, Regraded
from companyos.assurance.twins import Twin
from companyos.company import Tool, Toolbox
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, par
from companyos.env.line_syntax import argument_help, usage, write_line
from companyos.env.observations import Observation
from companyos.env.teacher import Teacher
from companyos.families.kit.missed import describe_goal, goal_title

T = TypeVar("T")
_DAMAGE_TEXT = "Written, though nothing called for it."
_MAX_FAILURES = 20  # unproved tasks that are listed
_MAX_REPLY_LINES = 6  # lines of a reply that are shown
_MAX_DIFFERENCE = 160  # characters of the description of a difference


def screen() -> Console:
    """Return the console for stdout. Output to a pipe or a file is 200 columns wide, since rich would take 80."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
    return Console(width=width, highlight=False)


def quiet_screen() -> Console:
    """Return a console that prints nothing, for a command whose result is printed as JSON."""
    return Console(quiet=True)


def grid(rows: Iterable[tuple[str | Text, ...]]) -> Table:
    """A table without lines."""
    table = Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


# -- episodes ----------------------------------------------------------------------------------------------------------


def watch(env: CompanyEnv, name: str, agent: Agent, console: Console, delay: float = 0.0, replies: bool = True) -> bool:
    """Let an agent play an episode and print each turn as it happens. Return whether it was played to its end.

    A turn in which the agent does what the expert would do is preceded by the expert's reasons.
    """
    obs = env.reset()
    teacher = Teacher(env)
    title, subtitle = f"{name} works {env.task_id}", f"{obs.now}, {obs.max_steps} steps at most"
    console.print(Panel(Text(obs.task), title=Text(title), subtitle=Text(subtitle), width=min(console.width, 110)))
    while not obs.done:
        due = teacher.due(verify=False)
        try:
            call = agent.act(obs)
        except AgentRaised as raised:
            console.print(Text(str(raised).partition("\n\n")[2] or str(raised), "red"), soft_wrap=True)
            console.print(Text(f"The agent raised after {env.step_count} steps, so the episode is lost.", "bold red"))
            return False
        obs = env.step(call)
        show_turn(env, obs, console, replies, due.working if env.turns[-1].call == due.call else ())
        time.sleep(delay)
    show_verdict(env, console)
    return True


def show_turn(
    env: CompanyEnv, obs: Observation, console: Console, replies: bool = True, working: Sequence[str] = ()
) -> None:
    """Print one turn: reasons, call, reply, reward and clock; without `replies`, only the call."""
    turn = env.turns[-1]
    for reason in working if replies else ():
        console.print(Text(f"     = {reason}", "italic green"))
    style = "bold cyan" if turn.reply.ok else "bold yellow"
    line = Text(f"{obs.step:>3}  ").append(write_line(turn.call), style)
    if not replies:
        line.append("" if turn.reply.ok else f"  {turn.reply.code}", "yellow")
        console.print(line, no_wrap=True, overflow="ellipsis")
        return
    console.print(line, soft_wrap=not console.is_terminal)
    # The text begins with the clock and the steps in brackets, then the code of the reply.
    body = obs.text.partition("] ")[2].removeprefix("ok\n").split("\n")
    for reply_line in body[:_MAX_REPLY_LINES]:
        console.print(Text(f"     {reply_line}"), no_wrap=True, overflow="ellipsis")
    if len(body) > _MAX_REPLY_LINES:
        console.print(f"     and {len(body) - _MAX_REPLY_LINES} more", style="dim")
    parts = ", ".join(f"{name} {worth:+.2f}" for name, worth in turn.parts.items()) or "no reward"
    console.print(f"     {obs.now}   {parts}", style="dim", markup=False)


def show_verdict(env: CompanyEnv, console: Console) -> None:
    """Print the verdict on a finished episode: goals, damage, steps and par, return."""
    verdict, ending = env.verdict, env.setting.ending
    assert verdict is not None
    rows: list[tuple[str | Text, ...]] = [
        (
            Text("reached", "green") if reached else Text("missed", "red"),
            goal_title(name),
            Text(describe_goal(ending, name, reached, env.world), "dim"),
        )
        for name, reached in verdict.goals.items()
    ]
    rows += [(Text("damage", "red"), f"{harm.record} {harm.field}", Text(_DAMAGE_TEXT, "dim")) for harm in verdict.damage]
    console.print()
    console.print(Text("Success.", "bold green") if verdict.success else Text("Failure.", "bold red"))
    console.print(grid(rows))
    harm = f"{len(verdict.damage) or 'no'} damage"
    steps = f"{env.step_count} steps (par {par(TaskId.parse(env.task_id))})"
    console.print(f"The right ending was {ending.name}; {harm}; {steps}; return {env.total:+.2f}.")


# -- tools -------------------------------------------------------------------------------------------------------------


def tool_table(toolbox: Toolbox) -> Table:
    """A table of all tools, grouped by app, which a call has to name: arguments and description."""
    rows: list[tuple[str | Text, ...]] = []
    for app in toolbox.apps:
        rows.append((Text(app, "bold"), ""))
        for tool in toolbox:
            if tool.app == app:
                name = Text("  ").append(tool.method, "cyan").append(usage(tool).removeprefix(tool.method), "default")
                rows.append((name, tool.description.split("\n")[0]))
    return grid(rows)


def show_tools(toolbox: Toolbox, console: Console) -> None:
    """Print every tool on one line, grouped by app."""
    for app in toolbox.apps:
        console.print(app, style="bold")
        for tool in toolbox:
            if tool.app == app:
                line = Text("  ").append(usage(tool), "cyan").append(f"  {tool.description}".split("\n")[0], "dim")
                console.print(line, no_wrap=True, overflow="ellipsis")


def show_tool(tool: Tool, console: Console) -> None:
    """Print one tool in full: its description, and each argument with its choices."""
    console.print(Text(usage(tool), "bold cyan"))
    console.print(Text(tool.description))
    console.print(grid((f"  {name}", argument_help(tool, name)) for name in tool.hints))


# -- progress bars -----------------------------------------------------------------------------------------------------


def with_bar(items: Iterable[T], total: int, label: str, note: Callable[[T], str] | None = None) -> Iterator[T]:
    """Yield the items, with a progress bar on stderr if that is a terminal.

    `label` stands before the bar. `note` returns the text that stands after it when an item is done.
    """
    console = Console(stderr=True)
    columns = (label, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left:", TimeRemainingColumn())
    # stdout is not redirected: what is printed meanwhile may be meant for a file.
    bar = Progress(
        *columns,
        "{task.description}",
        console=console,
        transient=True,
        redirect_stdout=False,
        disable=not console.is_terminal,
    )
    with bar:
        bar_task = bar.add_task("", total=total)
        for item in items:
            bar.update(bar_task, advance=1, description=note(item) if note else "")
            yield item


# -- proofs ------------------------------------------------------------------------------------------------------------


def show_proofs(checked: list[ProofResult], with_twins: bool, console: Console) -> None:
    """Print which tasks could not be proved and why, how many were proved, and how many steps the expert takes."""
    failed = [result for result in checked if result.failure]
    proved = [result for result in checked if not result.failure]
    for result in failed[:_MAX_FAILURES]:
        console.print(f"{result.failure}; {blame(result.task_id)}", style="red", markup=False, soft_wrap=True)
    if len(failed) > _MAX_FAILURES:
        console.print(f"and {len(failed) - _MAX_FAILURES} more", style="red")
    twins_text = (
        f"; {sum(result.twins for result in proved)} twins with another ending told apart in time" if with_twins else ""
    )
    console.print(f"{len(proved)} of {len(checked)} proved{twins_text}")
    if proved:
        console.print(par_table("dose", proved, lambda result: TaskId.parse(result.task_id).doses))
        console.print(par_table("ending", proved, lambda result: result.ending))


def par_table(heading: str, proved: list[ProofResult], group: Callable[[ProofResult], str]) -> Table:
    """A table of the expert's steps by family and group. `heading` is the heading of the groups."""
    groups = defaultdict(list)
    for result in proved:
        groups[TaskId.parse(result.task_id).family, group(result)].append(result.par)
    tasks_of_family = Counter(TaskId.parse(result.task_id).family for result in proved)
    table = Table("family", heading, title=f"Par by {heading}", title_justify="left")
    for name in ("tasks", "share", "median", "p90", "p99", "max", "mean"):
        table.add_column(name, justify="right")
    for (family, label), pars in groups.items():
        steps = spread(pars)
        share = f"{steps.count / tasks_of_family[family]:.0%}"
        numbers = (steps.count, share, steps.median, steps.p90, steps.p99, steps.most, f"{steps.mean:.1f}")
        table.add_row(family, label, *map(str, numbers))
    return table


def twin_table(twins: Iterable[Twin]) -> Table:
    table = Table("cause", "value", "relevance")
    table.add_column("task id", overflow="fold")  # not cut on a narrow screen: users copy these ids
    for twin in twins:
        table.add_row(twin.cause, twin.value, twin.relevance, twin.task_id)
    return table


# -- regrading ---------------------------------------------------------------------------------------------------------

_OUTCOMES = {  # in the order in which they are shown and counted
    CHANGED: "judged otherwise",
    REPLAY_FAILED: "whose world is no longer the same",
    OTHER_VERSION: "of another benchmark version, whose tasks no longer exist",
    NO_TRANSCRIPT: "no transcripts",
    UNCHANGED: "unchanged",
}


def show_regraded(files: list[Regraded], console: Console) -> None:
    """Print every file whose verdict or task changed, then the number of files with each outcome."""
    table = Table("outcome")
    for name in ("task id", "file", "what"):
        table.add_column(name, overflow="fold")
    order = list(_OUTCOMES)
    for file in sorted(files, key=lambda file: order.index(file.outcome)):
        if file.outcome != UNCHANGED:
            table.add_row(*map(Text, (file.outcome, file.task_id, file.path, "\n".join(map(_cut, file.what)))))
    if table.row_count:
        console.print(table)
    counts = Counter(file.outcome for file in files)
    for outcome, meaning in _OUTCOMES.items():
        console.print(f"{counts[outcome]:>6} {meaning}")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_DIFFERENCE else f"{text[:_MAX_DIFFERENCE]}…"
