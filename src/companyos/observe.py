"""Observations: the one gate through which an agent sees anything."""

from typing import Any

import msgspec

from companyos.apps import TOOLBOX
from companyos.calls import OK, Reply
from companyos.world import clock_text


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What the agent sees after a step. `reward` and `done` ride beside it for the trainer; `text` shows neither."""

    task: str
    now: str
    step: int
    max_steps: int
    code: str
    last_result: Any
    message: str
    reward: float
    done: bool
    tools: list[dict[str, Any]]
    progress: tuple[str, ...] | None = None

    @property
    def steps_remaining(self) -> int:
        return self.max_steps - self.step

    @property
    def text(self) -> str:
        """The compact, stable text form: the clock and the budget, then one line a record."""
        head = f"[{self.now}, step {self.step} of {self.max_steps}] {self.code}"
        if self.step == 0:
            return f"{head}\n{self.task}"
        if self.code != OK:
            return f"{head}: {self.message}"
        return f"{head}\n{compact(self.last_result)}"


def observe(
    brief: str,
    minute: int,
    step: int,
    max_steps: int,
    reply: Reply,
    reward: float,
    done: bool,
    progress: tuple[str, ...] | None,
) -> Observation:
    """Lets through the brief, the clock, the budget, the last reply and the tools. Nothing else of the world passes."""
    return Observation(
        brief,
        clock_text(minute),
        step,
        max_steps,
        reply.code,
        reply.data,
        reply.message,
        reward,
        done,
        TOOLBOX.schemas,
        progress,
    )


def compact(data: Any) -> str:
    """A reply's data in text: a line a record, `-` for what is empty."""
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
    return _value(data)


def _line(shown: dict[str, Any]) -> str:
    return "; ".join(
        [value if key == "id" else f"{key}={value if type(value) is str else _value(value)}" for key, value in shown.items()]
    )


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value)) or "-"
    return str(value)
