"""Law: harmless variants of the expert's work always win, and wrong ones never do."""

from collections import Counter

import pytest

from companyos.agents.variants import HARMLESS, WRONG
from companyos.assurance import laws
from companyos.families import FAMILIES
from tests.laws import NAMES, seeds


@pytest.mark.parametrize("name", NAMES)
def test_harmless_variants_never_lose(name: str) -> None:
    print(name, laws.harmless_variants_win(name, seeds(10, 150, fresh=5, name=name)).total(), "harmless variants, 0 lost")


@pytest.mark.parametrize("name", NAMES)
def test_wrong_variants_never_win(name: str) -> None:
    print(name, laws.wrong_variants_lose(name, seeds(10, 150, fresh=5, name=name)).total(), "wrong variants, 0 won")


def test_every_variant_is_possible_in_some_family() -> None:
    played: Counter[str] = Counter()
    for name, family in FAMILIES.items():
        if not family.long:
            played += laws.harmless_variants_win(name, range(6)) + laws.wrong_variants_lose(name, range(6))
    assert set(played) == {*HARMLESS, *WRONG}
