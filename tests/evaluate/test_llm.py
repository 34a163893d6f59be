"""Language models are measured like other agents, whatever their endpoint does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from companyos.agents.llm import endpoint as endpoint_module
from companyos.agents.llm.replies import MAX_CALLS
from companyos.company import TOOLBOX
from companyos.core.episode import CANARY, Transcript
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import make
from companyos.env.chat import FORMS, prompt
from companyos.env.line_syntax import find_tool, write_line
from companyos.evaluate.runs.episode_file import EpisodeKey, saved_episode, spent_on, usage_of
from companyos.evaluate.runs.run import RUN_FILE, BadRun, evaluate, on_processes
from tests.agents.fakes import Endpoint, Expert, Request, Response, completion, endpoint, function, step_of, tool_call
from tests.evaluate.runs import few_tasks, own_suite, small_run
from tests.shell import run as command

MODEL = "openai:fake/model-1"


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a pause."""
    monkeypatch.setattr(endpoint_module, "_FIRST_PAUSE", 0.0)


def worked(folder: Path, server: Endpoint, size: int = 4, workers: int = 1, **options: Any) -> Path:
    """A run of a few tasks by the model behind this endpoint."""
    run = folder / "model"
    given = tuple((name, str(value)) for name, value in {"base_url": server.url, **options}.items())
    evaluate(MODEL, own_suite(folder, size), 1, run, on_processes(workers), given)
    return run


def outcomes(run: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (run / "outcomes.jsonl").read_bytes().splitlines()]


def transcript(run: Path, number: int = 0, size: int = 1) -> Transcript:
    return Transcript.from_jsonl(saved_episode(run, EpisodeKey(few_tasks(size)[number], 0)) or "")


# -- who says what the expert says -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*FORMS, "auto"])
def test_a_model_that_makes_the_experts_calls_has_the_experts_results(tmp_path: Path, form: str) -> None:
    with endpoint(Expert(few_tasks())) as server:
        run = worked(tmp_path, server, form=form)
    assert (run / "manifest.txt").read_bytes() == (small_run(tmp_path, "expert", 1) / "manifest.txt").read_bytes()
    assert all(one["success"] for one in outcomes(run))
    assert {("tools" in request) for request in server.requests} == {form != "text"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error": {"message": "the model does not support tools"}}'),
        (400, b'"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, b'{"error": {"code": 500, "message": "tools param requires --jinja flag"}}'),
        (422, b'{"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}'),
    ],
)
def test_an_endpoint_that_takes_no_tools_is_asked_for_lines_of_text(tmp_path: Path, status: int, body: bytes) -> None:
    expert = Expert(few_tasks(1))
    with endpoint(lambda request: Response(body, status) if "tools" in request else expert(request)) as server:
        run = worked(tmp_path, server, 1)
        assert outcomes(run)[0]["success"]
        assert {turn.form for turn in usage_of(run, EpisodeKey(few_tasks(1)[0], 0))} == {"text"}
        with pytest.raises(BadRun, match="no answer from fake/model-1"):
            worked(tmp_path, server, 1, form="tools")


def test_an_endpoint_with_another_name_for_the_token_limit_gets_that_name(tmp_path: Path) -> None:
    expert = Expert(few_tasks(1))
    said = b"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with endpoint(lambda request: Response(said, 400) if "max_tokens" in request else expert(request)) as server:
        assert outcomes(worked(tmp_path, server, 1, max_tokens=77))[0]["success"]
    assert {request["max_completion_tokens"] for request in server.requests[2:]} == {77}


