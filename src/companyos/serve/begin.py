"""Beginnings: which episode a reset asks for, whatever door it came by."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from companyos.env import CompanyEnv, task_named
from companyos.errors import BadChoice, BadDose
from companyos.errors import BadTask as NoSuchTask
from companyos.rewards import profile
from companyos.serve.bodies import ResetBody
from companyos.serve.errors import BadTask, Malformed, UnknownSession
from companyos.serve.lane import Lane
from companyos.serve.screens import PICTURED
from companyos.serve.sessions import Session, Sessions
from companyos.splits import CHAOS, task_at
from companyos.task import SPLITS, TaskId

FAMILY = "vendor_onboarding"  # where none is named


async def begin(lane: Lane, body: ResetBody, owner: str, in_place_of: str = "", name: str = "") -> Session:
    """A session for what is asked; `Malformed` or `BadTask` where there is no such thing. What it replaces is forgotten.

    Its id starts with `name`, if one is given.
    """

    pictured = body.observation == "screenshot"
    if pictured and name:
        raise Malformed("pictures are shown at /reset and at /ws, not at this door - at `$.observation`")

    def change(sessions: Sessions) -> Session:
        if in_place_of:
            with suppress(UnknownSession):  # it may have expired
                sessions.close(in_place_of, owner)
        return sessions.create(task, body.reward, body.progress, owner, PICTURED if pictured else name)

    with _named(body):
        task = _task(body)
        profile(body.reward)  # found out before anything is forgotten
        return await lane.run(change)


def episode(body: ResetBody) -> CompanyEnv:
    """The same without any session: for those who hold the episode themselves."""
    if body.observation == "screenshot":
        raise Malformed("pictures need the pages of `companyos serve` - at `$.observation`")
    with _named(body):
        return CompanyEnv(_task(body), body.reward, body.progress)


def read_reset(given: Mapping[str, Any]) -> ResetBody:
    """What a reset asks for, from fields that have been read already; those that are None are not given."""
    try:
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, ResetBody)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None


def _task(body: ResetBody) -> TaskId:
    chosen = {name: getattr(body, name) for name in ("task", "seed", "chaos", "split", "index")}
    given = {name: value for name, value in chosen.items() if value is not msgspec.UNSET}
    if "index" in given:
        _only(given, ("index", "split", "chaos"), "an index says its own {}; give it with a split")
        return task_at(given.get("split", SPLITS[0]), given["index"], given.get("chaos", CHAOS))
    name = given.pop("task", FAMILY)
    if "-" not in name:
        return task_named(name, **given)
    _only(given, (), "a task id says its own {}; give it with a family")
    return TaskId.parse(name)


def _only(given: Mapping[str, Any], these: tuple[str, ...], why: str) -> None:
    for name in given:
        if name not in these:
            raise Malformed(f"{why.format(name)} - at `$.{name}`")


@contextmanager
def _named(body: ResetBody) -> Iterator[None]:
    """Where the core refuses a choice, says by which field it was made."""
    try:
        yield
    except BadChoice as mistake:
        raise Malformed(f"{mistake} - at `$.reward`") from None
    except BadDose as mistake:
        raise Malformed(f"{mistake} - at `$.chaos`") from None
    except NoSuchTask as mistake:
        # With overrides in it, the reason could tell what the causes of the task are.
        with_overrides = isinstance(body.task, str) and "." in body.task
        raise BadTask(f"{body.task!r} is no task" if with_overrides else str(mistake)) from None
