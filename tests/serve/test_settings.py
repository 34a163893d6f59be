"""The settings, each read from a variable `COMPANYOS_<NAME>`."""

import pytest

from companyos.serve.ops.settings import BadSetting, Settings


def test_without_variables_all_is_as_by_default() -> None:
    assert Settings.read({}) == Settings()
    assert Settings.read({"COMPANYOS_PORT": "", "COMPANYOS_SERVICE_HOST": "10.0.0.1"}) == Settings()


def test_variables_are_read_by_their_types() -> None:
    found = Settings.read(
        {"COMPANYOS_PORT": "9000", "COMPANYOS_FSYNC": "true", "COMPANYOS_TOKENS": "a, b,", "COMPANYOS_IDLE_SECONDS": "0.5"}
    )
    assert (found.port, found.fsync, found.tokens, found.idle_seconds) == (9000, True, ("a", "b"), 0.5)


def test_the_port_of_the_platform_counts_unless_ours_is_set() -> None:
    assert Settings.read({"PORT": "7860"}).port == 7860
    assert Settings.read({"PORT": "7860", "COMPANYOS_PORT": "9000"}).port == 9000


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "tcp://10.0.0.1:8000"), ("PORT", "70000"), ("CAPACITY", "0"), ("IDLE_SECONDS", "-1"), ("LOG_FORMAT", "xml")],
)
def test_a_bad_value_is_one_line_that_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=rf"\ACOMPANYOS_{name}: [^\n]+\Z"):
        Settings.read({f"COMPANYOS_{name}": value})


def test_several_workers_need_a_ledger_that_they_share() -> None:
    with pytest.raises(BadSetting, match="ledger"):
        Settings.read({"COMPANYOS_WORKERS": "2", "COMPANYOS_LEDGER": "none"})
