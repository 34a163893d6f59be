"""Command line: what a person or a script gets from each command."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import companyos
from companyos.assurance import prove_many as proofs
from companyos.assurance.prove import Proof
from companyos.bench import speed as bench
from companyos.chaos import DIALS
from companyos.cli import main as cli
from companyos.cli import options
from companyos.core.errors import Unsolvable
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.data import demos
from companyos.env import CompanyEnv, make, task_named
from companyos.env.line_syntax import write_line
from companyos.env.teacher import work_aloud
from companyos.evaluate.runs import run as runs
from companyos.families import SHORT_FAMILIES
from tests.helpers import FAMILY, played, task_id
from tests.shell import run

# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_an_unknown_family_is_one_line_and_exit_code_2() -> None:
    assert run("tasks", "--family", "gardening") == (
        2,
        "",
        f"companyos: unknown family 'gardening'; valid: {', '.join(companyos.families())}\n",
    )


@pytest.mark.parametrize(
    "command",
    [
        "dance",
        "play",
        "play gardening",
        "play gardening-7",
        f"play {FAMILY} --chaos 3",
        f"play {FAMILY} --chaos much",
        f"play {FAMILY} --seed -1",
        f"play {FAMILY} --reward fame",
        f"play {task_id()} --seed 3",
        f"play {FAMILY} --save /no/such/folder/file",
        f"play {FAMILY} --save /",
        f"watch {FAMILY} --agent nobody",
        "prove --seeds 5:1",
        "prove --seeds all",
        "prove --chaos 0,x",
        "prove --workers 0",
        "bench --rounds none",
        f"watch {FAMILY} --delay -1",
        f"twins {task_id()}-moon.full",
        "demos --n 0",
        "demos --n 1 --split test",
        "demos --n 1 --mix expert",
        "demos --n 1 --mix hero=1",
        "demos --n 1 --mix expert=0",
        "demos --n 1 --chaos 2",
        "demos --n 1 --family gardening",
        "demos --n 1 --format csv",
        "demos --n 1 --out /no/such/folder/file",
        "regrade /no/such/folder",
        "regrade README.md",
        "regrade src/companyos/core",
    ],
)
def test_a_mistake_of_the_caller_is_one_line_and_exit_code_2(command: str) -> None:
    code, out, err = run(*command.split())
    assert (code, out) == (2, "")
    assert err.startswith("companyos: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("bug", [KeyError("x"), ValueError("x")])
def test_a_bug_of_ours_crashes(monkeypatch: pytest.MonkeyPatch, bug: Exception) -> None:
    def broken(*_: object) -> TaskId:
        raise bug

    monkeypatch.setattr(options, "task_named", broken)
    with pytest.raises(type(bug)):
        run("tasks")


def test_an_interrupted_run_says_how_to_go_on_and_the_same_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [str(task_named(FAMILY, seed)) for seed in range(3)]
    (tmp_path / "three.txt").write_text("\n".join(tasks))
    words = [
        "eval",
        "--agent",
        "expert",
        "--suite",
        f"{tmp_path}/three.txt",
        "--out",
        f"{tmp_path}/my run",
        "--workers",
        "1",
    ]
    play = runs.play_episode
    episodes: list[Any] = []

    def interrupted(*arguments: Any) -> Any:
        if len(episodes) == 2:
            raise KeyboardInterrupt
        episodes.append(play(*arguments))
        return episodes[-1]

    monkeypatch.setattr(runs, "play_episode", interrupted)
    code, out, err = run(*words)
    assert (code, out) == (130, "")
    advice, _, command = err.strip().partition(": companyos ")
    assert advice == "companyos: interrupted; to go on, give the same command again"
    monkeypatch.setattr(runs, "play_episode", play)
    code, out, _ = run(*shlex.split(command))
    assert code == 0
    assert "3 of 3 episodes succeeded" in out


def test_an_interrupted_command_that_starts_over_does_not_promise_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> TaskId:
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "task_named", interrupted)
    assert run("tasks") == (130, "", "companyos: interrupted\n")


def test_a_reader_who_leaves_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "companyos", "tasks", "--seeds", "0:50000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"vendor_onboarding-v")
        process.stdout.close()
        assert process.stderr.read() == b""


def test_importing_the_package_loads_nothing_that_draws_on_screens() -> None:
    check = "import companyos, sys; assert not {'rich', 'prompt_toolkit', 'companyos.cli.main'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_importing_the_package_loads_nothing_of_the_server() -> None:
    check = "import companyos, sys; assert not {'companyos.serve', 'fastapi', 'uvicorn', 'sqlite3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_without_its_extra_the_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "companyos.serve.run", raising=False)
    assert run("serve") == (2, "", 'companyos: serving needs uvicorn: pip install ".[serve]" in a checkout\n')
    monkeypatch.setitem(sys.modules, "fastmcp", None)
    monkeypatch.delitem(sys.modules, "companyos.serve.mcp.server", raising=False)
    monkeypatch.delitem(sys.modules, "companyos.serve.mcp.stdio", raising=False)
    assert run("mcp") == (2, "", 'companyos: MCP needs fastmcp: pip install ".[serve]" in a checkout\n')


def test_the_module_is_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-m", "companyos", "--version"], check=True)
    assert capfd.readouterr().out == f"companyos {companyos.__version__}\n"


# -- watch and demo ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "verdict"), [("expert", "Success."), ("null", "Failure.")])
def test_watch_ends_with_the_verdict(agent: str, verdict: str) -> None:
    code, out, _ = run("watch", task_id(7, "50"), "--agent", agent)
    assert code == 0
    assert verdict in out
    assert "The right ending was" in out


def test_the_old_name_of_a_reward_profile_is_accepted_with_one_line_that_says_the_new_one() -> None:
    code, out, notice = run("watch", task_id(7, "50"), "--reward", "seed")
    assert (code, notice.count("\n")) == (0, 1)
    assert "'seed' is now called 'dense'" in notice
    assert out == run("watch", task_id(7, "50"), "--reward", "dense")[1]


def test_watch_shows_each_call_with_its_reward_and_the_clock() -> None:
    env = played("expert", 7)
    _, out, _ = run("watch", env.task_id)
    for turn in env.turns:
        assert write_line(turn.call) in out
        assert turn.now in out
    assert "milestones +1.50" in out


def test_watch_says_why_where_an_agent_does_what_is_due() -> None:
    env = CompanyEnv(TaskId.parse(played("expert", 7).task_id))
    reasons = [line for spoken in work_aloud(env) for line in spoken.working]
    _, out, _ = run("watch", env.task_id)
    assert reasons
    assert [line.removeprefix("     = ") for line in out.splitlines() if line.startswith("     = ")] == reasons


def test_every_command_that_the_demo_suggests_can_be_given() -> None:
    code, out, _ = run("demo")
    assert code == 0
    assert "Success." in out
    _, _, next_steps = out.partition("What to try next:\n")
    suggested = next_steps.splitlines()[::2]  # each is followed by a line that says what it is for
    assert [line.split()[1] for line in suggested] == ["play", "watch", "twins", "prove", "bench"]
    for line in suggested:
        cli.parser().parse_args(line.split()[1:])
    assert run(*suggested[2].split()[1:])[0] == 0


# -- prove and replay --------------------------------------------------------------------------------------------------


def test_every_task_is_proved_and_its_twins_are_told_apart() -> None:
    code, out, _ = run("prove", "--seeds", "0:3", "--chaos", "0.5", "--workers", 1)
    assert code == 0
    count = 3 * len(SHORT_FAMILIES)
    assert f"{count} of {count} proved" in out
    assert "twins with another ending told apart in time" in out
    assert "Par by dose" in out
    assert "Par by ending" in out


def test_two_processes_find_what_one_finds() -> None:
    same = ("prove", "--seeds", "0:5", "--chaos", "0,1", "--no-twins")
    assert run(*same, "--workers", 2)[:2] == run(*same, "--workers", 1)[:2]


def test_each_dial_alone_is_one_word() -> None:
    _, out, _ = run("tasks", "--family", FAMILY, "--seeds", "3", "--chaos", "0.5,each")
    assert out.split() == [str(task_named(FAMILY, 3, chaos)) for chaos in ("quarter_end", *(f"only_{d}" for d in DIALS))]


def test_a_failure_names_the_cause_that_stands_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def helpless(task_id: str) -> Proof:
        if make(task_id).setting.causes.insurance == "expired":
            raise Unsolvable(f"{task_id}: gave up")
        return companyos.prove(task_id)

    monkeypatch.setattr(proofs, "prove", helpless)
    seed = next(seed for seed in range(100) if make(FAMILY, seed=seed).setting.causes.insurance == "expired")
    code, out, err = run("prove", "--family", FAMILY, "--seeds", seed, "--chaos", "0", "--workers", 1, "--no-twins")
    assert code == 1
    assert f"{task_id(seed)}: gave up; the cause: insurance=expired\n" in out
    assert err.endswith(" s on 1 process\n")


def test_what_cannot_be_proved_is_listed_and_exit_code_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def stubborn(task_id: str) -> Proof:
        raise Unsolvable(f"{task_id}: gave up")

    monkeypatch.setattr(proofs, "prove", stubborn)
    code, out, _ = run("prove", "--family", FAMILY, "--seeds", "0:25", "--chaos", "0", "--workers", 1)
    assert code == 1
    assert f"{task_id(0)}: gave up" in out
    assert out.count("gave up") == 20
    assert "and 5 more" in out
    assert "0 of 25 proved" in out


@pytest.mark.parametrize("bug", [StopIteration("none"), KeyError("none"), RuntimeError("none")])
def test_a_family_that_crashes_stops_the_proof_loudly(monkeypatch: pytest.MonkeyPatch, bug: Exception) -> None:
    def crash(task_id: str) -> Proof:
        raise bug

    monkeypatch.setattr(proofs, "prove", crash)
    with pytest.raises((KeyError, RuntimeError)) as crashed:
        run("prove", "--family", FAMILY, "--seeds", "0:3", "--chaos", "0", "--workers", 1)
    first = crashed.value.__cause__ or crashed.value
    assert first is bug
    assert f"while proving {task_id(0)}" in first.__notes__


def test_a_twin_that_cannot_be_told_apart_in_time_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "first_difference", lambda ours, theirs: len(ours))
    code, out, _ = run("prove", "--seeds", "7", "--chaos", "0", "--workers", 1)
    assert code == 1
    assert "comes before anything differs from" in out


def test_a_transcript_that_was_touched_up_differs(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    text = played("expert", 7).transcript().to_jsonl()
    good.write_text(text)
    bad.write_text(text.replace('"success":true', '"success":false'))
    code, out, _ = run("replay", bad, good)
    assert code == 1
    first, second = out.splitlines()
    assert first.startswith(f"{bad}: differs, line ")
    assert second.startswith(f"{good}: as recorded")


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_text(played("expert", 7).transcript().to_jsonl())
    code, out, err = run("replay", tmp_path / "gone", good)
    assert code == 2
    assert "as recorded" in out
    assert err.startswith("companyos: cannot read ")


# -- regrade -----------------------------------------------------------------------------------------------------------


def test_regrade_shows_what_changed_and_counts_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = played("expert", 7).transcript().to_jsonl()
    files = {
        "same.jsonl": played("random", 7).transcript().to_jsonl(),
        "deeper/judged.jsonl": text.replace('"success":true', '"success":false'),
        "moved.jsonl": text.replace('"reply":', '"reply": ').replace('"ok":true', '"ok":false'),
        "old.jsonl": text.replace(f'"version":{BENCHMARK_VERSION}', '"version":1').replace(
            f"-v{BENCHMARK_VERSION}-", "-v1-"
        ),
        "note.jsonl": "hello\n",
        "note.txt": text,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("regrade", ".")
    assert (code, err) == (1, "")
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]
    cells = [row for row in cells if row[0]]  # the others go on with what did not fit
    assert [row[0] for row in cells] == ["changed", "other world", "other version", "no transcript"]
    assert [row[2] for row in cells] == ["deeper/judged.jsonl", "moved.jsonl", "old.jsonl", "note.jsonl"]
    assert cells[0][1:] == [task_id(7, "50"), "deeper/judged.jsonl", "failure -> success"]
    assert cells[1][3].startswith("line 2: reply was recorded as ")
    assert cells[2][1] == task_id(7, "50").replace(f"-v{BENCHMARK_VERSION}-", "-v1-")
    assert [line.split()[0] for line in out.splitlines()[-5:]] == ["1"] * 5


def test_regrade_is_content_where_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "same.jsonl").write_text(played("expert", 7).transcript().to_jsonl())
    code, out, _ = run("regrade", tmp_path)
    assert code == 0
    assert out.splitlines()[-1].split() == ["1", "unchanged"]
    assert "│" not in out


# -- demos -------------------------------------------------------------------------------------------------------------


def test_demos_are_lines_that_python_makes_too(tmp_path: Path) -> None:
    code, out, err = run("demos", "--n", 4, "--chaos", "0,1", "--mix", "expert=1,failed=1", "--seed", 5)
    assert (code, err) == (0, "")
    ours = list(demos.episodes(4, chaos=(0.0, 1.0), mix={"expert": 1, "failed": 1}, seed=5))
    assert [msgspec.json.decode(line, type=demos.Demo) for line in out.splitlines()] == ours
    chat = tmp_path / "chat.jsonl"
    assert run("demos", "--n", 2, "--format", "chat", "--out", chat) == (0, "", "")
    rows = [msgspec.json.decode(line, type=demos.Chat) for line in chat.read_text().splitlines()]
    assert rows == [demos.as_chat(demo) for demo in demos.episodes(2)]


def test_demos_of_a_held_out_split_have_to_be_meant() -> None:
    code, out, err = run("demos", "--n", 1, "--split", "test")
    assert (code, out) == (2, "")
    assert "--held-out" in err
    code, out, _ = run("demos", "--n", 1, "--split", "test", "--held-out")
    assert code == 0
    assert "-test-" in out


def test_a_mistake_does_not_empty_the_file_that_was_there(tmp_path: Path) -> None:
    kept = tmp_path / "demos.jsonl"
    kept.write_text("precious")
    assert run("demos", "--split", "test", "--out", kept)[0] == 2
    assert kept.read_text() == "precious"


def test_demos_are_the_same_bytes_in_every_process() -> None:
    command = [sys.executable, "-m", "companyos", "demos", "--n", "8", "--format", "chat"]
    printed = [
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != b""


# -- lists -------------------------------------------------------------------------------------------------------------


def test_tasks_prints_ids_that_can_be_made() -> None:
    _, out, _ = run("tasks", "--family", FAMILY, "--seeds", "3:5", "--chaos", "0.25", "--split", "test")
    assert out.splitlines() == [task_id(3, "25", "test"), task_id(4, "25", "test")]
    assert [make(line).task_id for line in out.splitlines()] == out.splitlines()


def test_tools_are_a_table_or_the_schemas() -> None:
    _, out, _ = run("tools")
    assert "update_ticket ticket_id field value " in out
    lines = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    apps = {app: lines.index(app) for app in ("ticketdesk", "datahub", "approvalflow")}  # a call has to name the app
    assert apps["ticketdesk"] < lines.index("wait") < apps["datahub"] < lines.index("get_entry") < apps["approvalflow"]
    _, out, _ = run("tools", "--json")
    assert msgspec.json.decode(out) == companyos.tools()


def test_tools_of_a_task_are_those_that_its_episode_offers() -> None:
    env = make(FAMILY, seed=3, chaos={"tool_clutter": 1.0})
    _, out, _ = run("tools", env.task_id, "--json")
    assert msgspec.json.decode(out) == env.reset().tools != companyos.tools()
    _, out, _ = run("tools", env.task_id)
    assert "legacy_lookup entry_id" in out


def test_twins_shows_every_twin() -> None:
    _, out, _ = run("twins", task_id())
    for twin in companyos.twins(task_id()):
        row = next(line for line in out.splitlines() if f" {twin.task_id} " in line)
        assert row.strip("│ ").split("│")[2].strip() == twin.relevance


def test_bench_measures_as_many_rounds_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []
    monkeypatch.setattr(bench, "main", lambda rounds, as_json: asked.append((rounds, as_json)))
    assert run("bench", "--rounds", 3)[0] == 0
    assert run("bench", "--json")[0] == 0
    assert asked == [(3, False), (7, True)]
