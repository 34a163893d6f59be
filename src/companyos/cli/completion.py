"""Completion: scripts by which a shell completes our command line, written from the parser itself.

They are tables and ask nobody: a key that is pressed while typing does not wait for Python to start.
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

WORDS: dict[str, Callable[[], list[str]]] = {  # for arguments that take other words as well, so that argparse has no list
    "agent": lambda: list(AGENTS),
    "chaos": lambda: list(PRESETS),
    "families": lambda: ["all", *installed()],
    "name": lambda: list(SUITES),
    "suite": lambda: list(SUITES),
    "task": lambda: list(installed()),
}


class Place(NamedTuple):
    """What can be typed at a place on the command line."""

    words: dict[str, str]  # each with what it means
    files: bool = False


class Command(NamedTuple):
    """What can follow a command, such as `train sft`."""

    path: tuple[str, ...]
    below: tuple[str, ...]  # the commands of which it is the group
    flags: dict[str, str]
    values: dict[str, Place]  # of the flags that take one
    operands: Place


def commands(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """A command, then those below it."""
    named: dict[str, str] = {}
    flags: dict[str, str] = {}
    values: dict[str, Place] = {}
    files = False
    for action in parser._actions:
        place = _place(action)
        flags |= dict.fromkeys(action.option_strings, _meaning(action))
        if not action.option_strings:
            named |= place.words
            files = files or place.files
        elif action.nargs != 0:
            values |= dict.fromkeys(action.option_strings, place)
    below = {name: one for action in parser._actions for name, one in _subparsers(action).items()}
    yield Command(path, tuple(below), flags, values, Place(named, files))
    for name, one in below.items():
        yield from commands(one, (*path, name))


def _place(action: Action) -> Place:
    if isinstance(action, _SubParsersAction):
        return Place({choice.dest: _meaning(choice) for choice in action._choices_actions})
    known = WORDS.get(action.dest, list)() if action.choices is None else map(str, action.choices)
    return Place(dict.fromkeys(known, ""), action.type is Path)


def _subparsers(action: Action) -> dict[str, ArgumentParser]:
    return dict(action.choices) if isinstance(action, _SubParsersAction) else {}


def _meaning(action: Action) -> str:
    """The first sentence of its help."""
    return " ".join((action.help or "").split()).partition(". ")[0].removesuffix(".")


# -- bash and zsh, which read one table --------------------------------------------------------------------------------

_BASH = """\
# What bash completes after `companyos`. For good:
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
# What zsh completes after `companyos`. For good:
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
    """Which command it is, and what can be typed there: after a flag that takes a value, or else."""
    names = "|".join(quote(f"{' '.join(one.path[:-1])} {one.path[-1]}") for one in all_commands if one.path)
    after: dict[str, list[str]] = {}
    for one in all_commands:
        for flag, place in one.values.items():
            after.setdefault(_found(place), []).append(quote(f"{' '.join(one.path)} {flag}"))
    values = "\n".join(f"        {'|'.join(places)}) {found} ;;" for found, places in after.items())
    operands = "\n".join(
        f"            {quote(' '.join(one.path))}) {_found(one.operands)} flags=({_array(one.flags)}) ;;"
        for one in all_commands
    )
    return _LOOK_UP % (names, values, operands)


def _found(place: Place) -> str:
    return f"found=({_array(place.words)}) files={'1' * place.files}"


def _array(words: dict[str, str]) -> str:
    return " ".join(quote(f"{word}:{meaning}" if meaning else word) for word, meaning in words.items())


# -- fish --------------------------------------------------------------------------------------------------------------

_FISH = """\
# What fish completes after `companyos`. For good:
# companyos completion fish > ~/.config/fish/completions/companyos.fish
complete -c companyos -f
%s
"""


def _fish(all_commands: list[Command]) -> str:
    return "\n".join(line for one in all_commands for line in _fish_lines(one))


def _fish_lines(one: Command) -> Iterator[str]:
    seen = [f"__fish_seen_subcommand_from {name}" for name in one.path]
    unseen = [f"not __fish_seen_subcommand_from {' '.join(one.below)}"] if one.below else []
    here = f"complete -c companyos -n {quote('; and '.join(seen + unseen))}"
    for word, meaning in one.operands.words.items():
        yield f"{here} -a {quote(word)} -d {quote(meaning)}"
    if one.operands.files:
        yield f"{here} -F"
    for flag, meaning in one.flags.items():
        name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        yield f"{here} {name} -d {quote(meaning)}" + (_fish_value(one.values[flag]) if flag in one.values else "")


def _fish_value(place: Place) -> str:
    words = f" -a {quote(' '.join(place.words))}" if place.words else ""
    return (" -rF" if place.files else " -x") + words


_SHELLS: dict[str, tuple[str, Callable[[list[Command]], str]]] = {
    "bash": (_BASH, _look_up),
    "zsh": (_ZSH, _look_up),
    "fish": (_FISH, _fish),
}


def script(shell: str, parser: ArgumentParser) -> str:
    """What a shell has to read in order to complete this command line."""
    text, table = _SHELLS[shell]
    return text % table(list(commands(parser)))
