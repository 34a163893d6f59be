"""What a host can ask before it begins: the name of the environment, the schemas of its messages, and its tasks."""

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
    """Return the JSON schemas of actions, observations and states in a dialect."""
    return msgspec.json.decode(SCHEMAS.read_bytes())[dialect]


def task_spec(split: str, index: int) -> dict[str, Any]:
    """Describe a task of a split. For trainers only: with its id, anybody can look into the task."""
    task = task_at(split, index)
    return {"id": str(task), "split": split, "index": index, "family": task.family}
