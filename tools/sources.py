"""Read from our source code what is not available at run time: refusal codes, comments, and signatures as written."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

from companyos.core.world import World

_OURS = "companyos."


def refusals(function: Callable[..., Any]) -> dict[str, None]:
    """Return the codes with which a tool and its helpers may refuse, in source order."""
    found: dict[str, None] = {}
    for one in _reached(function):
        for node in ast.walk(_tree(one)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
                found[_text(node.args[0], one.__globals__)] = None
    return found


def _reached(function: Callable[..., Any]) -> list[FunctionType]:
    """Return a function and all our functions that it may call: by name, as a method of the world, or from a table."""
    todo, seen = [_plain(function)], []
    while todo:
        one = todo.pop(0)
        if one in seen:
            continue
        seen.append(one)
        for node in ast.walk(_tree(one)):
            if isinstance(node, ast.Name):
                todo += _functions(one.__globals__.get(node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "world":
                todo += _functions(getattr(World, node.attr, None))
    return seen


def _functions(thing: object) -> Iterator[FunctionType]:
    for one in thing.values() if isinstance(thing, Mapping) else (thing,):
        plain = _plain(one)
        if isinstance(plain, FunctionType) and plain.__module__.startswith(_OURS):
            yield plain


def _plain(thing: Any) -> Any:
    return inspect.unwrap(thing) if callable(thing) else thing


@cache
def _tree(thing: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _text(node: ast.expr, names: Mapping[str, Any]) -> str:
    return str(names[node.id]) if isinstance(node, ast.Name) else str(ast.literal_eval(node))


def signature(function: Callable[..., Any]) -> str:
    """Return the signature of a function as written, without `self`."""
    tree = _tree(plain := _plain(function))
    assert isinstance(tree, ast.FunctionDef)
    lines = inspect.getsource(plain).splitlines()[tree.lineno - 1 : tree.body[0].lineno - 1]
    head = " ".join("".join(f"{line.strip()} " for line in lines).split()).removeprefix("def ").removesuffix(":")
    return head.replace("( ", "(").replace(", )", ")").replace("(self, ", "(").replace("(self)", "()")


def comments(text: str) -> dict[str, str]:
    """Return the comment after each assignment or field in a piece of code."""
    return dict(re.findall(r"^ *(\w+)(?::[^#\n]*)?(?: = [^#\n]*)?  # (.*)$", text, re.MULTILINE))
