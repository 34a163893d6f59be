"""A study: visitors get the tasks of a list in turn, and their episodes become a run that a report shows beside agents."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from companyos.assurance.prove import solve
from companyos.core.calls import Call
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.reports.report import read_run
from companyos.serve.ops.settings import BadSetting, Settings
from companyos.web.pages.study import VISITOR_COOKIE
from tests.serve.servers import Server, serving
from tests.shell import run
from tests.web.browser import browsing
from tests.web.page_checks import check_clean, check_looks, look_at
from tests.web.site import served

TASKS = ("expense_report-v4-train-3-0", "vendor_onboarding-v4-train-7-0")


class Visitor:
    """A person's browser, which keeps its cookies and follows redirects."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def overview(self) -> str:
        return self.client.get("/study").text

    def begin(self) -> str:
        """Press the button of the overview. Return the path of the session."""
        page = self.client.post("/study")
        assert page.status_code == 200
        [path] = re.findall(r"^/office/[^/]+", page.url.path)
        return str(path)

    def play(self, path: str, calls: Iterable[Call]) -> httpx.Response:
        """Make calls by the forms of the pages, and return the last page."""
        for turn, call in enumerate(calls, 1):
            page = self.client.post(f"{path}/call", data={"_line": write_line(call), "_turn": str(turn)})
            assert page.status_code == 200
        return page


