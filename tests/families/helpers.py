"""Helpers for the tests of families: episodes of a case in which nothing is wrong, and the expert's work on them."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from companyos.assurance.twins import do
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.case import Value


def staged_by(family: str, calm: Mapping[str, Value], **options: Any) -> Callable[..., CompanyEnv]:
    """Return a function that makes an episode with these calm facts, some of them changed by its arguments.

    `options` are those of `make`.
    """

    def staged(**causes: Value) -> CompanyEnv:
        return make(do(calm_task(family, tuple(calm.items())), **causes), **options)

    return staged


@cache
def calm_task(family: str, calm: tuple[tuple[str, Value], ...]) -> str:
    """Return the id of the first task whose seed draws these facts, so that few overrides are needed."""
    return next(calm_episodes(family, dict(calm))).task_id


def calm_episodes(family: str, calm: Mapping[str, Value]) -> Iterator[CompanyEnv]:
    """Yield the episodes of the family, by seed, that have these facts."""
    for seed in range(4000):
        env = make(family, seed=seed)
        if all(getattr(env.setting.causes, name) == value for name, value in calm.items()):
            yield env
    raise AssertionError("no such seed among the first 4,000")


def ending(env: CompanyEnv) -> str:
    """Return the name of the right ending, such as `declined/below_minimum`."""
    return env.setting.ending.name


def solved(env: CompanyEnv) -> CompanyEnv:
    """Return a fork of the episode that the expert has won."""
    done = env.fork()
    run_expert(done)
    assert done.success, done.verdict
    return done


def worked(env: CompanyEnv) -> tuple[CompanyEnv, Call]:
    """Play the episode up to the expert's last call. Return it and that call."""
    turns = solved(env).turns
    for turn in turns[:-1]:
        env.step(turn.call)
    return env, turns[-1].call


def missed(env: CompanyEnv, call: Call, **params: Any) -> list[str]:
    """Make the last call with these parameters changed. Return the goals that are missed."""
    env.step(Call(call.app, call.method, {**call.params, **params}))
    assert env.verdict is not None
    return [name for name, holds in env.verdict.goals.items() if not holds]
