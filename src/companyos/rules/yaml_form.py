"""A rulebook as YAML, and back. Needs the extra `yaml`.

A comparison is one text, such as `amount above 3000` or `score below @minimum`. Everything else has the names of its fields.
"""

from typing import Any

import msgspec

from companyos.rules.book import Rulebook
from companyos.rules.conditions import Comparison, Holds, Value, comparison_text
from companyos.rules.pieces import AnyPiece, Piece

_COMPARISONS: tuple[str, ...] = Comparison.__args__  # type: ignore[attr-defined]


class BadRulebook(ValueError):
    """A text that is not a rulebook. The message names the line."""


def to_yaml(book: Rulebook) -> str:
    """Return a rulebook as YAML."""
    yaml = _yaml()
    content = {"rules": _shorten(msgspec.to_builtins(book.pieces))}
    if book.editions:
        content["older_versions"] = _shorten(msgspec.to_builtins(book.editions))
    text: str = yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    return text


def from_yaml(text: str) -> tuple[Rulebook, dict[Piece, int]]:
    """Return the rulebook that a YAML text says, and the line of each piece. Raises `BadRulebook`."""
    yaml = _yaml()
    try:
        content, tree = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise BadRulebook(" ".join(str(error).split())) from None
    if not isinstance(content, dict) or not content.keys() <= {"rules", "older_versions"} or "rules" not in content:
        raise BadRulebook("line 1: a rulebook has the key `rules`, and may have `older_versions`")
    nodes = {key.value: value for key, value in tree.value}
    where: dict[Piece, int] = {}
    pieces = _pieces(content["rules"], nodes["rules"], where)
    older = content.get("older_versions") or []
    if not isinstance(older, list):
        raise BadRulebook("`older_versions` is a list of versions, each of which is a list of rules")
    editions = [
        _pieces(one, node, where) for one, node in zip(older, nodes["older_versions"].value if older else [], strict=True)
    ]
    return Rulebook(pieces, tuple(editions)), where


def _pieces(items: Any, node: Any, where: dict[Piece, int]) -> tuple[AnyPiece, ...]:
    if not isinstance(items, list):
        raise BadRulebook(f"line {node.start_mark.line + 1}: expected a list of rules")
    pieces: list[AnyPiece] = []
    for item, its_node in zip(items, node.value, strict=True):
        line = its_node.start_mark.line + 1
        try:
            piece: AnyPiece = msgspec.convert(_lengthen(item), AnyPiece)
        except (msgspec.ValidationError, BadRulebook) as error:
            raise BadRulebook(f"line {line}: {error}") from None
        where.setdefault(piece, line)
        pieces.append(piece)
    return tuple(pieces)


def _shorten(value: Any) -> Any:
    """Replace each comparison by one text."""
    if isinstance(value, dict):
        if value.get("condition") == "holds":
            return comparison_text(msgspec.convert(value, Holds))
        return {key: _shorten(one) for key, one in value.items()}
    return [_shorten(one) for one in value] if isinstance(value, list | tuple) else value


def _lengthen(value: Any, inside: str = "") -> Any:
    """Replace each text that is a comparison by its fields."""
    if isinstance(value, dict):
        return {key: _lengthen(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_lengthen(one, inside) for one in value]
    return _comparison(value) if isinstance(value, str) and inside in ("when", "tests") else value


def _comparison(text: str) -> dict[str, Value]:
    parts = text.split(maxsplit=2)
    if len(parts) != 3 or parts[1] not in _COMPARISONS:
        raise BadRulebook(f"{text!r} is not a condition; one looks like `amount above 3000` ({', '.join(_COMPARISONS)})")
    fact, op, word = parts
    than: Value = {"true": True, "false": False}.get(word, int(word) if word.isdecimal() else word)
    return {"condition": "holds", "fact": fact, "op": op, "than": than}


def _yaml() -> Any:
    """Return the YAML library. It is imported here, because `import companyos` has to stay light."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML needs one more package: pip install 'companyos[yaml]'") from error
    return yaml