class Study:
    """A running server of a study, and the browsers that visit it."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack

    def visitor(self) -> Visitor:
        client = httpx.Client(base_url=self.server.url, follow_redirects=True, timeout=60)
        return Visitor(self._stack.enter_context(client))


@contextmanager
def study(folder: Path) -> Iterator[Study]:
    (folder / "list.txt").write_text("\n".join(TASKS))
    settings = {"STUDY": str(folder / "list.txt"), "STUDY_OUT": str(folder / "people")}
    with serving(folder / "ledger", **settings) as server, ExitStack() as stack:
        yield Study(server, stack)


def expert_calls(task_id: str) -> list[Call]:
    return [turn.call for turn in solve(make(task_id)).turns]


def failing_calls(task_id: str) -> list[Call]:
    """Return calls that use up the steps without doing the work."""
    return [Call("ticketdesk", "list_tickets")] * make(task_id).reset().max_steps


def outcomes(folder: Path) -> list[Outcome]:
    lines = (folder / "people" / "outcomes.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Outcome) for line in lines]


def test_visitors_get_each_task_once_in_order_and_a_report_shows_them_beside_an_agent(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        first, second = site.visitor(), site.visitor()
        assert "0 of 2 tasks" in first.overview()
        assert VISITOR_COOKIE not in first.client.cookies  # nothing is stored before the first task
        page = first.play(first.begin(), expert_calls(TASKS[0]))
        assert page.url.path == "/study"
        assert "1 of 2 tasks" in page.text
        assert "solved" not in page.text.replace("tasks you solved when", "")  # no verdict before the end
        page = first.play(first.begin(), failing_calls(TASKS[1]))
        assert "You solved 1 of them." in page.text
        assert first.client.post("/study").url.path == "/study"  # there is no further task
        assert "1 of 2 tasks" in second.play(second.begin(), expert_calls(TASKS[0])).text
    people = outcomes(tmp_path)
    assert [(one.task_id, one.trial, one.success) for one in people] == [
        (TASKS[0], 0, True),
        (TASKS[0], 1, True),
        (TASKS[1], 0, False),
    ]
    assert [one.steps for one in people] == [len(expert_calls(TASKS[0]))] * 2 + [len(failing_calls(TASKS[1]))]
    assert all(one.seconds is not None and one.seconds > 0 for one in people)
    found = read_run(tmp_path / "people")
    assert (found.plan.agent, found.plan.trials) == ("person", 2)

    assert run("eval", "--agent", "null", "--suite", tmp_path / "list.txt", "--out", tmp_path / "null")[0] == 0
    code, out, err = run("report", tmp_path / "people", tmp_path / "null", "--out", tmp_path / "report.html")
    assert (code, err) == (0, ""), out
    table = (tmp_path / "report.md").read_text()
    assert "person" in table.splitlines()[0]
    assert "null" in table.splitlines()[0]
    [seconds] = [line for line in table.splitlines() if line.startswith("| Seconds |")]
    assert re.fullmatch(r"\| Seconds \| \d.* \| – \|", seconds)


def test_a_visitor_who_comes_back_continues_the_session_even_after_a_restart(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        visitor = site.visitor()
        path = visitor.begin()
        visitor.play(path, expert_calls(TASKS[0])[:3])
        assert "Continue with task 1" in visitor.overview()
        assert visitor.begin() == path
        site.server.kill()
        site.server.start()
        assert visitor.begin() == path
        for turn, call in enumerate(expert_calls(TASKS[0]), 1):
            visitor.client.post(f"{path}/call", data={"_line": write_line(call), "_turn": str(turn)})
        assert "1 of 2 tasks" in visitor.overview()
        site.server.kill()
        site.server.start()
        assert "1 of 2 tasks" in visitor.overview()
    starts = (tmp_path / "people" / "starts.jsonl").read_text().splitlines()
    assert [json.loads(line)["task_id"] for line in starts] == [TASKS[0]]


def test_an_episode_that_ended_over_the_api_is_recorded_when_its_visitor_comes_back(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        visitor = site.visitor()
        session_id = visitor.begin().removeprefix("/office/")
        for call in expert_calls(TASKS[0]):
            body = {"session_id": session_id, "app": call.app, "method": call.method, "params": call.params}
            assert httpx.post(f"{site.server.url}/step", json=body).status_code == 200
        assert "1 of 2 tasks" in visitor.overview()
        visitor.client.get(f"/office/{session_id}/verdict")
        assert len(outcomes(tmp_path)) == 1  # recorded once


def test_the_folder_of_a_study_holds_a_random_number_and_nothing_else_about_a_person(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        visitor = site.visitor()
        visitor.client.headers.update({"user-agent": "Secret/1.0", "x-forwarded-for": "203.0.113.9"})
        visitor.play(visitor.begin(), expert_calls(TASKS[0]))
    files = [path for path in (tmp_path / "people").rglob("*") if path.is_file()]
    text = "".join(path.read_text() for path in files)
    assert "Secret/1.0" not in text
    assert "203.0.113.9" not in text
    assert "127.0.0.1" not in text
    [person] = [json.loads(path.read_text()) for path in files if path.name.endswith(".person.json")]
    assert set(person) == {"visitor", "seconds"}


def test_every_number_of_a_finished_study_follows_from_its_files(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        visitor = site.visitor()
        for task_id in TASKS:
            visitor.play(visitor.begin(), expert_calls(task_id))
    code, out, _ = run("submit-check", tmp_path / "people")
    assert code == 0, out
    assert "person on list: 2 episodes, every number follows from the calls" in out


def test_a_cookie_that_is_not_a_visitor_number_counts_as_none(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        for cookie in ("x", "-1", "9" * 13, "\u0661", ""):
            header = f"{VISITOR_COOKIE}={cookie}".encode()
            page = httpx.get(f"{site.server.url}/study", headers=[(b"cookie", header)])
            assert page.status_code == 200
            assert "0 of 2 tasks" in page.text


def test_only_the_tasks_of_the_study_can_be_begun_on_its_pages(tmp_path: Path) -> None:
    with study(tmp_path) as site:
        for path in ("/", "/play", "/watch"):
            assert httpx.get(f"{site.server.url}{path}").headers["location"] == "/study"
        assert httpx.post(f"{site.server.url}/play", data={"family": "expense_report"}).status_code == 405
        assert httpx.get(f"{site.server.url}/replay").status_code == 404


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_fits_the_screen_and_works_by_keyboard(tmp_path: Path, width: int, scheme: str) -> None:
    (tmp_path / "list.txt").write_text("\n".join(TASKS))
    settings = {"study": str(tmp_path / "list.txt"), "study_out": str(tmp_path / "people")}
    with served(**settings) as site, browsing(width, scheme=scheme) as seen:
        look_at(seen, f"{site.url}/", width)
        assert seen.page.url == f"{site.url}/study"
        seen.page.get_by_role("button", name="Begin task 1").focus()
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url("**/office/**")
        check_looks(seen, width)
        check_clean(seen, site)


def test_a_wrong_suite_or_folder_is_one_line(tmp_path: Path) -> None:
    code, out, err = run("serve", "--study", "nothing", "--study-out", tmp_path / "people", "--ledger", "none")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nothing" in err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    code, out, err = run("serve", "--study", "--study-out", tmp_path / "other", "--ledger", "none")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "neither empty nor the folder of a run" in err


@pytest.mark.parametrize("other", [{"COMPANYOS_EXAM": "1"}, {"COMPANYOS_WORKERS": "2"}])
def test_a_study_is_no_exam_and_has_one_worker(other: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match="study"):
        Settings.read({"COMPANYOS_STUDY": "smoke", **other})
