"""The replay pages: transcripts that are replayed step by step, and files that are not transcripts."""

import re
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.twins import do
from companyos.core.calls import Call
from companyos.core.episode import Transcript
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, run_expert
from companyos.evaluate.judge.blame import blame
from companyos.evaluate.judge.blame_text import headline
from companyos.web.episode.review import OtherVersionTranscript, UnreadableTranscript, mark_differences, review
from tests.evaluate.reports import HOSTILE, Tags
from tests.helpers import STEADY, played, step, task_id, ticket
from tests.web.browser import Visit, browsing
from tests.web.page_checks import check_clean, check_looks, look_at
from tests.web.site import RunningSite


@pytest.fixture(scope="module")
def lost() -> CompanyEnv:
    """An episode that failed because the agent did not look."""
    env = played("naive", 8)
    assert env.success is False
    return env


@pytest.fixture(scope="module")
def file(lost: CompanyEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("transcripts") / "lost.jsonl"
    path.write_text(lost.transcript().to_jsonl())
    return path


def drop(seen: Visit, site: RunningSite, file: Path) -> None:
    seen.page.goto(f"{site.url}/replay")
    seen.page.locator("#file").set_input_files(file)
    seen.page.get_by_role("button", name="Replay").click()
    seen.page.locator("#player").wait_for()
    seen.page.wait_for_load_state()  # a script handles the keys and hides all steps but one


def sent(site: RunningSite, text: bytes, **more: str) -> httpx.Response:
    return httpx.post(f"{site.url}/replay", files={"file": ("a.jsonl", text)}, data=more, timeout=60)


def shown_step(seen: Visit) -> int:
    [one] = [scene for scene in seen.page.locator(".scene").all() if scene.is_visible()]
    return int(one.get_attribute("data-step") or 0)


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_a_replay_starts_at_the_decisive_step_and_can_be_stepped(site: RunningSite, lost: CompanyEnv, file: Path) -> None:
    found = blame(lost.transcript())
    with browsing() as seen:
        drop(seen, site, file)
        assert shown_step(seen) == found.step
        assert "Lost here" in seen.page.locator(f"#step-{found.step}").inner_text()
        assert headline(found) in seen.page.locator("main").inner_text()
        seen.page.keyboard.press("[")
        assert shown_step(seen) == found.step - 1
        seen.page.keyboard.press("]")
        seen.page.keyboard.press("]")
        assert shown_step(seen) == min(found.step + 1, len(lost.turns))
        seen.page.locator("#scrub").fill("3")
        assert shown_step(seen) == 3
        seen.page.locator('.track i[data-step="5"]').click()
        assert shown_step(seen) == 5
        wrote = next(n for n, turn in enumerate(lost.turns, 1) if turn.call.method == "update_ticket" and turn.reply.ok)
        seen.page.locator("#scrub").fill(str(wrote))
        assert "Changes" in seen.page.locator(f"#step-{wrote}").inner_text()
        check_clean(seen, site)


def test_the_first_difference_from_the_twin_is_marked(site: RunningSite, lost: CompanyEnv, file: Path) -> None:
    other = make(do(lost.task_id, duplicate="open"))
    apart = 0
    for number, turn in enumerate(lost.turns, 1):
        other.step(turn.call)
        if not apart and other.turns[-1].reply != turn.reply:
            apart = number
    with browsing() as seen:
        drop(seen, site, file)
        seen.page.locator("#twin").select_option(label="Duplicate: yes")
        seen.page.get_by_role("button", name="Show").click()
        seen.page.get_by_text("The first different reply is at").wait_for()
        seen.page.wait_for_load_state()
        seen.page.locator("form.twin a").click()
        assert shown_step(seen) == apart
        scene = seen.page.locator(f"#step-{apart}")
        assert "First difference from the twin" in scene.inner_text()
        assert "Twin, Duplicate: yes" in scene.inner_text()
        assert scene.locator("mark").count() > 0
        before = seen.page.locator(f"#step-{apart - 1}")
        assert before.locator("mark").count() == 0
        assert "Twin, Duplicate: yes: the same reply" in before.text_content()
        check_clean(seen, site)


def test_without_javascript_a_replay_shows_all_steps(site: RunningSite, lost: CompanyEnv, file: Path) -> None:
    with browsing(scripts=False) as seen:
        drop(seen, site, file)
        assert [scene.is_visible() for scene in seen.page.locator(".scene").all()] == [True] * len(lost.turns)
        seen.page.locator("#twin").select_option(label="Duplicate: yes")
        seen.page.get_by_role("button", name="Show").click()
        seen.page.get_by_text("Twin, Duplicate: yes").first.wait_for()


def test_a_file_that_is_dropped_is_sent_at_once(site: RunningSite, file: Path) -> None:
    with browsing() as seen:
        seen.page.goto(f"{site.url}/replay")
        seen.page.evaluate(
            """text => {
                const files = new DataTransfer();
                files.items.add(new File([text], "dropped.jsonl"));
                const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
                document.querySelector("[data-drop]").dispatchEvent(event);
            }""",
            file.read_text(),
        )
        seen.page.locator("#player").wait_for()
        seen.page.wait_for_load_state()
        assert seen.page.get_by_role("heading", name="Failure").is_visible()
        check_clean(seen, site)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_replay_fits_every_screen_and_is_accessible(site: RunningSite, file: Path, width: int, scheme: str) -> None:
    with browsing(width, 844, scheme) as seen:
        look_at(seen, f"{site.url}/replay", width)
        drop(seen, site, file)
        check_looks(seen, width)
        seen.page.locator("#twin").select_option(label="Duplicate: yes")
        seen.page.get_by_role("button", name="Show").click()
        seen.page.locator("form.twin a").first.click()
        seen.page.locator(".causes summary").click()
        check_looks(seen, width)


# -- hostile text ------------------------------------------------------------------------------------------------------


def test_no_text_of_a_transcript_becomes_a_part_of_the_page(site: RunningSite, tmp_path: Path) -> None:
    env = make(task_id())
    step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text=HOSTILE)
    step(env, "ticketdesk.get_history", ticket_id=ticket(env).id)
    env.step(Call(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}))
    env.step(HOSTILE)
    while not env.done:  # an unfinished episode is not shown
        env.step(Call("ticketdesk", "list_tickets"))
    file = tmp_path / "hostile.jsonl"
    file.write_text(env.transcript().to_jsonl())
    page = Tags(sent(site, file.read_bytes()).text)
    assert [page.count(tag) for tag in ("script", "img", "iframe")] == [1, 1, 0]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    with browsing() as seen:
        drop(seen, site, file)
        seen.page.get_by_role("button", name="Show").click()
        seen.page.locator("#player").wait_for()
        assert seen.page.title().startswith("Replay of")
        assert seen.page.locator("img").count() == 1
        check_clean(seen, site)


