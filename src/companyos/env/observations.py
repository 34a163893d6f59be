"""Observations: everything that an agent sees. Nothing else reaches it."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from companyos.company import TOOLBOX, toolbox_of
from companyos.core.calls import OK, Reply


class Scene(msgspec.Struct, frozen=True, gc=False):
    """The part that is the same in all observations of an episode."""

    brief: str
    max_steps: int
    offered: tuple[str, ...] = TOOLBOX.names  # the names of the tools


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What the agent sees after a step: the brief, the clock, the budget, the last reply and the tools.

    `reward` and `done` are for the trainer; `text` shows neither.
    """

    scene: Scene
    now: str
    step: int
    reply: Reply
    reward: float
    done: bool
    progress: tuple[str, ...] | None = None

    @property
    def task(self) -> str:
        """The brief, that is, the text that says what is to be done. The task id is never shown to the agent."""
        return self.scene.brief

    @property
    def max_steps(self) -> int:
        return self.scene.max_steps

    @property
    def code(self) -> str:
        return self.reply.code

    @property
    def last_result(self) -> Any:
        return self.reply.data

    @property
    def message(self) -> str:
        return self.reply.message

    @property
    def tools(self) -> list[dict[str, Any]]:
        return toolbox_of(self.scene.offered).schemas

    @property
    def steps_remaining(self) -> int:
        return self.max_steps - self.step

    @property
    def text(self) -> str:
        """The compact text form: a line with the clock and the budget, then one line per record."""
        head = f"[{self.now}, step {self.step} of {self.max_steps}] {self.code}"
        if self.step == 0:
            return f"{head}\n{self.task}"
        if self.code != OK:
            return f"{head}: {self.message}"
        return f"{head}\n{compact(self.last_result)}"


def compact(data: Any) -> str:
    """Return a reply's data as text: one line per record, `-` for an empty value."""
    if isinstance(data, dict):
        rows = data.get("rows")
        if rows is None:
            rows = data.get("arrived")
        if rows is None:
            return _line(data)
        lines = [_line(row) for row in rows]
        if data.get("pages", 1) > 1:
            lines.append(f"page {data['page']} of {data['pages']}, {data['total']} in all")
        return "\n".join(lines) or "nothing"
    return _value_text(data)


def _line(record: dict[str, Any]) -> str:
    return _line_writer(tuple(record))(*record.values())


@lru_cache(maxsize=1024)
def _line_writer(keys: tuple[str, ...]) -> Callable[..., str]:
    """Return a function that writes the values of these keys as one line, such as `T-1; status=open; owner=-`.

    The function is compiled, because writing text takes a fifth of the time of a step.
    """
    names = [f"v{i}" for i in range(len(keys))]
    # Most values are text or None. For these, calling `_value_text` would be too slow.
    values = [f"{{{v} if type({v}) is str else '-' if {v} is None else value_text({v})}}" for v in names]
    line = "; ".join(v if key == "id" else f"{key}={v}" for key, v in zip(keys, values, strict=True))
    function: Callable[..., str] = eval(f'lambda {", ".join(names)}: f"{line}"', {"value_text": _value_text})
    return function


def _value_text(value: Any) -> str:
    if value is None:
        return "-"
    if type(value) is dict:
        return "{" + ", ".join([f"{key}: {_value_text(item)}" for key, item in value.items()]) + "}"
    if type(value) is list:
        return ", ".join([_value_text(item) for item in value]) or "-"
    return str(value)
