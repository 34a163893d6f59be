"""Law: the rewards during an episode do not reveal its right ending."""

import pytest

from companyos.assurance import reward_laws as laws_rewards
from tests.laws import NAMES, seeds


@pytest.mark.parametrize("name", NAMES)
def test_twins_pay_the_same_until_a_reply_differs_or_the_episode_ends(name: str) -> None:
    compared = laws_rewards.rewards_tell_nothing(name, seeds(4, 60, fresh=1, name=name))
    print(f"{name}: {compared} turns compared")
    assert compared > 500
