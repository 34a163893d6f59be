"""Names: one word for each thing."""

import ast
import re
from collections import defaultdict

from tests.blocks import ROOT

# Names that several modules may define, because something outside of the package asks for them.
SHARED = {
    "Causes": "every family declares its own, and experts and laws find it by this name",
    "CompanyOS": "each host's users import the environment by this name from the host's adapter",
}


def test_a_public_class_name_means_one_thing_in_the_package() -> None:
    places = defaultdict[str, list[str]](list)
    for path in sorted((ROOT / "src" / "companyos").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in SHARED} == {}


def test_the_glossary_has_at_most_forty_words_in_order() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [row for row in rows if row not in ("word", "---")]
    assert 20 < len(words) <= 40
    assert words == sorted(words)
