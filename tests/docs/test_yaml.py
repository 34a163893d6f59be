"""Project files in YAML can be parsed. The core has no YAML parser; the environment of the documentation has one."""

from pathlib import Path

import pytest
import yaml

from tests.blocks import ROOT

FILES = [ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml", *sorted((ROOT / ".github").rglob("*.yml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_file_is_a_yaml_mapping(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text()), dict)


def test_every_issue_form_asks_for_something_and_names_its_fields_once() -> None:
    forms = [
        yaml.safe_load(file.read_text()) for file in FILES if file.parent.name == "ISSUE_TEMPLATE" and file.stem != "config"
    ]
    assert len(forms) == 3
    for form in forms:
        fields = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert len(fields) == len(set(fields)) > 0
        assert any(part.get("validations", {}).get("required") for part in form["body"])
