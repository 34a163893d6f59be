"""Begins sessions: reads which task a reset asks for, at every endpoint, and checks that this server allows it."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from companyos.core.errors import BadChoice, BadDose, BadTask
from companyos.core.task import SIZES, SPLITS, TaskId
from companyos.data.splits import CHAOS, task_at
from companyos.env import CompanyEnv, task_named
from companyos.env.rewards import chosen_name, profile
from companyos.families import build_company, canonical, company_is_built
from companyos.serve.errors import InvalidTask, Malformed, UnknownSession
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.screens import SCREENSHOT_PREFIX
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.work_queue import WorkQueue

DEFAULT_FAMILY = "vendor_onboarding"


async def begin(
    queue: WorkQueue, settings: Settings, body: ResetBody, owner: str, replaced_id: str = "", name: str = ""
) -> Session:
    """Begin the session that a reset asks for, and close the session `replaced_id`, if one is given.

    The id starts with `name`, if one is given. Raise `Malformed` or `InvalidTask` if there is no such task, and, in an exam,
    `AttemptUsed` if this owner has begun the task before.
    """
    _check_allowed(settings, body)
    with_screenshots = body.observation == "screenshot"
    if with_screenshots and name:
        raise Malformed("screenshots are only available at /reset and /ws - at `$.observation`")

    def replace_session(sessions: Sessions) -> Session:
        if replaced_id:
            with suppress(UnknownSession):  # it may have expired
                sessions.close(replaced_id, owner)
        prefix = SCREENSHOT_PREFIX if with_screenshots else name
        return sessions.create(task, reward, body.progress, owner, prefix, one_attempt=settings.exam)

    with _errors_with_field(body):
        task = _task(body)
        reward = chosen_name(body.reward)
        profile(reward)  # checked before the old session is closed
        if not company_is_built(task):
            await asyncio.to_thread(build_company, task)  # other clients are served meanwhile
        return await queue.run(replace_session)


def task_id_for_reply(body: ResetBody, session: Session, trusted: bool) -> str:
    """Return the task id for the reply: the canonical one for a trainer, the one that was asked for, if any, for others.

    The canonical id leaves out an override whose value equals the seed's own, so it would reveal that value.
    """
    requested_id = body.task if isinstance(body.task, str) and _is_task_id(body.task) else ""
    return session.header.task_id if trusted or not requested_id else requested_id


def _is_task_id(name: str) -> bool:
    """Return whether a name is a task id and not a family: only an id contains a hyphen."""
    return "-" in name


def _check_allowed(settings: Settings, body: ResetBody) -> None:
    """Raise `Malformed` or `InvalidTask` if the settings do not allow this reset."""
    if body.progress and not settings.progress:
        raise Malformed("this server does not show progress (COMPANYOS_PROGRESS) - at `$.progress`")
    if settings.exam and _has_overrides(body):
        raise InvalidTask("an exam refuses task ids with overrides")  # the same message for every cause and value


def _has_overrides(body: ResetBody) -> bool:
    """Return whether the task id sets a hidden cause itself: only an override contains a dot."""
    return isinstance(body.task, str) and "." in body.task


def episode(body: ResetBody, progress: bool) -> CompanyEnv:
    """Return the episode that a reset asks for, without a session. `progress`: whether the reset may ask for progress."""
    _check_allowed(Settings(progress=progress), body)
    if body.observation == "screenshot":
        raise Malformed("screenshots need the pages of `companyos serve` - at `$.observation`")
    with _errors_with_field(body):
        return CompanyEnv(_task(body), chosen_name(body.reward), body.progress)


def read_reset(given: Mapping[str, Any]) -> ResetBody:
    """Convert decoded fields to a reset body. Fields that are None count as missing."""
    try:
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, ResetBody)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None


def _task(body: ResetBody) -> TaskId:
    """Return the task that a reset asks for: by index and split, by family, or by task id."""
    fields = {name: getattr(body, name) for name in ("task", "seed", "chaos", "split", "size", "index")}
    given = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    if "index" in given:
        message = "`{}` cannot be given with an index; the index and the split determine it"
        _refuse_other_fields(given, ("index", "split", "chaos", "size"), message)
        return task_at(given.get("split", SPLITS[0]), given["index"], given.get("chaos", CHAOS), given.get("size", SIZES[0]))
    name = given.pop("task", DEFAULT_FAMILY)
    if not _is_task_id(name):
        return task_named(name, **given)
    _refuse_other_fields(given, (), "`{}` cannot be given with a task id, which contains it; give it with a family")
    return canonical(TaskId.parse(name))


def _refuse_other_fields(given: Mapping[str, Any], allowed: tuple[str, ...], message: str) -> None:
    """Raise `Malformed` if a field is given that is not allowed. `message` has a `{}` for the name of the field."""
    for name in given:
        if name not in allowed:
            raise Malformed(f"{message.format(name)} - at `$.{name}`")


@contextmanager
def _errors_with_field(body: ResetBody) -> Iterator[None]:
    """Turn errors of the core into `Malformed` or `InvalidTask`, which name the field."""
    try:
        yield
    except BadChoice as mistake:
        raise Malformed(f"{mistake} - at `$.reward`") from None
    except BadDose as mistake:
        raise Malformed(f"{mistake} - at `$.chaos`") from None
    except BadTask as mistake:
        raise InvalidTask(f"{body.task!r} is not a task" if _has_overrides(body) else str(mistake)) from None
