"""On a server without tokens, no page shows the right ending of a task while somebody works on it."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from companyos.core.calls import Call
from companyos.core.episode import Transcript
from companyos.env import make, run_expert, task_named
from companyos.families import FAMILIES
from companyos.serve.access.roles import Client
from companyos.web.app import create
from companyos.web.episode.turn_recorder import hidden_causes
from tests.helpers import FAMILY
from tests.serve.pairs import pairs
from tests.serve.servers import AS_ADMIN, AppClient, body_of, good

TASK = str(task_named(FAMILY, 7, 0.5))
OTHER_DOSE = str(task_named(FAMILY, 7, 0.0))
HTML = {"accept": "text/html"}
TRAINER = {"authorization": "Bearer trainer"}


class Site(AppClient):
    """The server with its pages, in this process."""

    create = staticmethod(create)

    def replay(self, text: str, **headers: str) -> httpx.Response:
        files = {"file": ("a.jsonl", text.encode())}
        return self.runner.run(self._client.post("/replay", files=files, headers=headers, timeout=120))

    def send(self, path: str, form: dict[str, str]) -> httpx.Response:
        """Send a form."""
        return self.runner.run(self._client.post(path, data=form, timeout=120))

    def begin(self, task_id: str) -> str:
        return str(good(self.post("/reset", {"task": task_id}))["session_id"])

    def make(self, session_id: str, calls: list[Call]) -> None:
        for call in calls:
            good(self.step(session_id, call))


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


def right(task_id: str) -> str:
    ending = make(task_id).setting.ending
    return f"{ending.resolution}, {ending.reason}".replace("_", " ")


def solved(task_id: str) -> Transcript:
    env = make(task_id)
    run_expert(env)
    return env.transcript()


def wrong_end(task_id: str) -> Call:
    """Return a call that ends a task in the wrong way."""
    last = solved(task_id).turns[-1].call
    other = "declined" if last.params["resolution"] != "declined" else "done"
    return Call(last.app, last.method, last.params | {"resolution": other, "evidence": []})


def tells(page: str, task_id: str) -> bool:
    """Return whether a page shows the right ending, the causes, the expert's calls or the deciding policy of a task."""
    meanings = [cause.meaning for cause in hidden_causes(make(task_id)) if cause.meaning]
    return any(text in page for text in (right(task_id), "The expert&#39;s calls", "The policy says", *meanings))


# -- the attacks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transcript_without_turns_reveals_nothing(site: Site, family: str) -> None:
    """The attack: replaying a transcript without turns showed the right ending and every cause."""
    task_id = str(task_named(family, 3, 0.5))
    empty = make(task_id).transcript()
    shown = site.replay(empty.to_jsonl(), **HTML)
    assert shown.status_code == 409
    assert not tells(shown.text, task_id)


def test_only_an_admin_can_replay_an_unfinished_episode(site: Site) -> None:
    whole = solved(TASK)
    cut = Transcript(whole.header, whole.turns[:5], make(TASK).transcript().footer).to_jsonl()
    assert "not_over" in site.replay(cut).text
    assert tells(site.replay(cut, **AS_ADMIN).text, TASK)
    with Site(tokens=("trainer",)) as trained:
        assert tells(trained.replay(cut, **TRAINER).text, TASK)


def test_a_fork_that_fails_on_purpose_does_not_reveal_how_to_solve_the_original(site: Site) -> None:
    """The attack: a fork's verdict page showed the expert's calls; copying them won 13 of 20 originals."""
    original = site.begin(TASK)
    site.make(original, [Call("ticketdesk", "list_tickets")])
    [fork] = good(site.post("/fork", {"session_id": original}))["session_ids"]
    site.make(fork, [wrong_end(TASK)])
    sealed = site.get(f"/office/{fork}/verdict")
    assert (sealed.status_code, "Failure" in sealed.text) == (200, True)
    assert not tells(sealed.text, TASK)
    code = site.app.state.watch.code(fork)
    assert "still_open" in site.get(f"/replay/session/{code}").text
    assert tells(site.get(f"/office/{fork}/verdict", headers=AS_ADMIN).text, TASK)
    site.make(original, [wrong_end(TASK)])
    assert tells(site.get(f"/office/{fork}/verdict").text, TASK)
    assert tells(site.get(f"/replay/session/{code}").text, TASK)


