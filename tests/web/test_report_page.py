"""A report in a browser: no errors, no requests, readable on every screen, and its episodes play."""

from pathlib import Path

import pytest

from companyos.cli.main import main
from tests.evaluate.reports import hostile_run, mixed_run
from tests.web.browser import visit


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    runs = [mixed_run(folder), mixed_run(folder, "expert", trials=1)]
    assert main(["report", *map(str, runs), "--out", str(folder / "page.html"), "--workers", "1"]) == 0
    return folder / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_a_page_is_seen_on_every_screen_without_an_error_or_a_request(
    page: Path, tmp_path: Path, width: int, height: int, scheme: str
) -> None:
    with visit(page, width, height, scheme) as seen:
        assert seen.errors == []
        assert seen.requests == [page.as_uri()]
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width, (
            "the page itself does not scroll sideways"
        )
        for figure in seen.page.locator("figure svg").all():
            box = figure.bounding_box()
            assert box["width"] > 60
            assert box["height"] > 30
        picture = tmp_path / "page.png"
        seen.page.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 100_000, "a page that is empty compresses to less"
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(14, 16, 20)") == (scheme == "dark")


def test_an_episode_plays_step_by_step_by_mouse_and_by_key(page: Path) -> None:
    with visit(page) as seen:
        episode = seen.page.evaluate("JSON.parse(document.getElementById('playbacks').textContent).episodes[0]")
        where, last = seen.page.locator(".when span").first, len(episode["moments"])
        assert where.text_content() == f"Step {episode['decisive']} of {last}"
        assert seen.page.locator(".when .decisive").text_content() == "the decisive call"
        slider = seen.page.get_by_role("slider", name="Step")
        slider.press("Home")
        assert where.text_content() == f"Step 0 of {last}"
        slider.press("ArrowRight")
        first = episode["moments"][0]
        assert seen.page.locator(".moment pre").first.text_content() == first["call"]
        assert first["clock"] in seen.page.locator(".when").text_content()
        seen.page.get_by_role("button", name="One step on").click()
        assert where.text_content() == f"Step 2 of {last}"
        seen.page.get_by_role("button", name="To the decisive call").click()
        assert where.text_content() == f"Step {episode['decisive']} of {last}"
        slider.press("End")
        total = sum(moment["reward"] for moment in episode["moments"])
        assert f"{abs(total):.2f}" in seen.page.locator(".when").text_content()
        assert seen.page.get_by_role("heading", name="Verdict").is_visible()
        seen.page.locator(".list button").nth(1).click()
        assert seen.page.locator(".list button").nth(1).get_attribute("aria-current") == "true"
        assert seen.errors == []


def test_an_episode_plays_by_itself_and_can_be_paused(page: Path) -> None:
    with visit(page) as seen:
        seen.page.get_by_role("slider", name="Step").press("Home")
        seen.page.get_by_role("button", name="Play").click()
        seen.page.get_by_text("Step 2 of").wait_for()
        seen.page.get_by_role("button", name="Pause").click()
        assert seen.page.get_by_role("button", name="Play").is_visible()
        assert seen.errors == []


def test_hostile_text_in_a_report_does_not_run(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    assert main(["report", str(run), "--workers", "1"]) == 0
    with visit(run / "report.html") as seen:
        slider = seen.page.get_by_role("slider", name="Step")
        slider.press("Home")
        for _ in range(5):
            slider.press("ArrowRight")
            assert seen.page.locator("img").count() == 0
        assert seen.page.title().startswith("CompanyOS report")
        assert seen.page.locator("script").count() == 2
        assert (seen.errors, seen.requests) == ([], [(run / "report.html").as_uri()])


def test_the_content_security_policy_blocks_scripts_even_without_escaping(page: Path, tmp_path: Path) -> None:
    pierced = tmp_path / "pierced.html"
    lost = "document.title = 'lost'"
    hole = f"<script>{lost}</script><img src=x onerror=\"{lost}\"><img src='//example.invalid/x'>"
    pierced.write_text(page.read_text().replace("<main>", f"<main>{hole}", 1))
    with visit(pierced) as seen:
        assert seen.page.title().startswith("CompanyOS report")
        assert set(seen.requests) - set(seen.stopped) == {pierced.as_uri()}
        assert sum("Content Security Policy" in error for error in seen.errors) >= 3


def test_a_report_is_written_into_the_run_s_folder_and_is_reproducible(tmp_path: Path) -> None:
    run = mixed_run(tmp_path)
    written = []
    for workers in ("1", "2"):
        assert main(["report", str(run), "--workers", workers]) == 0
        written.append([(run / name).read_bytes() for name in ("report.html", "report.md")])
    assert written[0] == written[1]
    assert len(written[0][0]) < 1_000_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{run}", "{run}"], "needs --out FILE"),
        (["{run}/nothing"], "is not the folder of a run"),
        (["{run}", "--out", "{run}/no/page.html"], "cannot write"),
    ],
)
def test_impossible_commands_are_refused_in_one_line(
    arguments: list[str], said: str, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(page.parent / "naive")
    assert main(["report", *(word.format(run=run) for word in arguments), "--workers", "1"]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
