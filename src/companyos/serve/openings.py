"""Openings: a session from what somebody asked for. What they got wrong is named by its field."""

import msgspec

from companyos.env import task_named
from companyos.errors import BadChoice, BadDose
from companyos.errors import BadTask as NoSuchTask
from companyos.serve.bodies import ResetBody
from companyos.serve.errors import BadTask, Malformed
from companyos.serve.lane import Lane
from companyos.serve.sessions import Session
from companyos.task import TaskId


async def begin(lane: Lane, body: ResetBody, owner: str, name: str = "") -> Session:
    """A session that has begun; its id starts with `name`, if one is given."""
    try:
        task = _task(body)
        return await lane.run(lambda sessions: sessions.create(task, body.reward, body.progress, owner, name))
    except BadChoice as mistake:
        raise Malformed(f"{mistake} - at `$.reward`") from None
    except BadDose as mistake:
        raise Malformed(f"{mistake} - at `$.chaos`") from None
    except NoSuchTask as mistake:
        # With overrides in it, the reason could tell what the causes of the task are.
        raise BadTask(f"{body.task!r} is no task" if "." in body.task else str(mistake)) from None


def _task(body: ResetBody) -> TaskId:
    chosen = {name: getattr(body, name) for name in ("seed", "chaos", "split")}
    given = {name: value for name, value in chosen.items() if value is not msgspec.UNSET}
    if "-" not in body.task:
        return task_named(body.task, **given)
    if given:
        raise Malformed(f"a task id says its own {next(iter(given))}; give it with a family - at `$.{next(iter(given))}`")
    return TaskId.parse(body.task)
