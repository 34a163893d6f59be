"""Law: for numbers exactly at a limit, the policy text, the expert, the approvers and the grader agree.

Facts draw numbers from ranges whose ends are the limits of policies, such as a score from `minimum` on. Here almost all
numbers are drawn at an end of their range.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from companyos.core.world.streams import Draw
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import setting
from companyos.families.kit import company
from companyos.families.kit.family import _staged
from tests.laws import NAMES, seeds

_ENDS_OF_IDS = (999, 9_999, 99_999, 999_999)  # ranges that end like this are for ids, which must differ


@contextmanager
def at_the_edge(upper: bool) -> Iterator[None]:
    """Draw all integers at the upper or the lower end of their range."""
    ordinary = Draw.between

    def between(draw: Draw, low: int, high: int) -> int:
        if high in _ENDS_OF_IDS:
            return ordinary(draw, low, high)
        return high if upper else low

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draw, "between", between)
        _forget()
        yield
    _forget()


def _forget() -> None:
    setting.cache_clear()
    _staged.cache_clear()
    company._recent.clear()
    company._in_use.clear()


def _staged_at(upper: bool, name: str, seed: int) -> CompanyEnv:
    with at_the_edge(upper):
        return make(name, seed=seed, reward="sparse", size="small")


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_expert_wins_where_amounts_are_exactly_at_a_limit(name: str, upper: bool) -> None:
    for seed in seeds(60, 400, name=name):
        env = _staged_at(upper, name, seed)
        run_expert(env)
        assert env.success, (env.task_id, env.verdict)
