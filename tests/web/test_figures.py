"""Charts of reports: the same bytes every time, the page's own colours, and all text escaped."""

import re

import pytest
from markupsafe import Markup

from companyos.evaluate.reports import figures
from companyos.evaluate.stats.doses import Curve, curves
from companyos.evaluate.stats.intervals import Estimate
from tests.evaluate.helpers import outcome
from tests.evaluate.reports import HOSTILE, Tags

SURE, UNSURE = Estimate(0.5, 0.25, 0.75, 12), Estimate(1.0, None, None, 1)


def falling() -> Curve:
    """Return twenty tasks, of which a quarter more fail with each dose."""
    doses = ("0", "25", "50", "75", "100")
    return curves(
        outcome(seed, success=seed >= 5 * number, doses=dose) for seed in range(20) for number, dose in enumerate(doses)
    )["all"]


def drawn(title: str = "Some figure") -> list[Markup]:
    rows = {"first_row": SURE, "last_row": UNSURE}
    return [
        figures.dose_response([(0, falling()), (7, falling())], f"{title}, large"),
        figures.small_dose_response([(0, falling())], f"{title}, small"),
        figures.intervals(list(rows), [(0, rows), (1, {"last_row": SURE})], f"{title}, shares"),
        figures.intervals(list(rows), [(2, rows)], f"{title}, differences", signed=True),
    ]


def test_a_figure_is_the_same_to_the_byte_each_time() -> None:
    assert drawn() == drawn()


@pytest.mark.parametrize("number", range(4))
def test_a_figure_has_the_colours_of_the_page_and_a_label_for_screen_readers(number: int) -> None:
    figure = drawn()[number]
    assert not re.search(r"#[0-9a-f]{6}\b", figure)
    assert "var(--run-" in figure
    assert figure.startswith("<svg ")
    assert 'role="img" aria-label="Some figure, ' in figure
    assert "date" not in figure.lower()


def test_figures_of_a_page_share_no_id() -> None:
    ids = Tags("".join(drawn())).ids
    assert ids
    assert len(ids) == len(set(ids))


def test_a_name_in_a_figure_stays_a_name() -> None:
    for name in ("<script>$\\frac{$", HOSTILE):
        seen = Tags(figures.intervals([name], [(0, {name: SURE})], HOSTILE))
        assert not {"script", "img"} & {tag for tag, _ in seen.tags}
        assert name[:18] in seen.text


def test_ec50_is_marked_where_success_is_halved() -> None:
    curve = falling()
    assert curve.ec50.value == pytest.approx(0.5)
    never = Curve(curve.doses, curve.area, type(curve.ec50)("> 1"))
    assert (
        figures.dose_response([(0, curve)], "x").count("<use") == figures.dose_response([(0, never)], "x").count("<use") + 1
    )
