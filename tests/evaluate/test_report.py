"""Reports: what a page shows of a run, what it must not contain, and how large it may get."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

import companyos.evaluate.reports
from companyos.cli.main import main
from companyos.core.episode import CANARY
from companyos.evaluate.judge.playback import Playback
from companyos.evaluate.reports import report
from companyos.evaluate.reports.blame_panel import AGENT_RAISED, DECISIONS, blame_panel
from companyos.evaluate.reports.page import html, text
from companyos.evaluate.reports.report import Report, read_run, report_on, sample
from companyos.evaluate.runs.run import BadRun
from companyos.evaluate.stats.headline import DETAILS, HEADLINE, lines_for
from tests.evaluate.helpers import outcome
from tests.evaluate.reports import HOSTILE, Sketcher, Tags, hostile_run, mixed_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_run(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def found(run: Path) -> Report:
    return report_on([run])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_on([hostile_run(tmp_path_factory.mktemp("hostile"))])


def page_of(found: Report) -> str:
    return html(found, Sketcher())


class Played(msgspec.Struct):
    """The data that the page's script reads."""

    runs: list[str]
    episodes: list[Playback]


def played_in(page: str) -> Played:
    data = page.partition('id="playbacks">')[2].partition("</script>")[0]
    return msgspec.json.decode(data, type=Played)


# -- what it says ------------------------------------------------------------------------------------------------------


def test_every_number_is_in_the_page_and_in_the_table_with_its_interval(found: Report) -> None:
    results = found.runs[0].run.results
    shown, table = Tags(page_of(found)).texts, text(found)
    assert {"success", "pass^2", "pair_pass", "causal_sensitivity", "differs_rerun"} <= results.overall.numbers.keys()
    for line in [*HEADLINE, *lines_for([results], DETAILS)]:
        said = line.format(results)
        assert said.value in shown
        assert f"| {line.label} | {said} |" in table
        if said.interval:
            assert any(part.startswith(said.interval) for part in shown)


def test_a_page_has_a_section_for_everything_with_data_and_no_other(found: Report, hostile: Report) -> None:
    assert [name for name in Tags(page_of(found)).ids if f'href="#{name}"' in page_of(found)] == [
        "numbers",
        "doses",
        "families",
        "causes",
        "blame",
        "episodes",
    ]
    without = page_of(hostile)  # of single tasks at one dose
    assert 'id="doses"' not in without
    assert 'id="causes"' not in without


def test_figures_show_the_curves_families_dials_and_differences_of_the_run(found: Report) -> None:
    shown = Tags(page_of(found)).texts
    families = found.runs[0].run.results.families
    assert "0 at 0, 0.25, 0.5, 0.75, 1" in shown
    assert f"0: {', '.join(families)}" in shown
    assert "0: other ending, other way, no difference, same task again" in shown
    assert "Success lost where a dial caused trouble, points" in shown


def test_differences_by_relevance_add_up_to_those_of_the_results(found: Report) -> None:
    changed, numbers = found.runs[0].decision_changed, found.runs[0].run.results.overall.numbers
    assert changed["ending"] == numbers["differs_ending"]
    together = sum(changed[kind].value * changed[kind].n for kind in ("way", "none"))
    assert together == pytest.approx(numbers["differs_other"].value * numbers["differs_other"].n)


def test_the_blame_section_counts_every_examined_episode_once(found: Report) -> None:
    page = page_of(found)
    assert AGENT_RAISED not in page  # this row is shown only where an agent raised
    decisions = [decision for decision in DECISIONS if decision != AGENT_RAISED]
    rows = [
        page.partition(f'<th scope="row">{decision}</th><td>')[2].partition("</td>")[0]
        for decision in (*decisions, "examined")
    ]
    *counts, looked = map(int, rows)
    assert sum(counts) == looked == len(found.runs[0].examined)


