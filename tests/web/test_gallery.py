"""The gallery shows the runs of a results folder, skips other files, and links to the episodes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.chaos import DIALS
from companyos.evaluate.reports.report import read_run
from companyos.evaluate.runs import submission
from companyos.families import FAMILIES
from companyos.web.charts import ChartLine, interval_chart, plot
from companyos.web.labels import in_words
from companyos.web.results_folder import SAMPLE, ResultsFolder
from tests.evaluate.reports import HOSTILE, Tags, hostile_run, mixed_run
from tests.helpers import STEADY
from tests.web.browser import browsing
from tests.web.page_checks import check_clean, look_at
from tests.web.site import RunningSite, served

LOG = [
    {"update": n, "loss": 2 / (n + 1), "success": n / 20, "elapsed": 60.0 * n, "checkup": {"pair_pass": n / 40}}
    for n in range(12)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, a training log, and files that are neither."""
    folder = tmp_path_factory.mktemp("results")
    mixed_run(folder)
    hostile_run(folder)
    (folder / "warm").mkdir()
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in LOG)
    (folder / "warm" / "log.jsonl").write_bytes(lines + b'{"update": 12, "lo')
    (folder / "broken").mkdir()
    (folder / "broken" / "results.json").write_text("{")
    (folder / "broken" / "run.json").write_text("{}")
    (folder / "notes.jsonl").write_text('"hello"\n')
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[RunningSite]:
    with served(results=str(folder)) as one:
        yield one


def test_the_gallery_links_to_an_episode_and_back(site: RunningSite, folder: Path) -> None:
    run = read_run(folder / "naive")
    failed = [one for one in run.outcomes if not one.success]
    with browsing() as seen:
        seen.page.goto(site.url)
        seen.page.get_by_role("link", name="Gallery").click()
        seen.page.wait_for_load_state()
        assert seen.page.locator("#families .card").count() == len(FAMILIES)
        assert seen.page.locator("#dials .card").count() == len(DIALS)
        assert seen.page.locator("#results svg.plot").count() == 1
        seen.page.get_by_role("link", name="naive", exact=True).click()
        success = run.results.overall.numbers["success"].value
        assert f"{100 * success:.1f} %" in seen.page.locator(".figures").inner_text()
        seen.page.get_by_label("Result").select_option("failure")
        seen.page.get_by_role("button", name="Show").click()
        seen.page.wait_for_load_state()
        assert f"{len(failed)} of {len(run.outcomes)}" in seen.page.locator("#episodes").inner_text()
        assert seen.page.locator("#episodes tbody tr").count() == len(failed)
        seen.page.locator("#episodes tbody a").first.click()
        seen.page.locator("#player").wait_for()
        seen.page.wait_for_load_state()
        assert seen.page.get_by_role("heading", name="Failure").is_visible()
        seen.page.locator("#twin").select_option(index=1)
        seen.page.get_by_role("button", name="Show").click()
        seen.page.locator("#player").wait_for()
        assert "twin=" in seen.page.url
        seen.page.get_by_role("link", name="Back to the run").click()
        seen.page.get_by_role("heading", name="naive on").wait_for()
        check_clean(seen, site)


