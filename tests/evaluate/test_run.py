"""Runs: results depend only on the agent and the suite, whatever interrupts a run."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from companyos.agents import AGENTS
from companyos.agents.agent import Usage
from companyos.assurance.replay import replay
from companyos.core.calls import Call
from companyos.core.episode import CANARY, Transcript
from companyos.core.errors import BadChoice
from companyos.core.task import BENCHMARK_VERSION
from companyos.env.observations import Observation
from companyos.evaluate.runs.episode_file import EpisodeKey, places, save_episode, saved_episode, usage_of
from companyos.evaluate.runs.roster import (
    AGENT_KINDS,
    AgentFactory,
    AgentKind,
    BuiltIn,
    add_agent_kind,
    agent_named,
    names,
)
from companyos.evaluate.runs.run import RESULTS_FILE, RUN_FILE, BadRun, evaluate, on_processes, plan_of
from companyos.evaluate.suites.suite import SUITES, suite
from companyos.families.kit.goals import add_up
from tests.evaluate.runs import AGENT, TRIALS, begin, few_tasks, own_suite, small_run
from tests.laws import FULL
from tests.shell import run as command

KILLS = 10 if FULL else 3


def results(run: Path) -> bytes:
    return (run / RESULTS_FILE).read_bytes()


# -- what is written ---------------------------------------------------------------------------------------------------


def test_every_episode_is_a_transcript_that_replays(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    expected = {EpisodeKey(task_id, trial).place for task_id in few_tasks() for trial in range(TRIALS)}
    assert set(places(run)) == expected
    for place in expected:
        assert replay((run / place).read_text()).done


def test_results_name_agent_and_suite_but_neither_time_nor_machine(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    found = msgspec.json.decode(results(run))
    mine = suite(own_suite(tmp_path))
    assert (found["agent"], found["suite"], found["hash"], found["version"]) == (AGENT, "few", mine.hash, BENCHMARK_VERSION)
    assert found["canary"] == CANARY
    circumstances = msgspec.json.decode((run / RUN_FILE).read_bytes())
    assert {"begun", "python", "machine", "companyos"} <= circumstances.keys()
    assert not {"begun", "python", "machine", "companyos"} & found.keys()


def test_sha256sum_accepts_the_manifest(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "manifest.txt"], cwd=run, check=True)


def test_trials_of_a_random_agent_differ_and_the_experts_do_not(tmp_path: Path) -> None:
    for agent, alike in (("jittered", False), ("expert", True)):
        (tmp_path / agent).mkdir()
        run = small_run(tmp_path / agent, agent)
        texts = [[saved_episode(run, EpisodeKey(task_id, trial)) for trial in range(2)] for task_id in few_tasks()]
        assert all((first == second) == alike for first, second in texts)


# -- whatever happens on the way ---------------------------------------------------------------------------------------


def test_the_number_of_workers_does_not_change_the_results(tmp_path: Path) -> None:
    one = small_run(tmp_path, size=8)
    two = tmp_path / "two"
    evaluate(AGENT, own_suite(tmp_path, 8), TRIALS, two, on_processes(2))
    assert results(one) == results(two)


def test_a_run_that_is_killed_repeatedly_ends_with_the_same_results(tmp_path: Path) -> None:
    whole, broken = small_run(tmp_path, size=12), tmp_path / "broken"
    name = own_suite(tmp_path, 12)
    total = 12 * TRIALS
    for kill in range(KILLS):
        there = len(list(places(broken)))
        runner = begin(name, broken)
        # Somewhere between before the first episode of this attempt and the last of all.
        while len(list(places(broken))) < there + kill * (total - there) // (2 * KILLS):
            assert runner.poll() is None, "it was to be killed before its end"
            time.sleep(0.002)
        runner.kill()
        runner.wait()
        _outlive(runner.pid)
    assert not (broken / RESULTS_FILE).exists()
    assert begin(name, broken).wait() == 0
    assert results(broken) == results(whole)
    assert (broken / "outcomes.jsonl").read_bytes() == (whole / "outcomes.jsonl").read_bytes()
    assert not list(broken.rglob("*.part"))


def _outlive(group: int) -> None:
    """Wait until a group of processes has ended: workers must not outlive a runner that was killed."""
    for _ in range(3000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("workers outlived the runner")


def test_finished_episodes_are_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path)
    before = results(run)
    monkeypatch.setattr("companyos.evaluate.runs.run.play_episode", None)
    evaluate(AGENT, own_suite(tmp_path), TRIALS, run, on_processes(1))
    assert results(run) == before


@pytest.mark.parametrize("left", [b"", b"{", b"\xff\xff", b"another"])
def test_an_episode_that_a_power_cut_damaged_is_played_again(tmp_path: Path, left: bytes) -> None:
    run = small_run(tmp_path)
    before = results(run)
    first, second = (run / EpisodeKey(task_id, 0).place for task_id in few_tasks()[:2])
    first.write_bytes(second.read_bytes() if left == b"another" else left)
    evaluate(AGENT, own_suite(tmp_path), TRIALS, run, on_processes(1))
    assert results(run) == before


def test_trials_can_be_added_but_not_removed(tmp_path: Path) -> None:
    run = small_run(tmp_path, trials=1)
    evaluate(AGENT, own_suite(tmp_path), 2, run, on_processes(1))
    assert results(run) == results(small_run(_folder(tmp_path / "other")))
    with pytest.raises(BadRun, match="2 trials"):
        evaluate(AGENT, own_suite(tmp_path), 1, run, on_processes(1))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(("agent", "size"), [("expert", 4), (AGENT, 8)])
def test_a_folder_holds_one_run(tmp_path: Path, agent: str, size: int) -> None:
    run = small_run(tmp_path)
    with pytest.raises(BadRun, match="another folder"):
        evaluate(agent, own_suite(tmp_path, size), TRIALS, run, on_processes(1))


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    with pytest.raises(BadRun, match="neither empty"):
        evaluate("null", "smoke", 1, tmp_path, on_processes(1))
    with pytest.raises(BadRun, match="not the folder of a run"):
        plan_of(tmp_path)


# -- who works ---------------------------------------------------------------------------------------------------------


class Curious:
    """An agent that records its observations and reports a cost for each turn."""

    waits = True
    shown: list[Observation] = []

    def __init__(self) -> None:
        self.usage: list[Usage] = []

    def agent(self, task_id: str, trial: int) -> "Curious":
        return Curious()

    def lacks(self, tasks: Any, trials: int) -> str:
        return ""

    def act(self, obs: Observation) -> Call:
        Curious.shown.append(obs)
        self.usage.append(Usage(tokens_in=100, tokens_out=10, cost=0.001))
        return Call("ticketdesk", "no_such_tool", {})


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(AGENT_KINDS, "curious", AgentKind("PET", lambda which, options: Curious()))
    Curious.shown.clear()
    return "curious:cat"


def test_no_agent_is_shown_a_reward(tmp_path: Path, curious: str) -> None:
    run = small_run(tmp_path, curious, trials=1)
    transcripts = [Transcript.from_jsonl((run / place).read_text()) for place in places(run) if ".usage" not in place]
    assert any(turn.reward for transcript in transcripts for turn in transcript.turns)
    assert {(obs.reward, obs.progress) for obs in Curious.shown} == {(0.0, None)}


def test_tokens_and_costs_are_saved_beside_the_transcript_and_in_the_outcome(tmp_path: Path, curious: str) -> None:
    run = small_run(tmp_path, curious, trials=1)
    episode = EpisodeKey(few_tasks()[0], 0)
    turns = Transcript.from_jsonl(saved_episode(run, episode) or "").turns
    assert usage_of(run, episode) == (Usage(100, 10, 0.001),) * len(turns)
    outcomes = [msgspec.json.decode(line) for line in (run / "outcomes.jsonl").read_bytes().splitlines()]
    counted = [(one["tokens"], one["cost"]) for one in outcomes if one["task_id"] == episode.task_id]
    assert counted == [(110 * len(turns), add_up([0.001] * len(turns)))]


def test_agents_that_wait_for_a_server_play_on_threads(tmp_path: Path, curious: str) -> None:
    one = small_run(tmp_path, curious, trials=1)
    several = tmp_path / "several"
    evaluate(curious, own_suite(tmp_path), 1, several, on_processes(8))  # a lambda cannot go to other processes
    assert results(one) == results(several)


def _sleepy(which: str, options: Mapping[str, str]) -> AgentFactory:
    return BuiltIn(AGENTS["null"])


def test_worker_processes_find_an_agent_of_a_kind_that_was_added_here_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("companyos.evaluate.runs.roster.AGENT_KINDS", dict(AGENT_KINDS))
    add_agent_kind("sleepy", "PET", _sleepy)
    assert "sleepy:PET" in names()
    run, alone = tmp_path / "run", _folder(tmp_path / "alone")
    evaluate("sleepy:cat", own_suite(tmp_path), TRIALS, run, on_processes(2))
    assert results(run).replace(b"sleepy:cat", b"null") == results(small_run(alone, "null"))


def test_saved_episodes_are_evaluated_like_an_agent(tmp_path: Path) -> None:
    ours = small_run(tmp_path)
    again = tmp_path / "again"
    evaluate(f"saved:{ours / 'episodes'}", own_suite(tmp_path), TRIALS, again, on_processes(1))
    assert (again / "manifest.txt").read_bytes() == (ours / "manifest.txt").read_bytes()


def test_saved_episodes_of_other_tasks_are_not_enough(tmp_path: Path) -> None:
    ours = small_run(tmp_path)
    with pytest.raises(BadRun, match="too few episodes of 20 of the 24 tasks"):
        evaluate(f"saved:{ours}", "smoke", 1, tmp_path / "again", on_processes(1))


def test_after_the_last_saved_call_the_agent_waits(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    task_id = few_tasks()[0]
    whole = Transcript.from_jsonl(saved_episode(small_run(tmp_path), EpisodeKey(task_id, 0)) or "")
    save_episode(saved, EpisodeKey(task_id, 0), msgspec.structs.replace(whole, turns=whole.turns[:3]).to_jsonl())
    mine = tmp_path / "mine.txt"
    mine.write_text(task_id)
    evaluate(f"saved:{saved}", str(mine), 1, tmp_path / "again", on_processes(1))
    played = Transcript.from_jsonl(saved_episode(tmp_path / "again", EpisodeKey(task_id, 0)) or "")
    assert [turn.call for turn in played.turns[:3]] == [turn.call for turn in whole.turns[:3]]
    assert {turn.call.method for turn in played.turns[3:]} == {"wait"}
    assert played.footer.success is False


@pytest.mark.parametrize("name", [*AGENTS, "careless:stale", "variant:constant/3", "variant:blind_script/1"])
def test_every_built_in_agent_can_be_measured(tmp_path: Path, name: str) -> None:
    run = small_run(tmp_path, name, trials=1, size=1)
    assert len(list(places(run))) == 1


@pytest.mark.parametrize(
    "name", ["nobody", "", "saved:", "careless:moon", "variant:expert/1", "variant:constant", "saved:/no/such"]
)
def test_an_unknown_agent_is_refused_with_the_valid_names(name: str) -> None:
    with pytest.raises(BadChoice, match="valid: ") as refused:
        agent_named(name).open()
    assert "\n" not in str(refused.value)


# -- on the command line -----------------------------------------------------------------------------------------------


def test_eval_prints_the_result_and_the_folder(tmp_path: Path) -> None:
    code, out, err = command(
        "eval", "--agent", "expert", "--suite", own_suite(tmp_path), "--workers", 1, "--out", tmp_path / "run"
    )
    assert (code, err) == (0, "")
    assert out.startswith(f"expert on few, version {BENCHMARK_VERSION}: 4 of 4 episodes succeeded, 100.0 % (95 % interval: ")
    assert "already in" not in out


@pytest.mark.parametrize(("removed", "kept"), [(0, 4), (1, 3)])
def test_eval_says_how_many_episodes_it_kept_and_how_many_it_played(tmp_path: Path, removed: int, kept: int) -> None:
    run = small_run(tmp_path, "expert", 1)
    for place in list(places(run))[:removed]:
        (run / place).unlink()
    _, out, _ = command("eval", "--agent", "expert", "--suite", own_suite(tmp_path), "--workers", 1, "--out", run)
    assert out.splitlines()[1] == f"{kept} of 4 episodes were already in {run} and were kept; {removed} were played now."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--agent nobody --suite smoke", "unknown agent 'nobody'; valid: expert, jittered, null"),
        ("--agent null --suite garden", "unknown suite 'garden'; valid: smoke, core"),
        ("--agent null --suite smoke --trials 0", "not a number from 1 up"),
    ],
)
def test_an_invalid_run_is_refused_in_one_line_and_writes_nothing(tmp_path: Path, words: str, said: str) -> None:
    code, out, err = command("eval", *words.split(), "--out", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (tmp_path / "run").exists()


def test_the_command_suite_lists_all_suites_and_prints_one(tmp_path: Path) -> None:
    _, out, _ = command("suite")
    assert [line.split()[0] for line in out.splitlines()] == list(SUITES)
    assert command("suite", "smoke") == (0, suite("smoke").to_text(), "")


def test_a_commit_is_the_hash_of_every_file_and_its_name(tmp_path: Path) -> None:
    agent = _folder(tmp_path / "agent")
    (agent / "weights").write_bytes(b"0" * 1000)
    hashes = [command("suite", "commit", agent)[1]]
    (agent / "weights").write_bytes(b"1" * 1000)
    hashes.append(command("suite", "commit", agent)[1])
    (agent / "weights").rename(agent / "other")
    hashes.append(command("suite", "commit", agent)[1])
    assert len(set(hashes)) == 3
    assert all(len(one.strip()) == 64 for one in hashes)


@pytest.mark.parametrize(
    "words", ["suite beacon", "suite commit", "suite commit /no/such", "suite beacon --commit x --beacon y"]
)
def test_a_beacon_without_its_strings_is_refused(words: str) -> None:
    code, out, err = command(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
