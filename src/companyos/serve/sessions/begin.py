"""Beginnings: which episode a reset asks for, whatever door it came by, and whether this server begins it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from companyos.core.errors import BadChoice, BadDose
from companyos.core.errors import BadTask as NoSuchTask
from companyos.core.task import SPLITS, TaskId
from companyos.data.splits import CHAOS, task_at
from companyos.env import CompanyEnv, task_named
from companyos.env.rewards import chosen_name, profile
from companyos.families import canonical
from companyos.serve.errors import BadTask, Malformed, UnknownSession
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.screens import PICTURED
from companyos.serve.sessions.sessions import Session, Sessions

FAMILY = "vendor_onboarding"  # where none is named


async def begin(
    lane: Lane, settings: Settings, body: ResetBody, owner: str, in_place_of: str = "", name: str = ""
) -> Session:
    """Begin a session for what is asked; `Malformed` or `BadTask` where there is no such task. Forget the one it replaces.

    Its id starts with `name`, if one is given. In an exam, `AttemptUsed` where this owner has begun the task before.
    """
    _check_terms(settings, body)
    pictured = body.observation == "screenshot"
    if pictured and name:
        raise Malformed("pictures are shown at /reset and at /ws, not at this door - at `$.observation`")

    def change(sessions: Sessions) -> Session:
        if in_place_of:
            with suppress(UnknownSession):  # it may have expired
                sessions.close(in_place_of, owner)
        return sessions.create(task, reward, body.progress, owner, PICTURED if pictured else name, settings.exam)

    with _named(body):
        task = _task(body)
        reward = chosen_name(body.reward)
        profile(reward)  # found out before anything is forgotten
        return await lane.run(change)


def asked_id(body: ResetBody, session: Session, trusted: bool) -> str:
    """The task id to reply with: to a trainer the canonical one, to others the one that they named, if they named one.

    The canonical id lacks an override whose value the seed has anyway, so it tells what the seed's own value is.
    """
    named = body.task if isinstance(body.task, str) and "-" in body.task else ""
    return session.header.task_id if trusted or not named else named


def _check_terms(settings: Settings, body: ResetBody) -> None:
    if body.progress and not settings.progress:
        raise Malformed("this server shows agents no progress (COMPANYOS_PROGRESS) - at `$.progress`")
    if settings.exam and _has_overrides(body):
        raise BadTask("an exam takes no task id with overrides")  # the same words for every cause and value


def _has_overrides(body: ResetBody) -> bool:
    return isinstance(body.task, str) and "." in body.task


def episode(body: ResetBody, progress: bool) -> CompanyEnv:
    """The same without any session: for those who hold the episode themselves. `progress`: whether it may be shown."""
    _check_terms(Settings(progress=progress), body)
    if body.observation == "screenshot":
        raise Malformed("pictures need the pages of `companyos serve` - at `$.observation`")
    with _named(body):
        return CompanyEnv(_task(body), chosen_name(body.reward), body.progress)


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
    return canonical(TaskId.parse(name))


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
        raise BadTask(f"{body.task!r} is no task" if _has_overrides(body) else str(mistake)) from None