def test_a_transcript_of_a_task_that_somebody_works_on_at_another_dose_is_not_shown(site: Site) -> None:
    text = solved(TASK).to_jsonl()
    assert tells(site.replay(text).text, TASK)
    session_id = site.begin(OTHER_DOSE)
    refused = site.replay(text)
    assert (refused.status_code, "still_open" in refused.text) == (409, True)
    assert not tells(refused.text, TASK)
    good(site.post("/close", {"session_id": session_id}))
    assert tells(site.replay(text).text, TASK)


def test_sessions_of_other_workers_count_too(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    with Site(ledger=ledger) as one, Site(ledger=ledger) as other:
        ended = one.begin(TASK)
        one.make(ended, [wrong_end(TASK)])
        session_id = other.begin(TASK)
        assert not tells(one.get(f"/office/{ended}/verdict").text, TASK)
        other.make(session_id, [wrong_end(TASK)])
        assert tells(one.get(f"/office/{ended}/verdict").text, TASK)


def test_a_trainer_sees_a_verdict_although_other_sessions_are_open() -> None:
    with Site(tokens=("trainer",)) as site:
        names = [good(site.post("/reset", {"task": TASK}, headers=TRAINER))["session_id"] for _ in range(2)]
        good(site.post("/step", body_of(names[0], wrong_end(TASK)), headers=TRAINER))
        assert tells(site.get(f"/office/{names[0]}/verdict", headers=TRAINER).text, TASK)


def test_agents_and_exams_have_no_access_to_pages(tmp_path: Path) -> None:
    places = ("/", "/play", "/watch", "/replay", "/gallery", "/office/{}/0", "/office/{}/verdict")
    with Site(tokens=("trainer",)) as site, Site(exam=True, ledger=str(tmp_path / "ledger")) as exam:
        begun = good(site.post("/reset", {"task": TASK}, headers=TRAINER))
        agent = {"authorization": f"Bearer {begun['agent_token']}"}
        sat = good(exam.post("/reset", {"task": TASK}))["session_id"]
        for place in places:
            assert site.get(place.format(begun["session_id"]), headers=agent).status_code == 403
            assert exam.get(place.format(sat)).status_code == 403
        assert exam.replay(solved(TASK).to_jsonl()).status_code == 403


# -- every page of a running session -----------------------------------------------------------------------------------


def looked_at(site: Site, session_id: str) -> Iterator[str]:
    """Return all pages about a running session that anybody can open."""
    place, code = f"/office/{session_id}", site.app.state.watch.code(session_id)
    turn = site.app.state.sessions.observe(session_id).env.step_count
    pages = [
        f"{place}/{turn}",
        f"{place}/0",
        f"{place}/steps",
        f"{place}/verdict",
        f"{place}/form/ticketdesk.resolve_ticket",
    ]
    pages += [place, f"{place}/999", f"/watch/{code}", f"/watch/{code}/world", f"/replay/session/{code}", "/watch"]
    for page in pages:
        reply = site.get(page, headers=HTML)
        shown = f"{reply.status_code} {reply.headers.get('location')} {reply.text}"
        yield re.sub(r"\b\d+ (s|min)\b", "", shown.replace(session_id, "mine").replace(code, "code"))


def test_no_page_distinguishes_twins_before_a_reply_does() -> None:
    compared = 0
    for pair in pairs()[::2]:
        traces = []
        for task_id in (pair.task_id, pair.twin_id):
            with Site() as site:
                session_id = site.begin(task_id)
                trace = list(looked_at(site, session_id))
                site.make(session_id, list(pair.calls))
                trace += looked_at(site, session_id)
                trace += events(site, session_id)
            traces.append(trace)
        assert traces[0] == traces[1], f"{pair.task_id} and {pair.twin_id}"
        compared += len(traces[0])
    assert compared > 50 * 10


def events(site: Site, session_id: str) -> list[str]:
    """Return what a watcher of the session receives first."""
    watch = site.app.state.watch

    async def heard() -> list[str]:
        line = aiter((await watch.events(_request(watch.code(session_id)))).body_iterator)
        made = site.app.state.sessions.observe(session_id).env.step_count
        return [str(await anext(line)) for _ in range(2 if made else 1)]

    return [text.replace(session_id, "mine") for text in site.runner.run(heard())]


def _request(code: str) -> Request:
    scope = {"type": "http", "path_params": {"code": code}, "headers": [], "query_string": b"after=0"}
    return Request(scope | {"state": {"client": Client("", False, "")}})
