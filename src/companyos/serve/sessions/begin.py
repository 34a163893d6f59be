"""Begins sessions: reads which task a reset asks for, at every endpoint, and checks that this server allows it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from companyos.core.errors import BadChoice, BadDose, BadTask
from companyos.core.task import SPLITS, TaskId
from companyos.data.splits import CHAOS, task_at
from companyos.env import CompanyEnv, task_named
from companyos.env.rewards import chosen_name, profile
from companyos.families import canonical
from companyos.serve.errors import InvalidTask, Malformed, UnknownSession
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.screens import PICTURED
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.work_queue import WorkQueue

DEFAULT_FAMILY = "vendor_onboarding"


async def begin(
    queue: WorkQueue, settings: Settings, body: ResetBody, owner: str, in_place_of: str = "", name: str = ""
) -> Session:
    """Begin the session that a reset asks for, and close the session `in_place_of`, which it replaces.

    The id starts with `name`, if one is given. Raise `Malformed` or `InvalidTask` if there is no such task, and, in an exam,
    `AttemptUsed` if this owner has begun the task before.
    """
    _check_terms(settings, body)
    pictured = body.observation == "screenshot"
    if pictured and name:
        raise Malformed("screenshots are only available at /reset and /ws - at `$.observation`")

    def change(sessions: Sessions) -> Session:
        if in_place_of:
            with suppress(UnknownSession):  # it may have expired
                sessions.close(in_place_of, owner)
        return sessions.create(task, reward, body.progress, owner, PICTURED if pictured else name, settings.exam)

    with _named(body):
        task = _task(body)
        reward = chosen_name(body.reward)
        profile(reward)  # checked before the old session is closed
        return await queue.run(change)


def task_id_for_reply(body: ResetBody, session: Session, trusted: bool) -> str:
    """Return the task id for the reply: the canonical one for a trainer, the one that was asked for, if any, for others.

    The canonical id leaves out an override whose value equals the seed's own, so it would reveal that value.
    """
    named = body.task if isinstance(body.task, str) and "-" in body.task else ""
    return session.header.task_id if trusted or not named else named


def _check_terms(settings: Settings, body: ResetBody) -> None:
    if body.progress and not settings.progress:
        raise Malformed("this server does not show progress (COMPANYOS_PROGRESS) - at `$.progress`")
    if settings.exam and _has_overrides(body):
        raise InvalidTask("an exam refuses task ids with overrides")  # the same message for every cause and value


def _has_overrides(body: ResetBody) -> bool:
    return isinstance(body.task, str) and "." in body.task


def episode(body: ResetBody, progress: bool) -> CompanyEnv:
    """Return the episode that a reset asks for, without a session. `progress`: whether the reset may ask for progress."""
    _check_terms(Settings(progress=progress), body)
    if body.observation == "screenshot":
        raise Malformed("screenshots need the pages of `companyos serve` - at `$.observation`")
    with _named(body):
        return CompanyEnv(_task(body), chosen_name(body.reward), body.progress)


def read_reset(given: Mapping[str, Any]) -> ResetBody:
    """Convert decoded fields to a reset body. Fields that are None count as missing."""
    try:
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, ResetBody)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None


def _task(body: ResetBody) -> TaskId:
    chosen = {name: getattr(body, name) for name in ("task", "seed", "chaos", "split", "index")}
    given = {name: value for name, value in chosen.items() if value is not msgspec.UNSET}
    if "index" in given:
        _only(given, ("index", "split", "chaos"), "`{}` cannot be given with an index; the index and the split determine it")
        return task_at(given.get("split", SPLITS[0]), given["index"], given.get("chaos", CHAOS))
    name = given.pop("task", DEFAULT_FAMILY)
    if "-" not in name:
        return task_named(name, **given)
    _only(given, (), "`{}` cannot be given with a task id, which contains it; give it with a family")
    return canonical(TaskId.parse(name))


def _only(given: Mapping[str, Any], allowed: tuple[str, ...], why: str) -> None:
    for name in given:
        if name not in allowed:
            raise Malformed(f"{why.format(name)} - at `$.{name}`")


@contextmanager
def _named(body: ResetBody) -> Iterator[None]:
    """Turn errors of the core into `Malformed` or `InvalidTask`, which name the field."""
    try:
        yield
    except BadChoice as mistake:
        raise Malformed(f"{mistake} - at `$.reward`") from None
    except BadDose as mistake:
        raise Malformed(f"{mistake} - at `$.chaos`") from None
    except BadTask as mistake:
        raise InvalidTask(f"{body.task!r} is not a task" if _has_overrides(body) else str(mistake)) from None
