"""Completion: scripts with which a shell completes the words of `companyos`, written from the parser.

A script is a table of all words. It does not call `companyos`, because starting Python would delay each press of Tab.
"""

from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from companyos.agents import AGENTS
from companyos.chaos import PRESETS
from companyos.evaluate.suites.suite import SUITES
from companyos.families import installed

# Suggestions for arguments that also take other values, by their argparse `dest`.
WORDS: dict[str, Callable[[], list[str]]] = {
    "agent": lambda: list(AGENTS),
    "chaos": lambda: list(PRESETS),
    "families": lambda: ["all", *installed()],
    "name": lambda: list(SUITES),
    "suite": lambda: list(SUITES),
    "task": lambda: list(installed()),
}


class Completions(NamedTuple):
    """What can be typed at a position on the command line."""

    words: dict[str, str]  # each with its meaning
    files: bool = False  # paths of files, too


class Command(NamedTuple):
    """What can follow a command, such as `train sft`."""

    path: tuple[str, ...]
    subcommands: tuple[str, ...]
    flags: dict[str, str]  # each with its meaning
    values: dict[str, Completions]  # for each flag that takes a value
    operands: Completions  # what can be typed where no flag is


def commands(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """Yield a command, then all its subcommands."""
    operands: dict[str, str] = {}
    flags: dict[str, str] = {}
    values: dict[str, Completions] = {}
    files = False
    for action in parser._actions:
        completions = _completions(action)
        flags |= dict.fromkeys(action.option_strings, _meaning(action))
        if not action.option_strings:
            operands |= completions.words
            files = files or completions.files
        elif action.nargs != 0:
            values |= dict.fromkeys(action.option_strings, completions)
    subparsers = {name: subparser for action in parser._actions for name, subparser in _subparsers(action).items()}
    yield Command(path, tuple(subparsers), flags, values, Completions(operands, files))
    for name, subparser in subparsers.items():
        yield from commands(subparser, (*path, name))


def _completions(action: Action) -> Completions:
    """Return what can be typed for one argument: subcommands, choices, suggestions or files."""
    if isinstance(action, _SubParsersAction):
        return Completions({choice.dest: _meaning(choice) for choice in action._choices_actions})
    words = WORDS.get(action.dest, list)() if action.choices is None else map(str, action.choices)
    return Completions(dict.fromkeys(words, ""), action.type is Path)


def _subparsers(action: Action) -> dict[str, ArgumentParser]:
    return dict(action.choices) if isinstance(action, _SubParsersAction) else {}


def _meaning(action: Action) -> str:
    """The first sentence of the help text of an argument."""
    return " ".join((action.help or "").split()).partition(". ")[0].removesuffix(".")


# -- bash and zsh, which share one table -------------------------------------------------------------------------------

_BASH = """\
# Completion of `companyos` in bash. To install it:
# companyos completion bash > ~/.local/share/bash-completion/completions/companyos
_companyos() {
    local IFS=$'\\n' at= word files= found=() flags=()
    local typed="${COMP_WORDS[COMP_CWORD]}" last="${COMP_WORDS[COMP_CWORD-1]}" before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    if [[ $typed == "=" ]]; then typed=; elif [[ $last == "=" ]]; then last="${COMP_WORDS[COMP_CWORD-2]}"; fi
%s
    COMPREPLY=($(compgen -W "${found[*]%%%%:*}" -- "$typed"))
    [[ -z $files ]] || { compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$typed")); }
}
complete -F _companyos companyos
"""
_ZSH = """\
#compdef companyos
# Completion of `companyos` in zsh. To install it:
# companyos completion zsh > _companyos, in a folder of $fpath
_companyos() {
    local at= word files= found=() flags=()
    local typed="${words[CURRENT]}" last="${words[CURRENT-1]}" before=("${(@)words[2,CURRENT-1]}")
    if [[ $typed == --*=* ]]; then last="${typed%%%%=*}"; compset -P '*='; fi
%s
    (( ${#found[@]} )) && _describe word found
    [[ -z $files ]] || _files
}
if [[ $funcstack[1] == _companyos ]]; then _companyos "$@"; else compdef _companyos companyos; fi
"""
# In this code, `at` is the command found so far, such as `train sft`, and `last` the word before the one being typed.
_LOOK_UP = """\
    for word in "${before[@]}"; do
        case "$at $word" in
            %s) at="${at:+$at }$word" ;;
        esac
    done
    case "$at $last" in
%s
        *) case "$at" in
%s
        esac
        if [[ $typed == -* || ${#found[@]} == 0 && -z $files ]]; then found=("${flags[@]}") files=; fi ;;
    esac"""


def _look_up(all_commands: list[Command]) -> str:
    """The shell code that finds the command on the line and what can be typed there.

    After a flag that takes a value, these are its values; elsewhere, the operands and flags of the command.
    """
    names = "|".join(quote(f"{' '.join(command.path[:-1])} {command.path[-1]}") for command in all_commands if command.path)
    patterns_by_assignment: dict[str, list[str]] = {}  # flags that take the same values share a branch
    for command in all_commands:
        for flag, completions in command.values.items():
            patterns_by_assignment.setdefault(_assignment(completions), []).append(quote(f"{' '.join(command.path)} {flag}"))
    values = "\n".join(
        f"        {'|'.join(patterns)}) {assignment} ;;" for assignment, patterns in patterns_by_assignment.items()
    )
    operands = "\n".join(
        f"            {quote(' '.join(command.path))}) {_assignment(command.operands)} flags=({_array(command.flags)}) ;;"
        for command in all_commands
    )
    return _LOOK_UP % (names, values, operands)


def _assignment(completions: Completions) -> str:
    """The assignment of the words, each with its meaning, to the shell variables `found` and `files`."""
    return f"found=({_array(completions.words)}) files={'1' * completions.files}"


def _array(words: dict[str, str]) -> str:
    """Return the words as elements of a shell array, `word:meaning`."""
    return " ".join(quote(f"{word}:{meaning}" if meaning else word) for word, meaning in words.items())


# -- fish --------------------------------------------------------------------------------------------------------------

_FISH = """\
# Completion of `companyos` in fish. To install it:
# companyos completion fish > ~/.config/fish/completions/companyos.fish
complete -c companyos -f
%s
"""


def _fish(all_commands: list[Command]) -> str:
    return "\n".join(line for command in all_commands for line in _fish_lines(command))


def _fish_lines(command: Command) -> Iterator[str]:
    seen = [f"__fish_seen_subcommand_from {name}" for name in command.path]
    unseen = [f"not __fish_seen_subcommand_from {' '.join(command.subcommands)}"] if command.subcommands else []
    here = f"complete -c companyos -n {quote('; and '.join(seen + unseen))}"
    for word, meaning in command.operands.words.items():
        yield f"{here} -a {quote(word)} -d {quote(meaning)}"
    if command.operands.files:
        yield f"{here} -F"
    for flag, meaning in command.flags.items():
        name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        yield f"{here} {name} -d {quote(meaning)}" + (_fish_value(command.values[flag]) if flag in command.values else "")


def _fish_value(completions: Completions) -> str:
    words = f" -a {quote(' '.join(completions.words))}" if completions.words else ""
    return (" -rF" if completions.files else " -x") + words


_SHELLS: dict[str, tuple[str, Callable[[list[Command]], str]]] = {
    "bash": (_BASH, _look_up),
    "zsh": (_ZSH, _look_up),
    "fish": (_FISH, _fish),
}


def script(shell: str, parser: ArgumentParser) -> str:
    """Return the script that makes a shell complete this command line."""
    template, table = _SHELLS[shell]
    return template % table(list(commands(parser)))