def test_runs_of_the_same_agent_are_told_apart_by_their_folders(folder: Path, tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        copytree(folder / "naive", tmp_path / name)
    with served(results=str(tmp_path)) as site:
        pages = [httpx.get(f"{site.url}{place}", timeout=60).text for place in ("/gallery", "/replay")]
    for page in pages:
        assert '<small class="none">monday</small>' in page
        assert '<small class="none">tuesday</small>' in page
    for name in ("naive in monday", "naive in tuesday"):
        assert f">{name}</span>" in pages[0], "the legend of the chart"


def test_an_unfinished_training_log_is_drawn(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(f"{site.url}/gallery")
        seen.page.get_by_role("link", name="warm").click()
        assert f"{len(LOG)} updates" in seen.page.locator("main").inner_text()
        titles = [one.inner_text() for one in seen.page.locator("figcaption").all()]
        assert titles == ["Success", "Loss", "Pair pass on held-out tasks"]
        assert seen.page.locator("svg.plot").count() == 3
        check_clean(seen, site)


def test_the_gallery_lists_every_family_and_every_dial(site: RunningSite) -> None:
    page = Tags(httpx.get(f"{site.url}/gallery", timeout=60).text)
    for name in FAMILIES:
        assert ("a", {"href": f"/play?family={name}"}) in page.tags
    for dial in DIALS:
        assert in_words(dial) in page.text


def test_files_are_read_in_another_process(site: RunningSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(*_: object) -> None:
        raise AssertionError("read by the worker")

    for name in ("_summary_of", "_training_log"):
        monkeypatch.setattr(ResultsFolder, name, here)
    for place in ("/gallery", "/replay"):
        page = httpx.get(f"{site.url}{place}", timeout=60)
        assert (page.status_code, "naive" in page.text) == (200, True)


def test_without_a_results_folder_the_gallery_shows_a_sample_and_says_how_to_set_one() -> None:
    with served() as site, browsing() as seen:
        seen.page.goto(f"{site.url}/gallery")
        assert "companyos serve --results DIR" in seen.page.locator("#results").inner_text()
        assert seen.page.locator("#families .card").count() == len(FAMILIES)
        seen.page.get_by_role("link", name="naive", exact=True).click()
        results = seen.page.locator("#episodes tbody .pill").all_inner_texts()
        assert {"success", "failure"} == set(results)
        seen.page.locator("#episodes tbody a").first.click()
        seen.page.get_by_role("heading", name="Failure").wait_for()
        check_clean(seen, site)


def test_the_sample_run_is_real_and_small() -> None:
    """Every episode is replayed and judged again, and all numbers are computed again from that."""
    [folder] = SAMPLE.iterdir()
    assert submission.check(folder).findings == ()
    assert sum(file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file()) < 300_000


def test_going_back_from_an_episode_keeps_the_filters_and_the_row(site: RunningSite) -> None:
    with browsing() as seen:
        seen.page.goto(f"{site.url}/gallery/run?at=naive&ended=failure#episodes")
        row = seen.page.locator("#episodes tbody tr").nth(2)
        row_id = row.get_attribute("id")
        row.locator("a").click()
        seen.page.locator("#player").wait_for()
        seen.page.get_by_role("button", name="Show").click()
        seen.page.locator("#player").wait_for()
        seen.page.get_by_role("link", name="Back to the run").click()
        seen.page.get_by_role("heading", name="naive on").wait_for()
        assert seen.page.locator("tr:target").get_attribute("id") == row_id
        assert seen.page.get_by_label("Result").input_value() == "failure"


def test_files_that_are_not_runs_are_skipped(folder: Path) -> None:
    results_folder = ResultsFolder(folder)
    assert sorted(run.name for run in results_folder.runs()) == ["hostile", "naive"]
    assert [log.name for log in results_folder.logs()] == ["warm"]
    assert len(results_folder.log("warm").records) == len(LOG)


@pytest.mark.parametrize(
    "place",
    [
        "/gallery/run?at=../naive",
        "/gallery/run?at=/etc",
        "/gallery/run",
        "/gallery/training?at=naive/outcomes.jsonl",
        "/replay/episode?run=naive&task=../../secret&trial=0",
        "/replay/episode?run=../naive&task=x&trial=0",
        "/replay/episode?run=naive",
    ],
)
def test_nothing_outside_the_results_folder_is_read(site: RunningSite, place: str) -> None:
    assert httpx.get(f"{site.url}{place}", timeout=60).status_code == 404


def test_symbolic_links_out_of_the_folder_are_not_followed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "away").symlink_to(folder / "naive")
    (tmp_path / "log.jsonl").symlink_to(folder / "warm" / "log.jsonl")
    assert (ResultsFolder(tmp_path).runs(), ResultsFolder(tmp_path).logs()) == ([], [])


def test_the_folder_of_a_single_run_can_be_the_results_folder(folder: Path) -> None:
    [run] = ResultsFolder(folder / "naive").runs()
    assert (run.name, run.has_episodes) == (".", True)
    with served(results=str(folder / "naive")) as site:
        page = httpx.get(f"{site.url}/gallery/run?at=.", timeout=60).text
        [first, *_] = re.findall(r'href="(/replay/episode\?[^"]+)"', page)
        assert httpx.get(f"{site.url}{first.replace('&amp;', '&')}", timeout=60).status_code == 200


def test_no_text_of_a_run_becomes_a_part_of_a_page(site: RunningSite, folder: Path) -> None:
    evil = folder / "evil.jsonl"
    evil.write_text("".join(json.dumps({"update": n, HOSTILE: n}) + "\n" for n in range(2)))
    pages = ("/gallery", "/gallery/run?at=hostile", "/gallery/training?at=evil.jsonl", "/replay")
    try:
        with browsing() as seen:
            for page in pages:
                tags = Tags(httpx.get(f"{site.url}{page}", timeout=60).text)
                assert [tags.count(tag) for tag in ("script", "img", "iframe")] == [1, 1, 0], page
                seen.page.goto(f"{site.url}{page}")
                assert (seen.page.title() != "lost", seen.page.locator("img").count()) == (True, 1)
            check_clean(seen, site)
    finally:
        evil.unlink()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_gallery_fits_every_screen_and_is_accessible(site: RunningSite, width: int, scheme: str) -> None:
    with browsing(width, 844, scheme) as seen:
        for page in ("/gallery", "/gallery/run?at=naive", "/gallery/training?at=warm", "/docs"):
            look_at(seen, f"{site.url}{page}", width)


# -- charts ------------------------------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e300, 1e300)


@STEADY
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=50), st.text(max_size=20))
def test_any_numbers_can_be_drawn(points: list[tuple[float, float]], name: str) -> None:
    drawn = Tags(str(plot([ChartLine(name, points)], name, name)))
    assert drawn.tags[0][0] == "svg"
    assert "nan" not in str(drawn.tags[1:])


@STEADY
@given(st.floats(0, 1), st.none() | st.floats(0, 1))
def test_a_share_is_drawn_with_its_interval_or_without(value: float, low: float | None) -> None:
    drawn = Tags(str(interval_chart(value, low, 1.0)))
    assert drawn.count("line") == (1 if low is None else 2)
