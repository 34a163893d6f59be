"""Games: a person works a task, from a script and in a terminal."""

from pathlib import Path

import pytest

import companyos
from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.cli.game import completions
from companyos.company import TOOLBOX
from companyos.env import CompanyEnv, make
from companyos.env.knowledge import Knowledge
from companyos.env.line_syntax import write_line
from tests.helpers import FAMILY, played, staged, task_id
from tests.shell import READY, playing, run


def solved(seed: int = 7, chaos: float = 0.5) -> tuple[str, list[str]]:
    """A task and the lines that solve it."""
    env = played("expert", seed, chaos)
    return env.task_id, [write_line(turn.call) for turn in env.turns]


def test_the_experts_lines_solve_the_task_and_the_transcript_replays(tmp_path: Path) -> None:
    task, lines = solved()
    code, out, _ = run("play", task, "--save", tmp_path / "t.jsonl", lines=lines)
    assert code == 0
    assert "Success." in out
    assert f"{len(lines)} steps (par {len(lines)})" in out
    code, out, _ = run("replay", tmp_path / "t.jsonl")
    assert code == 0
    assert f"as recorded, {len(lines)} steps, success, {task}" in out


def test_a_person_sees_what_an_agent_sees_until_the_verdict() -> None:
    task, lines = solved()
    env = make(task)
    texts = [env.reset().text, *(env.step(turn.call).text for turn in played("expert", 7).turns)]
    _, out, _ = run("play", task, lines=lines)
    for text in texts:
        assert text in out
        out = out[out.index(text) + len(text) :]
    _, before, _ = run("play", task, lines=lines[:-1])
    assert "milestones" not in before
    assert "eward" not in before


def test_a_family_with_seed_and_chaos_is_the_task_of_that_id() -> None:
    _, by_family, _ = run("play", FAMILY, "--seed", 7, "--chaos", 0.5)
    _, by_id, _ = run("play", task_id(7, "50"))
    assert by_family == by_id


def test_what_was_left_is_resumed_and_ends_as_if_played_in_one_go(tmp_path: Path) -> None:
    task, lines = solved()
    run("play", task, "--save", tmp_path / "whole", lines=lines)
    code, out, _ = run("play", task, "--save", tmp_path / "parts", lines=[*lines[:5], "quit"])
    assert code == 0
    assert f"companyos play {task} --save {tmp_path / 'parts'}" in out
    _, out, _ = run("play", task, "--save", tmp_path / "parts", lines=lines[5:])
    assert "after step 5" in out
    assert "Success." in out
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["parts", "whole"]


@pytest.mark.parametrize("chosen", ["seed", "dense"])
def test_a_file_with_the_old_name_of_a_reward_profile_is_resumed_and_keeps_it(tmp_path: Path, chosen: str) -> None:
    task, lines = solved()
    file = tmp_path / "t.jsonl"
    run("play", task, "--save", file, lines=[*lines[:5], "quit"])
    file.write_text(file.read_text().replace('"reward":"dense"', '"reward":"seed"', 1))
    assert "Success." in run("play", task, "--reward", chosen, "--save", file, lines=lines[5:])[1]
    assert '"reward":"seed"' in file.read_text().split("\n")[0]


def test_a_file_that_holds_something_else_is_never_written_over(tmp_path: Path) -> None:
    task, lines = solved()
    file = tmp_path / "t.jsonl"
    run("play", task, "--save", file, lines=lines[:2])
    kept = file.read_bytes()
    assert run("play", task_id(8), "--save", file)[0] == 2
    assert run("play", task, "--reward", "score", "--save", file)[0] == 2
    assert file.read_bytes() == kept
    run("play", task, "--save", file, lines=lines[2:])
    assert "finished" in run("play", task, "--save", file)[2]
    file.write_text("dear diary")
    assert "not a transcript" in run("play", task, "--save", file)[2]
    assert file.read_text() == "dear diary"


def test_what_is_no_call_costs_no_step(tmp_path: Path) -> None:
    task, lines = solved()
    local = ["help", "help resolve_ticket", "help nothing", "brief", "told", "", "get_tiket T-1", "get_ticket", "[/bold]"]
    run("play", task, "--save", tmp_path / "plain", lines=lines[:3])
    _, out, _ = run("play", task, "--save", tmp_path / "chatty", lines=[*local, *lines[:3], *local])
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "chatty").read_bytes()
    assert "did you mean get_ticket?" in out