# -- invalid files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"hello",
        b"{}\n{}\n",
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"[" * 100_000,
        b'{"task_id": "juggling-v4-train-7-50", "reward": "seed", "brief": ""}\n{"done": true, "success": null, "total": 0}',
    ],
)
def test_a_file_that_is_not_a_transcript_gets_a_page_that_explains_transcripts(site: RunningSite, text: bytes) -> None:
    reply = sent(site, text)
    assert reply.status_code == 422
    assert "This cannot be replayed" in reply.text
    assert re.search(rf"This server replays transcripts of benchmark version <b>{BENCHMARK_VERSION}</b>", reply.text)


def test_a_transcript_of_another_version_is_named_with_the_supported_version(site: RunningSite, file: Path) -> None:
    reply = sent(site, file.read_bytes().replace(b'"version":4', b'"version":1').replace(b"-v4-", b"-v1-"))
    assert reply.status_code == 422
    assert "This transcript is of benchmark version 1" in reply.text
    assert f"This server replays transcripts of benchmark version <b>{BENCHMARK_VERSION}</b>" in reply.text


def test_a_file_that_does_not_match_its_calls_is_reported(site: RunningSite, lost: CompanyEnv) -> None:
    said = lost.transcript().to_jsonl().replace('"success":false', '"success":true')
    page = sent(site, said.encode()).text
    assert "The file does not match its calls" in page
    assert ">Failure</h1>" in page


