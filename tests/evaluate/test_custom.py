"""Users' agents: what can be one, how it is named, what is said if it cannot be loaded, and what happens if it raises."""

import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

import msgspec
import pytest

from companyos.agents.agent import play
from companyos.agents.custom import AgentRaised, load_agent, summary_of
from companyos.agents.tiny import TinyWeights, first_weights, save
from companyos.cli.main import main
from companyos.core.calls import Call
from companyos.core.episode import Transcript
from companyos.env import make
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.runs.episode_file import EpisodeKey
from companyos.evaluate.runs.run import OUTCOMES_FILE, RESULTS_FILE, RUN_FILE, BadRun, evaluate, on_processes
from companyos.evaluate.runs.submission import check
from tests.agents.fakes import Expert, endpoint
from tests.blocks import ROOT
from tests.evaluate.runs import few_tasks, own_suite, small_run
from tests.helpers import task_id

EXAMPLES = ROOT / "examples" / "agents"

AGENTS = """
from companyos import Call

WAIT = {"app": "ticketdesk", "method": "wait", "params": {"hours": 24}}
constant = 3

def function(obs):
    return WAIT

class WithAct:
    def act(self, obs):
        return Call("ticketdesk", "wait", {"hours": 24})

class Callable:
    def __call__(self, obs):
        return WAIT

thing = WithAct()

class Counts:
    def __init__(self):
        self.calls = 0
    def act(self, obs):
        self.calls += 1
        return Call("ticketdesk", "wait", {"hours": self.calls})

class Nothing:
    pass

class NeedsArguments:
    def __init__(self, model):
        pass
    def act(self, obs):
        return WAIT

def line(obs):
    return "get_ticket T-1"

def other_dict(obs):
    return {"tool": "wait"}

async def later(obs):
    return WAIT

def exits(obs):
    raise SystemExit("enough")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of agents in the current folder. Its name is that of no other module."""
    path = tmp_path / f"agents_of_{tmp_path.name.replace('-', '_')}.py"
    path.write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return path


# -- what can be an agent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["function", "WithAct", "Callable", "thing", "thing.act"])
def test_functions_objects_and_classes_are_agents_by_module_and_by_file(attribute: str, module: Path) -> None:
    for name in (f"{module.stem}:{attribute}", f"{module.name}:{attribute}", f"{module}:{attribute}"):
        env = play(make(task_id()), load_agent(name)())
        assert env.turns
        assert all(turn.call == Call("ticketdesk", "wait", {"hours": 24}) for turn in env.turns)


def test_a_class_is_constructed_for_each_episode(module: Path) -> None:
    new_agent, obs = load_agent(f"{module}:Counts"), make(task_id()).reset()
    first, second = new_agent(), new_agent()
    assert [first.act(obs).params["hours"], first.act(obs).params["hours"], second.act(obs).params["hours"]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("attribute", "error"),
    [
        ("line", "line returned 'get_ticket T-1' (str); return a companyos.Call, or a dict with app, method and params"),
        ("other_dict", "other_dict returned a dict that is not a call: Object contains unknown field `tool`"),
        ("later", "(coroutine); return a companyos.Call, or a dict with app, method and params"),
        ("exits", "SystemExit: enough"),
    ],
)
def test_what_is_not_a_call_is_an_error_of_one_clear_line(attribute: str, error: str, module: Path) -> None:
    with pytest.raises(AgentRaised) as raised:
        load_agent(f"{module}:{attribute}")().act(make(task_id()).reset())
    assert summary_of(str(raised.value)).endswith(error)


# -- names that cannot be loaded ---------------------------------------------------------------------------------------