def test_calls_in_one_message_are_made_one_after_the_other_without_asking_in_between(tmp_path: Path) -> None:
    task_id = few_tasks(1)[0]
    calls = [turn.call for turn in transcript(small_run(tmp_path, "expert", 1, 1)).turns]

    def all_at_once(request: Request) -> Response:
        done = step_of(request)
        return completion("Yes.") if done is None else completion(None, *map(tool_call, calls[done:]))

    with endpoint(all_at_once) as server:
        run = worked(tmp_path, server, 1)
    assert outcomes(run)[0]["success"]
    assert len(server.requests) == 1 + -(-len(calls) // MAX_CALLS)
    tokens = [turn.tokens for turn in usage_of(run, EpisodeKey(task_id, 0))]
    assert tokens == [110 if n % MAX_CALLS == 0 else 0 for n in range(len(calls))]


def test_requests_go_out_in_parallel_and_change_nothing(tmp_path: Path) -> None:
    expert = Expert(few_tasks(12))

    def slow(request: Request) -> Response:
        return msgspec.structs.replace(expert(request), seconds=0.005)

    with endpoint(slow) as server:
        run = worked(tmp_path, server, 12, workers=6)
    assert 3 <= server.busiest <= 6
    assert (run / "manifest.txt").read_bytes() == (small_run(tmp_path, "expert", 1, 12) / "manifest.txt").read_bytes()


# -- what it is told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_no_request_contains_the_task_id_a_reward_or_the_canary(tmp_path: Path, form: str) -> None:
    with endpoint(Expert(few_tasks())) as server:
        run = worked(tmp_path, server, form=form)
    sent = json.dumps(server.requests)
    hidden = [CANARY, "reward", "milestone", *few_tasks(), *(make(task_id).setting.ending.name for task_id in few_tasks())]
    assert not [word for word in hidden if word in sent]
    assert any(turn.reward for turn in transcript(run, size=4).turns)


def test_with_tools_a_request_has_all_of_them_and_the_chosen_settings(tmp_path: Path) -> None:
    with endpoint(Expert(few_tasks(1))) as server:
        worked(tmp_path, server, 1, temperature=0.25, max_tokens=99)
    greeting, *requests = server.requests
    for request in requests:
        assert request["tools"] == msgspec.to_builtins(make(few_tasks(1)[0]).toolbox.schemas)
        assert (request["model"], request["temperature"], request["max_tokens"]) == ("fake/model-1", 0.25, 99)
        assert request["messages"][0] == {"role": "system", "content": prompt("tools")}
    assert greeting.keys() == requests[0].keys()


@pytest.mark.parametrize(("context", "at_length"), [(32768, True), (4096, False)])
def test_in_text_the_prompt_lists_every_tool_with_its_choices(tmp_path: Path, context: int, at_length: bool) -> None:
    with endpoint(Expert(few_tasks(1))) as server:
        worked(tmp_path, server, 1, form="text", context=context, max_tokens=100)
    system = server.requests[-1]["messages"][0]["content"]
    lines = [line for line in system.splitlines() if line]
    assert all(any(line.startswith(tool.method) for line in lines) for tool in TOOLBOX)
    resolve = find_tool("resolve_ticket")
    assert resolve is not None
    for name in ("resolution", "reason"):
        assert all(choice in system for choice in resolve.schema["function"]["parameters"]["properties"][name]["enum"])
    assert (resolve.description in system) == at_length


def test_requests_keep_within_the_context_as_the_endpoint_counts_it(tmp_path: Path) -> None:
    """It counts three characters as a token; the agent does not know this."""
    expert, context = Expert(few_tasks(4)), 6000

    def strict(request: Request) -> Response:
        tokens = len(json.dumps([request["messages"], request.get("tools", [])], ensure_ascii=False)) // 3
        if tokens + request["max_tokens"] > context:
            return Response(b'{"error": {"message": "maximum context length is 6000 tokens"}}', 400)
        said = json.loads(expert(request).body)
        said["usage"] = {"prompt_tokens": tokens, "completion_tokens": 10}
        return Response(json.dumps(said).encode())

    with endpoint(strict) as server:
        run = worked(tmp_path, server, 4, form="text", context=context, max_tokens=50)
        assert all(one["success"] for one in outcomes(run))
        assert spent_on(run).failures == 0
    whole = max(len(turns) for turns in (transcript(run, n, 4).turns for n in range(4)))
    longest = max(server.requests, key=lambda request: len(request["messages"]))
    assert len(longest["messages"]) == 2 * whole  # a pair a turn but the last, before them the prompt and the brief


def test_a_request_that_the_endpoint_finds_too_long_is_shortened(tmp_path: Path) -> None:
    expert = Expert(few_tasks(1))

    def short_of_memory(request: Request) -> Response:
        if len(json.dumps(request["messages"])) > 14_000:
            return Response(b"this model's maximum context length is exceeded", 400)
        return expert(request)

    with endpoint(short_of_memory) as server:
        run = worked(tmp_path, server, 1, form="text")
    assert outcomes(run)[0]["success"]


# -- whatever an endpoint does -----------------------------------------------------------------------------------------

BAD = {
    "an error": Response(b"oops", 500),
    "a refusal": Response(b"oops", 400),
    "no room": Response(b"busy", 429, {"retry-after": "0"}),
    "hung up": Response(b"", raw=True),
    "half an answer": Response(b'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"choi', raw=True),
    "nothing in time": Response(b"{}", seconds=1.5),
    "garbage": Response(b"\xff\x00 garbage"),
    "a page": Response(b"<html>Bad gateway</html>"),
    "a stream": Response(b'data: {"choices": [{"delta": {"content": "get"}}]}\n\ndata: [DO'),
    "broken JSON": Response(b'{"choices": [{"message": {"content": "get_'),
    "no choice": Response(b'{"choices": []}'),
    "no call": completion("I am not sure what to do."),
    "nothing": completion(None),
    "bad arguments": completion(None, function("ticketdesk_get_ticket", '{"ticket_id": ')),
    "an unknown tool": completion(None, function("ticketdesk_dance", "{}")),
    "a broken tool call": completion(None, {"function": {}}),
    "a huge text": completion("never mind " * 60_000),
    "a flood": Response(b'{"choices": "' + b"x" * 3_000_000),
    "huge arguments": completion(None, function("ticketdesk_comment", {"ticket_id": "T-1", "text": "T" * 500_000})),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("form", FORMS)
def test_a_bad_answer_of_an_endpoint_costs_a_step_and_not_the_run(tmp_path: Path, name: str, form: str) -> None:
    def at_the_second_step(request: Request) -> Response | None:
        return BAD[name] if step_of(request) == 1 else None

    with endpoint(Expert(few_tasks(1), at_the_second_step)) as server:
        run = worked(tmp_path, server, 1, form=form, timeout=0.5 if name == "nothing in time" else 60)
    [outcome] = outcomes(run)
    assert (outcome["invalid"], outcome["success"]) == (1, True)
    usage = usage_of(run, EpisodeKey(few_tasks(1)[0], 0))
    assert len(usage) == outcome["steps"]
    assert not usage[0].note
    assert not usage[2].note
    sound = form == "tools" and name in ("an unknown tool", "huge arguments")  # a call, if one that the company refuses
    assert bool(usage[1].note) != sound


def test_an_endpoint_that_breaks_down_for_good_costs_all_steps_and_not_the_run(tmp_path: Path) -> None:
    """It is asked once per step and never waited for."""

    def after_the_first(request: Request) -> Response | None:
        return Response(b"", 503) if step_of(request) != 0 else None

    with endpoint(Expert(few_tasks(1), after_the_first)) as server:
        run = worked(tmp_path, server, 1)
    [outcome] = outcomes(run)
    assert (outcome["invalid"], outcome["success"]) == (outcome["steps"] - 1, False)
    assert spent_on(run).failures == len(server.requests) - 2


def test_what_a_model_costs_is_what_its_endpoint_counts(tmp_path: Path) -> None:
    with endpoint(Expert(few_tasks(1))) as server:
        run = worked(tmp_path, server, 1, price_in=2.0, price_out=30.0)
    turns = len(transcript(run).turns)
    spent = spent_on(run)
    assert (spent.tokens_in, spent.tokens_out, spent.failures) == (100 * turns, 10 * turns, 0)
    assert spent.cost == pytest.approx(turns * (100 * 2 + 10 * 30) / 1e6)
    assert outcomes(run)[0]["tokens"] == 110 * turns


# -- on the command line -----------------------------------------------------------------------------------------------


def refused(folder: Path, *words: object) -> str:
    """The one line that is printed when a run cannot be started."""
    code, out, err = command("eval", "--suite", "smoke", "--out", folder / "run", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not (folder / "run").exists()
    return err


def test_eval_asks_a_model_and_says_what_it_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_KEY", "open-sesame")
    with endpoint(Expert(few_tasks())) as server:
        words = ["--base-url", server.url, "--api-key-env", "FAKE_KEY", "--text", "--temperature", 0, "--price", "1,2"]
        limits = ["--max-tokens", 64, "--context", 8000, "--timeout", 60, "--concurrency", 3]
        code, out, err = command(
            "eval", "--agent", MODEL, "--suite", own_suite(tmp_path), "--out", tmp_path / "run", *words, *limits
        )
    assert (code, err) == (0, "")
    first, second, *_ = out.splitlines()
    assert first.startswith(f"{MODEL} on few, version {BENCHMARK_VERSION}: 4 of 4 episodes succeeded, 100.0 % (")
    turns = len(server.requests) - 1
    cost = f"{turns * 120 / 1e6:.4f}"
    assert second == f"{100 * turns:,} tokens read, {10 * turns:,} written, cost {cost}; 0 requests failed"
    assert {headers["authorization"] for headers in server.headers} == {"Bearer open-sesame"}
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"open-sesame" not in written
    options = msgspec.json.decode((tmp_path / "run" / RUN_FILE).read_bytes())["options"]
    assert options == {
        "base_url": server.url, "api_key_env": "FAKE_KEY", "form": "text", "temperature": "0.0", "price_in": "1.0",
        "price_out": "2.0", "max_tokens": "64", "context": "8000", "timeout": "60.0",
    }  # fmt: skip
    assert command("submit-check", tmp_path / "run")[0] == 0


def test_an_unreachable_endpoint_is_reported_in_one_line_before_the_run(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        said = refused(tmp_path, "--agent", MODEL, "--base-url", url)
    assert said.startswith(f"companyos: no answer from fake/model-1 at {url}/chat/completions: ")


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (Response(b"no such model", 404), "it answered 404 Not Found: no such model"),
        (Response(b"bad key", 401), "it answered 401 Unauthorized: bad key"),
        (Response(b"<html>"), "not a chat completion"),
    ],
)
def test_an_endpoint_that_refuses_us_is_reported_in_one_line(tmp_path: Path, response: Response, said: str) -> None:
    with endpoint(lambda request: response) as server:
        assert said in refused(tmp_path, "--agent", MODEL, "--base-url", server.url)


def test_a_context_too_small_for_any_answer_is_refused(tmp_path: Path) -> None:
    with endpoint(lambda request: completion("Yes.", tokens=(650, 2))) as server:
        said = refused(tmp_path, "--agent", MODEL, "--base-url", server.url, "--context", 1000, "--max-tokens", 100)
    assert "a context of 1000 tokens is too short: it needs 1050 besides the answer" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"--agent {MODEL}", "needs --base-url"),
        (
            "--agent expert --base-url http://127.0.0.1:1/v1",
            "expert is not a language model behind an endpoint: --base-url is for",
        ),
        ("--agent expert --concurrency 4", "--concurrency is for openai:MODEL"),
        (f"--agent {MODEL} --base-url 127.0.0.1:1", "unknown base URL '127.0.0.1:1'; valid: http://HOST:PORT/v1"),
        (f"--agent {MODEL} --base-url http://127.0.0.1:1/v1 --api-key-env NO_SUCH_KEY", "unknown variable 'NO_SUCH_KEY'"),
        (f"--agent {MODEL} --base-url http://127.0.0.1:1/v1 --price 3", "'3' is not a price; write 0.15,0.60"),
        (f"--agent {MODEL} --base-url http://127.0.0.1:1/v1 --price -1,2", "argument --price"),
        (f"--agent {MODEL} --base-url http://127.0.0.1:1/v1 --temperature warm", "argument --temperature"),
        (f"--agent {MODEL} --base-url http://127.0.0.1:1/v1 --context 0", "not a number from 1 up"),
        ("--agent openai: --base-url http://127.0.0.1:1/v1", "unknown agent 'openai:'; valid: "),
    ],
)
def test_contradictory_options_are_refused_in_one_line(tmp_path: Path, words: str, said: str) -> None:
    assert said in refused(tmp_path, *words.split())