def test_the_blame_section_names_mistakes_and_facts_in_plain_words(found: Report) -> None:
    tables = {bars.title: bars for bars in blame_panel(found).runs[0].bars}
    failed = sum(not examined.blame.success for examined in found.runs[0].examined)
    assert sum(count for _, count, _ in tables["Decisive mistake"].rows) == failed > 0
    in_words = [bars for title, bars in tables.items() if title not in ("Decisive call", "In the app")]
    assert "Blind to" in tables
    assert [name for bars in in_words for name, _, _ in bars.rows if "_" in name] == []


def test_several_runs_are_shown_side_by_side_with_their_difference(run: Path, tmp_path: Path) -> None:
    found = report_on([run, mixed_run(tmp_path, "expert", trials=1)])
    beside = found.runs[1].beside_first
    assert beside is not None
    page = Tags(page_of(found))
    assert f"{100 * beside.success_difference.value:+.1f}" in page.text
    assert page.text.count("expert") > 3
    assert "| A naive on mixed | B expert on mixed |" in text(found)


# -- episodes ----------------------------------------------------------------------------------------------------------


def test_an_episode_plays_to_the_return_and_verdict_of_its_outcome(found: Report) -> None:
    outcomes = {(one.task_id, one.trial): one for one in found.runs[0].run.outcomes}
    assert found.episodes
    for one in found.episodes:
        judged = outcomes[one.task_id, one.trial]
        assert (one.success, len(one.moments), one.damage) == (judged.success, judged.steps, judged.damage)
        assert sum(moment.reward for moment in one.moments) == pytest.approx(judged.total, abs=0.01)
        assert one.success == (all(one.goals.values()) and not one.damage)
        assert bool(one.decisive) != one.success
        assert one.differs == ""
    assert played_in(page_of(found)).episodes == list(found.episodes)


def test_failures_come_first_and_families_take_turns(found: Report) -> None:
    assert [one.success for one in found.episodes] == sorted(one.success for one in found.episodes)
    won = [outcome(seed) for seed in range(100)]
    lost = [outcome(seed, success=False, family=name) for name in ("a", "b", "c") for seed in range(100, 140)]
    chosen = sample([*won, *lost])
    assert [one.family for one in chosen[:6]] == ["a", "b", "c"] * 2
    assert (len(chosen), sum(one.success for one in chosen)) == (100, report.SUCCESSES)
    mixed = [*won, *lost]
    Random(1).shuffle(mixed)
    assert sample(mixed) == chosen