def refused(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the line that `eval` prints about an agent that it cannot load."""
    assert main(["eval", "--agent", name, "--suite", "smoke", "--out", "run"]) == 2
    assert not Path("run").exists(), "nothing was played"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere_at_all:Agent", "there is no module 'nowhere_at_all' in "),
        ("nowhere_at_all.below:Agent", "there is no module 'nowhere_at_all' in "),
        ("nowhere.py:Agent", "there is no file nowhere.py"),
        ("{module}:Missing", "has no 'Missing'; it has function, WithAct, Callable"),
        ("{module}:constant", "constant is no agent: it has no method act and cannot be called"),
        ("{module}:Nothing", "Nothing is a class whose objects have no method act and cannot be called"),
        ("{module}:NeedsArguments", "which does not work: missing a required argument: 'model'"),
        ("opnai:gpt-4o", "unknown agent 'opnai:gpt-4o'; valid: expert, "),
        ("opnai:gpt-4o", "tiny:FILE, local:DIR, MODULE:NAME, FILE.py:NAME\n"),
    ],
)
def test_a_name_that_cannot_be_loaded_gives_one_line(
    name: str, error: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refused(name.format(module=module.stem), capsys)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def agent(obs)\n    pass", "line 1: SyntaxError: expected ':'"),
        ("import langgraph_of_nobody", "line 1: ModuleNotFoundError: No module named 'langgraph_of_nobody'"),
        ("x = 1\nx = 1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("raise SystemExit('two\\nlines')", "line 1: SystemExit: two\n"),
    ],
)
@pytest.mark.parametrize("form", ["broken:agent", "broken.py:agent"])
def test_an_error_in_the_module_is_one_line_with_its_place(
    code: str, error: str, form: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = module.with_name(f"broken_{module.stem}.py")
    path.write_text(code)
    said = refused(form.replace("broken", path.stem), capsys)
    assert error in said
    assert path.name in said


# -- agents that raise -------------------------------------------------------------------------------------------------

FRAGILE = """
from pathlib import Path

class Agent:
    def __init__(self):
        with Path("constructed.txt").open("a") as file:
            file.write("once\\n")

    def act(self, obs):
        if obs.step == 2 and "T-" in obs.task and len(obs.task) % 2 == {odd}:
            raise ValueError("no idea\\nwhat to do")
        return {{"app": "ticketdesk", "method": "wait", "params": {{"hours": 24}}}}
"""


@pytest.fixture
def fragile(module: Path) -> str:
    """The name of an agent that raises in about half of the episodes."""
    briefs = [make(task).reset().task for task in few_tasks()]
    odd = len(briefs[0]) % 2
    path = module.with_name("fragile.py")
    path.write_text(FRAGILE.format(odd=odd))
    return f"{path}:Agent"


def outcomes(run: Path) -> list[Outcome]:
    return [msgspec.json.decode(line, type=Outcome) for line in (run / OUTCOMES_FILE).read_bytes().splitlines()]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_agent_that_raises_loses_that_episode_and_the_run_goes_on(workers: int, fragile: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    results = evaluate(fragile, own_suite(tmp_path), 1, run, on_processes(workers))
    played = outcomes(run)
    raised = [outcome for outcome in played if outcome.raised]
    assert len(played) == len(few_tasks()) > len(raised) >= 1
    assert results["overall"]["numbers"]["agent_raised"]["value"] == pytest.approx(len(raised) / len(played))
    for outcome in played:
        key = EpisodeKey(outcome.task_id, outcome.trial)
        transcript = Transcript.from_jsonl((run / key.place).read_bytes())
        assert transcript.footer.done == (outcome not in raised) == (not (run / key.error_place).exists())
        assert not outcome.success
    first = EpisodeKey(raised[0].task_id, 0)
    error = (run / first.error_place).read_text()
    assert error.startswith("ValueError: no idea\n\nTraceback (most recent call last):\n")
    assert "fragile.py" in error
    assert "custom.py" not in error, "the traceback shows the user's code only"
    assert raised[0].raised == "ValueError: no idea"
    assert (raised[0].steps, raised[0].score, raised[0].said) == (2, 0.0, "")


def test_a_resumed_run_does_not_repeat_an_episode_in_which_the_agent_raised(fragile: str, tmp_path: Path) -> None:
    run, suite = tmp_path / "run", own_suite(tmp_path)
    first = evaluate(fragile, suite, 1, run, on_processes(1))
    constructed = Path("constructed.txt").read_text()
    (run / RESULTS_FILE).unlink()
    assert evaluate(fragile, suite, 1, run, on_processes(1)) == first
    assert Path("constructed.txt").read_text() == constructed


@pytest.mark.parametrize("by_module", [False, True])
def test_a_run_is_not_continued_with_another_version_of_the_agents_file(
    by_module: bool, module: Path, tmp_path: Path
) -> None:
    name = f"{module.stem if by_module else module}:function"
    run = small_run(tmp_path, name, 1)
    results = (run / RESULTS_FILE).read_bytes()
    module.write_text(AGENTS + "# another version\n")
    with pytest.raises(BadRun, match="has changed since it played the episodes in"):
        small_run(tmp_path, name, 1)
    assert (run / RESULTS_FILE).read_bytes() == results
    rmtree(run / "episodes")
    small_run(tmp_path, name, 1)  # without episodes, the folder can be used
    small_run(tmp_path, name, 1)


def test_a_run_that_did_not_record_the_agents_file_is_continued_without_a_claim_about_it(
    module: Path, tmp_path: Path
) -> None:
    run = small_run(tmp_path, f"{module}:function", 1)
    settings = msgspec.json.decode((run / RUN_FILE).read_bytes())
    assert settings.pop("agent_source") == sha256(module.read_bytes()).hexdigest()
    (run / RUN_FILE).write_bytes(msgspec.json.encode(settings))
    module.write_text(AGENTS + "# another version\n")
    small_run(tmp_path, f"{module}:function", 1)
    assert "agent_source" not in msgspec.json.decode((run / RUN_FILE).read_bytes())


def test_a_submission_with_such_episodes_passes_its_check_and_an_edited_one_does_not(fragile: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    evaluate(fragile, own_suite(tmp_path), 1, run, on_processes(1))
    checked = check(run)
    assert not checked.findings
    raised = next(outcome for outcome in outcomes(run) if outcome.raised)
    (run / EpisodeKey(raised.task_id, 0).error_place).unlink()
    assert [finding.kind for finding in check(run).findings] == ["unfinished episode"]
    finished = next(outcome for outcome in outcomes(run) if not outcome.raised)
    (run / EpisodeKey(finished.task_id, 0).error_place).write_text("ValueError: bad luck")
    assert {finding.kind for finding in check(run).findings} == {"edited episode", "unfinished episode"}


def test_a_run_in_which_nothing_was_raised_has_the_files_that_it_always_had(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    assert b"raised" not in (run / OUTCOMES_FILE).read_bytes() + (run / RESULTS_FILE).read_bytes()


def test_eval_and_blame_say_that_the_agent_raised(fragile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--agent", fragile, "--suite", own_suite(tmp_path), "--workers", "1", "--out", "run"]) == 0
    said = capsys.readouterr().out
    raised = next(outcome for outcome in outcomes(Path("run")) if outcome.raised)
    key = EpisodeKey(raised.task_id, 0)
    assert "the agent raised ValueError: no idea\n" in said
    assert f"      run/{key.place}\n" in said
    assert f"which are failures. A traceback: run/{key.error_place}\n" in said
    assert main(["blame", f"run/{key.place}"]) == 0
    assert "which ended the episode at step 2: ValueError: no idea\n" in capsys.readouterr().out
    assert main(["blame", "run"]) == 0
    assert re.search(r"^\d of 4: .*raised.* ValueError", capsys.readouterr().out, re.MULTILINE)


# -- watching ----------------------------------------------------------------------------------------------------------


def test_watch_plays_a_users_agent_and_shows_its_traceback(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", task_id(), "--agent", f"{module.stem}:function"]) == 0
    assert f"{module.stem}:function works" in capsys.readouterr().out
    assert main(["watch", task_id(), "--agent", f"{module.stem}:exits", "--save", "lost.jsonl"]) == 1
    said = capsys.readouterr().out
    assert "SystemExit: enough" in said
    assert "The agent raised after 0 steps, so the episode is lost." in said
    assert Path("lost.jsonl").exists()


def test_a_users_agent_sees_no_reward_when_it_is_watched(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.with_name("greedy.py").write_text("""
def agent(obs):
    assert obs.reward == 0.0
    return {"app": "ticketdesk", "method": "wait", "params": {}}
""")
    assert main(["watch", task_id(), "--agent", "greedy.py:agent"]) == 0
    assert "step -" in capsys.readouterr().out, "there were rewards to be seen"


def test_watch_plays_what_was_trained_and_a_model_behind_an_endpoint(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = TinyWeights.none()
    first_weights(weights, seed=0)
    save(Path("policy.npz"), weights)
    assert main(["watch", task_id(), "--agent", "tiny:policy.npz"]) == 0
    assert "tiny:policy.npz works" in capsys.readouterr().out
    with endpoint(Expert([task_id()])) as server:
        assert main(["watch", task_id(), "--agent", "openai:fake", "--base-url", server.url]) == 0
    assert "Success." in capsys.readouterr().out
    assert main(["watch", task_id(), "--agent", "openai:fake"]) == 2
    assert "a language model needs --base-url" in capsys.readouterr().err
    assert main(["watch", task_id(), "--agent", "saved:."]) == 2
    assert "has too few episodes" in capsys.readouterr().err


# -- examples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "attribute"), [("function_agent", "agent"), ("class_agent", "Agent"), ("graph_agent", "agent")]
)
def test_the_examples_play_every_episode_without_an_error(example: str, attribute: str, tmp_path: Path) -> None:
    name = f"examples/agents/{example}.py:{attribute}"
    words = ["eval", "--agent", name, "--suite", own_suite(tmp_path), "--workers", "1", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-m", "companyos", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    assert "4 episodes" in done.stdout
    assert not any(outcome.raised or outcome.invalid for outcome in outcomes(tmp_path / "run"))


def test_each_example_has_at_most_15_lines() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len([line for line in path.read_text().splitlines() if line]) <= 15, path.name