def test_an_invalid_upload_is_refused(site: RunningSite) -> None:
    broken = httpx.post(f"{site.url}/replay", content=b"--x", headers={"content-type": "multipart/form-data; boundary=x"})
    assert broken.status_code == 422
    assert httpx.post(f"{site.url}/replay", data={"twin": "x"}).status_code == 422
    sent_from_elsewhere = {"origin": "http://elsewhere.invalid"}
    assert httpx.post(f"{site.url}/replay", files={"file": b"x"}, headers=sent_from_elsewhere).status_code == 403


LINES = played("jittered", 3).transcript().to_jsonl().splitlines()


@STEADY
@given(st.lists(st.sampled_from(LINES), max_size=6), st.binary(max_size=40), st.integers(0, len(LINES)))
def test_any_file_is_reviewed_or_reported_as_unreadable(lines: list[str], noise: bytes, cut: int) -> None:
    for text in ("\n".join(lines).encode(), noise, "\n".join([*LINES[:cut], LINES[-1]]).encode(), noise.join([b"{", b"}"])):
        try:
            found = review(text)
        except UnreadableTranscript:
            continue
        assert len(found.turns) == len(Transcript.from_jsonl(text).turns)


# -- the review --------------------------------------------------------------------------------------------------------


def test_a_review_says_what_the_judge_and_blame_say(lost: CompanyEnv) -> None:
    found, verdict = review(lost.transcript().to_jsonl().encode()), lost.verdict
    assert verdict is not None
    assert (found.success, found.done, found.mismatch) == (False, True, "")
    assert [reached for _, _, reached in found.goals] == list(verdict.goals.values())
    assert found.decisive == blame(lost.transcript()).step
    assert found.total_reward == pytest.approx(lost.transcript().footer.total)


def test_a_recorded_turn_has_everything_that_its_call_wrote() -> None:
    env = make(task_id(8, "100"))
    run_expert(env)
    found = review(env.transcript().to_jsonl().encode())
    told = [(one.record, name) for turn in found.turns for one in turn.written for name, _, _ in one.fields]
    assert told == [(change.after.id, name) for change in env.world.journal for name in change.names]
    assert {dial for turn in found.turns for dial in turn.troubles} >= {"flaky", "interference", "refresh", "noise"}
    stood = [set(turn.moment.standing) for turn in found.turns]
    assert stood[-1] == set(range(len(found.milestones)))


def test_the_default_twin_changes_the_fact_that_decided_the_loss(lost: CompanyEnv) -> None:
    found = review(lost.transcript().to_jsonl().encode())
    assert found.twin is not None
    assert found.twin.other_ending
    assert found.twin.right_ending != found.right_ending
    deciding = blame(lost.transcript()).story.facts[0]  # type: ignore[union-attr]
    assert found.twin.name.startswith(f"{deciding.cause}.")
    assert {choice.name for choice in found.choices} >= {"duplicate.open", "conflict.requester"}
    assert review(lost.transcript().to_jsonl().encode(), "conflict.requester").twin.name == "conflict.requester"  # type: ignore[union-attr]


def test_an_episode_with_several_actors_is_replayed_without_blame_and_twins() -> None:
    env = make("data_deletion", seed=1, actors=["Legal Counsel"])
    env.step(Call("ticketdesk", "list_tickets"))
    env.step(Call("ticketdesk", "list_tickets"), env.actors[1])
    found = review(env.transcript().to_jsonl().encode())
    assert [bool(turn.actor) for turn in found.turns] == [False, True]
    assert (found.decisive, found.twin, found.explanation) == (0, None, ())


def test_transcripts_of_other_versions_are_distinguished_from_other_files() -> None:
    with pytest.raises(OtherVersionTranscript, match="benchmark version 2"):
        review(b'{"task_id": "x", "version": 2}\n{}\n')


@STEADY
@given(st.text(), st.text())
def test_the_pieces_of_a_reply_join_to_the_reply(one: str, other: str) -> None:
    assert "".join(piece for piece, _ in mark_differences(one, other)) == one
    assert not any(lacks for _, lacks in mark_differences(one, one))