def test_a_page_contains_no_more_episodes_than_it_has_room_for(found: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(found.episodes) <= report.MAX_PLAYED
    sizes = [len(msgspec.json.encode(one)) for one in found.episodes]
    monkeypatch.setattr(report, "MAX_BYTES", sum(sizes[:3]))
    assert list(report.episodes_of(found.runs)) == list(found.episodes[:3])


def test_a_long_text_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    found = report_on([hostile_run(tmp_path, HOSTILE * 1000)])
    moments = found.episodes[0].moments
    assert any(moment.call.endswith("characters more") for moment in moments)
    assert any(moment.reply.endswith("characters more") for moment in moments)
    assert len(page_of(found)) < 500_000


# -- what it keeps out -------------------------------------------------------------------------------------------------


def test_no_name_call_or_reply_of_an_agent_becomes_a_tag(hostile: Report) -> None:
    page = page_of(hostile)
    seen = Tags(page)
    assert seen.count("img") == 0
    assert [attributes.get("type") for tag, attributes in seen.tags if tag == "script"] == ["application/json", None]
    assert not [attributes for _, attributes in seen.tags if any(name.startswith("on") for name in attributes)]
    played = played_in(page)
    assert "<img src=x onerror=alert(1)>" in played.runs[0]
    moments = played.episodes[0].moments
    assert sum("</script><script>" in moment.call for moment in moments) > 2
    assert any("</script><script>" in moment.reply for moment in moments)
    assert "<" not in text(hostile)


def test_an_edited_reply_is_named_and_not_shown(tmp_path: Path, run: Path) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(run, edited)
    for path in (edited / "episodes").rglob("*.jsonl"):
        path.write_text(path.read_text().replace('"code":"ok"', f'"code":{msgspec.json.encode(HOSTILE).decode()}', 1))
    found = report_on([edited])
    assert found.episodes
    for one in found.episodes:
        assert not any(HOSTILE in moment.code for moment in one.moments)
        assert "reply was recorded as" in one.differs
        assert HOSTILE[:20] in one.differs
    assert Tags(page_of(found)).count("img") == 0


def test_a_page_fetches_nothing_and_runs_one_program(found: Report) -> None:
    seen = Tags(page_of(found))
    asked = [value for _, attributes in seen.tags for name, value in attributes.items() if name in ("src", "href", "action")]
    assert {str(value)[0] for value in asked} == {"#", "d"}  # places in the page, and the empty icon
    assert "url(http" not in page_of(found)
    policy = next(str(attributes["content"]) for tag, attributes in seen.tags if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert CANARY in seen.text


def test_a_page_has_no_id_twice(found: Report) -> None:
    ids = Tags(page_of(found)).ids
    assert len(ids) == len(set(ids))


def test_the_same_run_gives_the_same_bytes_in_any_folder(run: Path, found: Report, tmp_path: Path) -> None:
    again = report_on([mixed_run(tmp_path)], workers=2)
    assert page_of(again) == page_of(found)
    assert text(again) == text(found)
    assert str(run) not in page_of(found)


# -- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda run: shutil.rmtree(run), "is not the folder of a run"),
        (lambda run: (run / "results.json").unlink(), "has no results.json: finish the run"),
        (lambda run: (run / "results.json").write_text("{}"), "cannot be read: Object missing required field"),
        (lambda run: (run / "outcomes.jsonl").write_text(""), "holds no episode"),
        (lambda run: (run / "outcomes.jsonl").write_text("{}\n"), "cannot be read: Object missing required field"),
        (lambda run: (run / "suite.txt").write_text("gardening"), "cannot be read: "),
        (lambda run: shutil.rmtree(run / "episodes"), "lacks an episode, trial "),
    ],
)
def test_an_unfinished_or_broken_run_is_refused_in_one_line(
    run: Path, tmp_path: Path, break_it: Callable[[Path], object], said: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    break_it(broken)
    with pytest.raises(BadRun) as refused:
        report_on([broken])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_transcript_with_turns_after_its_end_is_refused(run: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    for path in (broken / "episodes").rglob("*.jsonl"):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], *lines[-2:]]) + "\n")
    with pytest.raises(BadRun, match=r"after the episode was over; .companyos submit-check. names all"):
        report_on([broken])


def test_more_runs_than_there_are_colours_are_refused(run: Path) -> None:
    with pytest.raises(BadRun, match="give at most 8"):
        report_on([run] * 9)
    assert read_run(run).plan.agent == "naive"


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_without_its_library_a_report_says_what_to_install(
    run: Path, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    if library == "jinja2":
        monkeypatch.setitem(sys.modules, "markupsafe", None)  # which jinja2 installs
    for module in ("figures", "markup", "page"):
        monkeypatch.delitem(sys.modules, f"companyos.evaluate.reports.{module}", raising=False)
        monkeypatch.delattr(companyos.evaluate.reports, module, raising=False)
    if library != "matplotlib":  # which may be missing here
        monkeypatch.setattr(companyos.evaluate.reports, "figures", Sketcher(), raising=False)
    assert main(["report", str(run)]) == 2
    said = capsys.readouterr()
    assert said.err == f'companyos: a report needs {library}: pip install ".[report]" in a checkout\n'
    assert said.out == ""
    assert not (run / "report.html").exists()
