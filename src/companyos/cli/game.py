"""Game: a person works a task, line by line, and sees what an agent sees."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from companyos.agents.choices.candidates import Candidates
from companyos.cli.terminal import grid, show_tool, show_tools, show_verdict
from companyos.company import Toolbox
from companyos.company.apps.tool import PROSE
from companyos.core.calls import OK, Call
from companyos.core.files import write_atomic
from companyos.env import CompanyEnv
from companyos.env.knowledge import Knowledge
from companyos.env.line_syntax import (
    dict_argument,
    find_tool,
    is_evidence,
    parse_line,
    unfinished,
    write_line,
    write_line_value,
)
from companyos.env.observations import Observation

COMMANDS = {
    "help": "this list; `help TOOL` says more of one tool",
    "brief": "what you were asked to do",
    "told": "the ids you have met so far",
    "quit": "stop here",
}
SYNTAX = (
    "A call is one line: the tool, then its arguments in order or as name=value. A text of several words goes in quotes. "
    "Tab completes. A line that is no call costs nothing; a call that the company refuses costs a step."
)


class Game:
    """An episode that a person plays: the environment, what the replies have told, and a file for the transcript."""

    def __init__(self, env: CompanyEnv, console: Console, save: Path | None = None) -> None:
        self.env = env
        self.console = console
        self.save = save
        self.knowledge = Knowledge(env.setting.case.brief)
        for turn in env.turns:
            self.knowledge.hear(turn.reply)

    def play(self) -> None:
        """Read lines and carry them out until the episode or the input ends."""
        self.console.print("Type help for the tools, quit to stop.", style="dim")
        self._show(self.env.fork().reset())
        if self.env.turns:
            self._show(self._last_observation())
        for line in self._lines():
            if line.strip() == "quit":
                break
            self._run_line(line.strip())
            if self.env.done:
                show_verdict(self.env, self.console)
                break
        self._say_goodbye()

    def keep(self) -> None:
        """Write the transcript so far, if there is a file for it."""
        if self.save is not None:
            write_atomic(self.save, self.env.transcript().to_jsonl().encode())

    def _run_line(self, line: str) -> None:
        """Carry out a command of the game, or make a call."""
        command, _, rest = line.partition(" ")
        if command == "help":
            self._help(rest.strip())
        elif command == "brief":
            self.console.print(self.env.setting.case.brief, markup=False)
        elif command == "told":
            for kind, ids in self.knowledge.ids.items():
                self.console.print(f"{kind.__name__}: {', '.join(ids)}", markup=False)
        elif line:
            call_or_mistake = parse_line(line, self.env.toolbox)
            if isinstance(call_or_mistake, Call):
                self._step(call_or_mistake)
            else:
                self.console.print(call_or_mistake, style="yellow", markup=False)

    def _step(self, call: Call) -> None:
        obs = self.env.step(call)
        self.knowledge.hear(self.env.turns[-1].reply)
        self.keep()
        self._show(obs)

    def _last_observation(self) -> Observation:
        """The observation after the last call, for an episode that is resumed."""
        env, turn = self.env, self.env.turns[-1]
        return Observation(env.scene, turn.now, env.step_count, turn.reply, turn.reward, env.done)

    def _show(self, obs: Observation) -> None:
        head, _, body = obs.text.partition("\n")
        style = "bold" if obs.code == OK else "yellow"
        text = Text.assemble((head, style), "\n" if body else "", body)
        # Lines are wrapped only on a terminal: a program that reads the output gets the text as agents do.
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    def _help(self, name: str) -> None:
        tool = find_tool(name, self.env.toolbox)
        if tool is not None:
            show_tool(tool, self.console)
        elif name:
            self.console.print(f"there is no tool {name!r}; help lists them", style="yellow", markup=False)
        else:
            show_tools(self.env.toolbox, self.console)
            self.console.print("here, at no cost", style="bold")
            self.console.print(grid((f"  {name}", meaning) for name, meaning in COMMANDS.items()))
            self.console.print(SYNTAX, style="dim", markup=False)

    def _say_goodbye(self) -> None:
        if self.save is not None:
            self.console.print(f"Saved in {self.save}.", markup=False, soft_wrap=True)
        if self.env.done:
            return
        if self.save is not None:
            advice = f"To go on: companyos play {self.env.task_id} --save {self.save}"
        else:
            advice = f"Not saved (--save FILE keeps it). To start over: companyos play {self.env.task_id}"
        self.console.print(advice, markup=False, soft_wrap=True)

    def _lines(self) -> Iterator[str]:
        """Yield the lines that a person types, or those of stdin. Ctrl-C ends them as the end of the input does."""
        try:
            if sys.stdin.isatty() and sys.stdout.isatty():
                yield from self._typed()
            else:
                for line in sys.stdin:
                    self.console.print(f"> {line.rstrip()}", markup=False, soft_wrap=True)
                    yield line
        except (EOFError, KeyboardInterrupt):
            return

    def _typed(self) -> Iterator[str]:
        """Yield the lines that a person types, with history and completion by Tab."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document
        from prompt_toolkit.history import InMemoryHistory

        knowledge, toolbox = self.knowledge, self.env.toolbox

        class KnowledgeCompleter(Completer):
            def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
                for typed, word in completions(document.text_before_cursor, knowledge, toolbox):
                    yield Completion(word, start_position=-len(typed))

        history = InMemoryHistory([write_line(turn.call) for turn in self.env.turns])
        session: PromptSession[str] = PromptSession(
            "> ", completer=KnowledgeCompleter(), complete_while_typing=False, history=history
        )
        while True:
            yield session.prompt()


def completions(text: str, knowledge: Knowledge, toolbox: Toolbox) -> Iterator[tuple[str, str]]:
    """Yield each word that could complete the last, unfinished word of a line, as a pair: what was typed, and the word."""
    unfinished_argument = unfinished(text, toolbox)
    if unfinished_argument is None:
        command, space, typed = text.lstrip().partition(" ")
        names = [tool.method for tool in toolbox]
        if not space:
            yield from ((command, name) for name in [*names, *COMMANDS] if name.startswith(command))
        elif command == "help":
            yield from ((typed, name) for name in names if name.startswith(typed))
        return
    tool, argument, typed = unfinished_argument
    candidates = Candidates(knowledge)
    if is_evidence(tool.hints[argument]):
        typed = typed.rpartition(",")[2]
        options = [f"{record}:{field}={write_line_value(value)}" for (record, field), value in knowledge.facts.items()]
    elif argument == dict_argument(tool):
        options = [
            f"{field}={write_line_value(value)}" for form in candidates.filled_forms() for field, value in form.items()
        ]
    elif PROSE in getattr(tool.hints[argument], "__metadata__", ()):
        options = []
    else:
        options = [write_line_value(value) for value in candidates.options(tool, argument)]
    for option in dict.fromkeys(options):
        if option.lower().lstrip('"').startswith(typed.lower().lstrip("\"'")):
            yield typed, option
