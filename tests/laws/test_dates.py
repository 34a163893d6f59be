"""Law: the date of a record never changes, so lists can be kept sorted by it."""

import pytest

from companyos import agents, make
from companyos.families import SHORT_FAMILIES


@pytest.mark.parametrize("family", SHORT_FAMILIES)
def test_the_date_of_a_record_never_changes(family: str) -> None:
    played = [
        agents.play(make(family, seed=seed, chaos=1.0), agents.make(agent, seed))
        for seed in range(5)
        for agent in ("expert", "random")
    ]
    changes = [change for env in played for change in env.world.journal if change.before is not None and change.after.dated]
    assert changes
    for change in changes:
        assert getattr(change.before, change.after.dated) == getattr(change.after, change.after.dated)