# Tests that were started in the background are deaf to it, and so is what they start.
_HEARS_CTRL_C = """
import signal, sys
from companyos.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def test_ctrl_c_ends_a_run_whose_endpoint_hangs_and_it_can_be_resumed(tmp_path: Path) -> None:
    hangs = True
    expert = Expert(few_tasks())

    def hanging(request: Request) -> Response:
        return Response(seconds=60) if hangs and step_of(request) == 2 else expert(request)

    with endpoint(hanging) as server:
        words = ["eval", "--agent", MODEL, "--suite", own_suite(tmp_path), "--out", str(tmp_path / "model")]
        words += ["--base-url", server.url]
        surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        runner = subprocess.Popen([sys.executable, "-c", _HEARS_CTRL_C, *words], env=surroundings, start_new_session=True)
        while sum(step_of(request) == 2 for request in server.requests) < 2:
            assert runner.poll() is None
            time.sleep(0.01)
        runner.send_signal(signal.SIGINT)
        assert runner.wait(30) == 130
        hangs = False
        assert command(*words)[0] == 0
    expert_run = small_run(tmp_path, "expert", 1)
    assert (tmp_path / "model" / "manifest.txt").read_bytes() == (expert_run / "manifest.txt").read_bytes()


# -- people ------------------------------------------------------------------------------------------------------------


def test_a_game_that_a_person_saved_is_evaluated_like_an_agent(tmp_path: Path) -> None:
    task_id = few_tasks(1)[0]
    expert = small_run(tmp_path, "expert", 1, 1)
    lines = [write_line(turn.call) for turn in transcript(expert).turns]
    (tmp_path / "played").mkdir()
    code, _, err = command("play", task_id, "--save", tmp_path / "played" / "mine.jsonl", lines=["get_ticke", *lines])
    assert (code, err) == (0, "")
    words = ["--suite", own_suite(tmp_path, 1), "--out", tmp_path / "person"]
    code, out, err = command("eval", "--agent", f"saved:{tmp_path / 'played'}", *words)
    assert (code, err) == (0, "")
    assert "1 of 1 episodes succeeded, 100.0 % (too few seeds for an interval)" in out
    assert (tmp_path / "person" / "manifest.txt").read_bytes() == (expert / "manifest.txt").read_bytes()
    assert command("submit-check", tmp_path / "person")[0] == 0