def test_help_says_every_tool_and_how_evidence_is_written() -> None:
    _, out, _ = run("play", FAMILY, lines=["help", "help resolve_ticket"])
    assert all(f"  {tool.method}" in out for tool in TOOLBOX)
    assert "one of cannot_be_done, completed" in out
    assert "T-1:status=open,P-3:minimum=70,C-4:guests=5" in out


def test_told_lists_the_ids_met_by_kind() -> None:
    task, lines = solved()
    _, out, _ = run("play", task, lines=[lines[0], "told"])
    told = out[out.index("> told") :]
    assert f"Ticket: {lines[0].split()[1]}" in told
    assert "Person: @" in told


def test_without_a_file_quitting_says_so() -> None:
    code, out, _ = run("play", FAMILY, lines=["quit"])
    assert code == 0
    assert "Not saved" in out


# -- completion --------------------------------------------------------------------------------------------------------


def offers(line: str, env: CompanyEnv) -> list[str]:
    told = Knowledge(env.setting.case.brief)
    for turn in env.turns:
        told.hear(turn.reply)
    return [whole for _, whole in completions(line, told, env.toolbox)]


def test_completion_offers_tools_choices_ids_facts_and_form_fields() -> None:
    env = play(staged("s50"), make_agent("expert", 0))
    ticket = env.setting.case.ticket_id
    assert offers("get_t", env) == ["get_ticket"]
    assert offers("qu", env) == ["query_metric", "quit"]
    assert offers("help list_approval_", env) == ["list_approval_types"]
    assert ticket in offers("get_ticket T-", env)
    assert offers(f"resolve_ticket {ticket} d", env) == ["declined", "duplicate"]
    assert offers("list_tickets o", env) == ["open"]
    assert f"{ticket}:status=done" in offers(f"resolve_ticket {ticket} declined not_due E-1:x=1,{ticket}:s", env)
    assert f"ticket_id={ticket}" in offers("submit_approval vendor_onboarding @a.b tick", env)
    assert offers("get_approver comp", env) == ['"Compliance Officer"']
    assert offers(f'comment {ticket} "', env) == []
    assert offers("no_such_tool ", env) == []


def test_completion_and_help_offer_the_tools_of_the_episode_and_no_other() -> None:
    plain, cluttered = make(FAMILY), make(FAMILY, chaos={"tool_clutter": 1.0})
    extra = next(tool for tool in cluttered.toolbox if tool.name not in plain.toolbox.names)
    for env, there in ((plain, False), (cluttered, True)):
        assert (extra.method in offers(extra.method, env)) == there
        _, out, _ = run("play", env.task_id, lines=["help", f"help {extra.method}", extra.method])
        assert (f"there is no tool '{extra.method}'" in out) == (not there)
        assert (extra.description.split(".")[0] in out) == there


def test_completion_offers_no_id_that_was_not_told() -> None:
    env = make(FAMILY)
    assert offers("get_ticket ", env) == [env.setting.case.ticket_id]
    assert offers("get_entry ", env) == []


def test_in_a_terminal_tab_completes_a_tool_and_an_id(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with playing(task_id(), "--save", str(file)) as (terminal, process):
        terminal.expect(READY)
        terminal.type("get_t\t")
        terminal.expect("icket")
        terminal.type(" T\t")
        terminal.expect("-")
        terminal.type("\r")
        terminal.expect("step 1 of")
        terminal.expect(READY)
        terminal.type("\x04")
        terminal.expect("Saved in")
        assert process.wait(60) == 0
    ticket = make(task_id()).setting.case.ticket_id
    turn = companyos.Transcript.from_jsonl(file.read_bytes()).turns[0]
    assert turn.call.params == {"ticket_id": ticket}
    assert turn.reply.ok


def test_an_interrupt_ends_a_game_cleanly() -> None:
    with playing(task_id()) as (terminal, process):
        terminal.expect(READY)
        terminal.type("\x03")
        terminal.expect("Not saved")
        assert process.wait(60) == 0
