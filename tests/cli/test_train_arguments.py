"""Arguments of the training commands."""

from argparse import Namespace

import pytest

from companyos.cli.train_arguments import families_of
from companyos.families import SHORT_FAMILIES, STARTER_FAMILIES


def test_families_are_selected_by_group_or_by_name() -> None:
    assert families_of(Namespace(families="starter")) == STARTER_FAMILIES
    assert families_of(Namespace(families="all")) == SHORT_FAMILIES
    assert families_of(Namespace(families="quarter_close,bug_escalation")) == ("quarter_close", "bug_escalation")


def test_the_old_name_of_the_starter_families_is_accepted_with_a_one_line_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert families_of(Namespace(families="seed")) == STARTER_FAMILIES
    assert capsys.readouterr().err == "companyos: --families seed is now called --families starter\n"
