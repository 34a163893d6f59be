"""Catalog: what a host is told before it begins. The environment's name, the shapes of its messages, its tasks by number."""

from pathlib import Path
from typing import Any

import msgspec

from companyos import __version__
from companyos.data.splits import task_at

NAME = "companyos"
METADATA: dict[str, Any] = {
    "name": NAME,
    "description": "A company in a box: agents do real, messy enterprise work and are graded on what they leave behind.",
    "readme_content": None,
    "version": __version__,
    "author": None,
    "documentation_url": None,
}
SCHEMAS = Path(__file__).with_name("schemas.json")  # written by `python -m companyos.integrations.openenv.schemas`


def schemas(dialect: str) -> Any:
    """Of actions, observations and states, in this dialect."""
    return msgspec.json.decode(SCHEMAS.read_bytes())[dialect]


def task_spec(split: str, index: int) -> dict[str, Any]:
    """A task of a split. This is for trainers: with its id, a task can be looked into."""
    task = task_at(split, index)
    return {"id": str(task), "split": split, "index": index, "family": task.family}
