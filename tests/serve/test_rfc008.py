"""RFC 008: the checks whose names OpenEnv has reserved and does not make yet, made here. `test_runtime_seed_control` is
`runtime.seed_control`, and so on. What they hold the server to is what openenv.yaml declares.
"""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from openenv.validation import load_policy
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runner import default_grader_registry
from websockets.sync.client import ClientConnection, connect

from companyos.agents import play
from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.adversaries.slips import slip
from companyos.assurance.floor import FloorJob, tally
from companyos.assurance.prove_many import check
from companyos.assurance.replay import replay
from companyos.core.calls import Call
from companyos.core.errors import Stuck
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import FAMILIES
from tests.serve.servers import AS_ADMIN, Server, good, serving
from tests.serve.test_leaks import PARTS, TOOL_WORDS, secrets_of

RESERVED = [
    "runtime.seed_control",
    "runtime.episode_determinism",
    "runtime.episode_isolation",
    "runtime.resource_bounds",
    "runtime.tool_declaration_accuracy",
    "runtime.task_declaration_accuracy",
    "runtime.rubric_introspectable",
    "runtime.reward_attribution",
    "runtime.trajectory_record",
    "semantic.oracle_max",
    "semantic.floor_gap",
    "semantic.canary_floor",
    "semantic.no_solution_leakage",
    "semantic.verifier_determinism",
    "semantic.replayability",
    "statistical.reward_reachability",
    "statistical.difficulty_separation",
    "statistical.adversarial_floor",
    "statistical.gameability_gap",
    "statistical.training_signal",
]

ROOT = Path(__file__).parents[2]
DECLARED = OpenEnvYamlParser().parse(ROOT)
LOW, MOST = DECLARED.reward.range
PLAN = json.loads((ROOT / DECLARED.execution.probe_path).read_text())
RESET = {"seed": PLAN["reset"]["seed"], **PLAN["reset"]["options"]}
CHAOS = 0.5
SEEDS = (0, 1, 2)
LIST_TOOLS = {"jsonrpc": "2.0", "method": "tools/list", "id": 1}


def test_every_reserved_check_is_made_here() -> None:
    made = {name for name in globals() if name.startswith("test_")} - {"test_every_reserved_check_is_made_here"}
    assert made == {f"test_{check_id.replace('.', '_')}" for check_id in RESERVED}
    policy = load_policy("v2")
    known, graders = {entry.check_id for entry in policy.entries}, default_grader_registry(policy)
    assert set(RESERVED) <= known
    assert not [check_id for check_id in RESERVED if graders.get(check_id)]  # OpenEnv's own would count before ours


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("rfc008") / "ledger") as running:
        yield running


class Socket:
    """An episode over OpenEnv's protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def say(self, kind: str, data: Any = None) -> Any:
        self._connection.send(json.dumps({"type": kind} | ({} if data is None else {"data": data})))
        reply = json.loads(self._connection.recv())
        assert reply["type"] != "error", reply
        return reply["data"]

    def reset(self, **data: Any) -> tuple[str, Any]:
        """The session's id, and all else that was said."""
        said = self.say("reset", RESET | data)
        # A session's id is drawn anew; it stands twice, where observations have it and where clients read it.
        named = {place.pop("metadata")["session_id"] for place in (said, said["observation"]) if "metadata" in place}
        return str(named.pop()), said


@contextmanager
def socket(server: Server) -> Iterator[Socket]:
    with connect(f"{server.url.replace('http', 'ws')}/ws") as connection:
        yield Socket(connection)


def inspected(server: Server, session_id: str) -> dict[str, Any]:
    return good(httpx.get(f"{server.url}/inspect", params={"session_id": session_id}, headers=AS_ADMIN))


def played(server: Server, **data: Any) -> tuple[str, list[Any]]:
    """The plan from end to end: the session's id, and all that was said."""
    with socket(server) as one:
        session_id, first = one.reset(**data)
        return session_id, [first, *(one.say("step", action) for action in PLAN["actions"])]


@cache
def mean_score(policy: str, family: str, variant: int | None, episodes: int) -> float:
    scores = []
    for seed in range(episodes):
        agent = ADVERSARIES[policy].make(seed if variant is None else variant)
        scores.append(returned(play(make(family, seed=seed, chaos=CHAOS, reward="score"), agent)))
    return statistics.fmean(scores)


def returned(env: CompanyEnv) -> float:
    return sum(turn.reward for turn in env.turns)


def best_of(policy: str, episodes: int) -> float:
    """The mean score of a policy's best variant on its best family."""
    return max(mean_score(policy, name, variant, episodes) for name in FAMILIES for variant in a_few_variants(policy, name))


def a_few_variants(policy: str, family: str) -> list[int | None]:
    """Of a fixed ending all, so that one of them is right."""
    count = ADVERSARIES[policy].variants
    if count is None:
        return [None]
    return list(range(count(family) if policy == "constant" else 2))


# -- runtime -----------------------------------------------------------------------------------------------------------


def test_runtime_seed_control(server: Server) -> None:
    """The seed decides the task: the same gives the same beginning, others give others, and it is not the session's id."""
    with socket(server) as one, socket(server) as two:
        beginnings = [one.reset(seed=seed)[1]["observation"]["task"] for seed in range(20)]
        assert [two.reset(seed=seed)[1]["observation"]["task"] for seed in range(20)] == beginnings
    assert len(set(beginnings)) == 20


def test_runtime_episode_determinism(server: Server) -> None:
    """The same task and actions give the same observations, rewards and end, to the byte."""
    (_, first), (_, second) = played(server), played(server)
    assert json.dumps(first) == json.dumps(second)
    assert first[-1]["done"] is True


def test_runtime_episode_isolation(server: Server) -> None:
    """Episodes that take turns with each other go as each goes alone."""
    _, alone = played(server)
    with ExitStack() as all_of_them:
        sockets = [all_of_them.enter_context(socket(server)) for _ in range(4)]
        seeds = [RESET["seed"] if number % 2 else 100 + number for number in range(4)]
        said = [[one.reset(seed=seed)[1]] for one, seed in zip(sockets, seeds, strict=True)]
        for action in PLAN["actions"]:
            for one, heard in zip(sockets, said, strict=True):
                heard.append(one.say("step", action))
    assert said[1] == said[3] == alone
    assert alone not in (said[0], said[2])


def test_runtime_resource_bounds(server: Server) -> None:
    """With 200 sessions open and played, the server has never held more memory than declared, and little of the disk."""
    with httpx.Client(base_url=server.url) as client:
        sessions = [good(client.post("/reset", json={"seed": seed, "chaos": 1.0}))["session_id"] for seed in range(200)]
        for action in PLAN["actions"][:-1]:  # all but the last, which ends an episode
            good(client.post("/rollout", json={"steps": [{"session_id": one, **action} for one in sessions]}))
    most = next(line for line in Path(f"/proc/{server.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    disk = sum(file.stat().st_size for file in server.ledger.parent.glob(f"{server.ledger.name}*"))
    print(f"{most}, ledger {disk} bytes")
    assert int(most.split()[1]) <= DECLARED.resources.memory_mb * 1024
    assert disk <= DECLARED.resources.disk_mb * 1024**2


def test_runtime_tool_declaration_accuracy(server: Server) -> None:
    """The tools that are declared are those that are listed, and each is there to be called; no other is."""
    listed = good(httpx.post(f"{server.url}/mcp", json=LIST_TOOLS))["result"]["tools"]
    assert [tool["name"] for tool in listed] == DECLARED.capabilities.declared_tools
    codes = {}
    for name in (*DECLARED.capabilities.declared_tools, "ticketdesk_undeclared"):
        with socket(server) as one:
            one.reset()
            app, _, method = name.partition("_")
            codes[name] = one.say("step", {"app": app, "method": method})["observation"]["code"]
    assert [name for name, code in codes.items() if code == "unknown_tool"] == ["ticketdesk_undeclared"]


def test_runtime_task_declaration_accuracy(server: Server) -> None:
    """Each split has as many tasks as declared: the last is there and can be begun, one more is not; and none is in two."""
    declared = DECLARED.capabilities.declared_task_count
    place = f"{server.url}/{DECLARED.name}"
    assert [one["name"] for one in httpx.get(f"{place}/splits").json()] == list(declared)
    seen: set[str] = set()
    for split, count in declared.items():
        assert good(httpx.post(f"{place}/num_tasks", json={"split": split})) == {"num_tasks": count}
        found = good(httpx.post(f"{place}/task", json={"split": split, "index": count - 1}))["task"]
        assert good(httpx.post(f"{server.url}/reset", json={"task": found["id"]}))["task_id"] == found["id"]
        assert httpx.post(f"{place}/task", json={"split": split, "index": count}).status_code == 422
        ids = {task["id"] for task in good(httpx.post(f"{place}/tasks", json={"split": split}))["tasks"]}
        assert (len(ids), ids & seen) == (count, set())
        seen |= ids


def test_runtime_rubric_introspectable(server: Server) -> None:
    """What an episode is judged by can be listed by name, with what holds: not all at the start, all at the expert's end."""
    with socket(server) as one:
        session_id, _ = one.reset()
        begun = inspected(server, session_id)["goals"]
        for action in PLAN["actions"]:
            one.say("step", action)
    ended = inspected(server, session_id)["goals"]
    assert list(begun) == list(ended)
    assert not all(begun.values())
    assert all(ended.values())


def test_runtime_reward_attribution(server: Server) -> None:
    """Every reward that was sent is the sum of parts that are on record by name, at the turn that earned it."""
    session_id, said = played(server, reward="dense")
    turns = inspected(server, session_id)["turns"]
    assert [turn["reward"] for turn in turns] == [one["reward"] for one in said[1:]]
    assert [sum(turn["parts"].values()) for turn in turns] == pytest.approx([turn["reward"] for turn in turns])
    assert {"step", "milestones", "end"} <= {part for turn in turns for part in turn["parts"]}


def test_runtime_trajectory_record(server: Server) -> None:
    """Every call is on record with its reply, in order, and is so after the server was killed."""
    session_id, said = played(server)
    server.kill()
    server.start()
    turns = inspected(server, session_id)["turns"]
    assert [{"params": {}, **turn["call"]} for turn in turns] == PLAN["actions"]
    assert [turn["reply"]["code"] for turn in turns] == [one["observation"]["code"] for one in said[1:]]


# -- semantic ----------------------------------------------------------------------------------------------------------


def test_semantic_oracle_max(server: Server) -> None:
    """The declared oracle reaches the declared maximum in every family, within the declared tolerance."""
    oracle = [sys.executable, DECLARED.capabilities.oracle.location, server.url]
    lines = subprocess.run(oracle, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    scores = {name: float(score) for name, score in (line.split() for line in lines)}
    assert set(scores) == set(FAMILIES)
    assert all(MOST - DECLARED.reward.oracle_tolerance <= score <= MOST for score in scores.values()), scores


def test_semantic_floor_gap() -> None:
    """The best of those who do not look stays the declared margin below the maximum, in its best family."""
    blind = {name: best_of(name, 3) for name, adversary in ADVERSARIES.items() if adversary.group == "blind"}
    print(blind)
    assert MOST - max(blind.values()) >= DECLARED.reward.floor_margin


def test_semantic_canary_floor(server: Server) -> None:
    """Each of the shipped episodes that do no work is worth next to nothing, and none is a success."""
    canaries = json.loads((ROOT / DECLARED.capabilities.canaries).read_text())
    assert {one["policy"] for one in canaries} == {one.name for one in ADVERSARIES.values() if one.group == "blind"}
    for canary in canaries:
        session_id = good(httpx.post(f"{server.url}/reset", json={"task": canary["task"], "reward": "score"}))["session_id"]
        steps = [{"session_id": session_id, **action} for action in canary["actions"]]
        answers = [one["result"] for one in good(httpx.post(f"{server.url}/rollout", json={"steps": steps}))["answers"]]
        assert (answers[-1]["done"], answers[-1]["success"]) == (True, False)
        assert sum(one["reward"] for one in answers) <= MOST - DECLARED.reward.floor_margin, canary["policy"]


def test_semantic_no_solution_leakage(server: Server) -> None:
    """Nothing that a socket says in an episode names a cause, a goal, a part of the reward, the task's id or a twin."""
    task_id = str(task_named(RESET["task"], RESET["seed"], RESET["chaos"]))
    with socket(server) as one:
        _, first = one.reset()
        said = [first]
        for action in PLAN["actions"]:
            said += [one.say("step", action), one.say("state"), one.say("mcp", LIST_TOOLS)]
    told = " ".join(reply["observation"]["text"] for reply in said if "observation" in reply)
    hidden = {word for word in secrets_of(task_id) | {task_id} if word not in told and word not in TOOL_WORDS}
    assert len(hidden) > 10
    assert not _named(hidden, [json.dumps(reply) for reply in said])
    # What is the same for all tasks may say that there are milestones, but not which.
    assert not _named(hidden - PARTS, [httpx.get(f"{server.url}/{place}").text for place in ("schema", "metadata", "state")])


def _named(words: set[str], pages: list[str]) -> set[str]:
    return {word for word in words if any(re.search(rf"\b{re.escape(word)}\b", page) for page in pages)}


def test_semantic_verifier_determinism(server: Server) -> None:
    """The same company is judged alike: forks of one session that end by the same call get the same verdict and score."""
    *before, last = PLAN["actions"]
    with socket(server) as one:
        session_id, _ = one.reset()
        for action in before:
            one.say("step", action)
        forks = good(httpx.post(f"{server.url}/fork", json={"session_id": session_id, "count": 16}))["session_ids"]
        own = one.say("step", last)
    steps = [{"session_id": fork, **last} for fork in forks]
    ends = good(httpx.post(f"{server.url}/rollout", json={"steps": steps}))["answers"]
    assert own["observation"]["metadata"]["success"] is True
    assert {(end["result"]["reward"], end["result"]["success"]) for end in ends} == {(own["reward"], True)}
    assert len({inspected(server, fork)["digest"] for fork in forks}) == 1


def test_semantic_replayability(server: Server) -> None:
    """The calls on record, written to a file and played again elsewhere, give the same company, to its digest."""
    session_id, _ = played(server)
    kept = inspected(server, session_id)
    env = make(kept["task_id"], reward=kept["reward"])
    for turn in kept["turns"]:
        env.step(msgspec.convert(turn["call"], Call))
    assert replay(env.transcript().to_jsonl()).digest() == kept["digest"]
    assert [turn.digest for turn in env.turns] == [turn["digest"] for turn in kept["turns"]]


# -- statistical -------------------------------------------------------------------------------------------------------


def test_statistical_reward_reachability() -> None:
    """Every task of a sample of the held-out split is proved solvable, at every dose, in every family."""
    tasks = [str(task_named(name, seed, dose, "test")) for name in FAMILIES for dose in (0.0, 0.5, 1.0) for seed in range(8)]
    assert [failure for task in tasks if (failure := check(task, with_twins=False).failure)] == []


def test_statistical_difficulty_separation() -> None:
    """The dose is a difficulty: who overlooks what it adds succeeds less often the higher it is."""
    calm, half, full = (
        statistics.fmean(tally(FloorJob("naive", name, tuple(range(24)), chaos=dose)).share for name in FAMILIES)
        for dose in (0.0, 0.5, 1.0)
    )
    print(calm, half, full)
    assert calm > half > full
    assert calm - full >= 0.2


def test_statistical_adversarial_floor() -> None:
    """None of the registered adversaries wins without looking, and one with a fixed ending only where that is right."""
    wins = {
        policy: sum(
            tally(FloorJob(policy, name, SEEDS, one)).wins for name in FAMILIES for one in a_few_variants(policy, name)
        )
        for policy, adversary in ADVERSARIES.items()
        if adversary.group in ("blind", "constant")
    }
    print(wins)
    # Each task has one right ending, so all fixed ones together win it once at most.
    for policy, won in wins.items():
        assert won <= (len(SEEDS) * len(FAMILIES) if ADVERSARIES[policy].group == "constant" else 0), policy


def test_statistical_gameability_gap() -> None:
    """What the expert has over the best policy that games the task instead of working it is most of the range."""
    experts = [make(name, seed=seed, chaos=CHAOS, reward="score") for name in FAMILIES for seed in range(4)]
    for env in experts:
        run_expert(env)
    expert = statistics.fmean(map(returned, experts))
    gamers = {name: best_of(name, 3) for name, one in ADVERSARIES.items() if one.group in ("blind", "checklist")}
    print(expert, gamers)
    assert expert - max(gamers.values()) >= 0.6 * (MOST - LOW)


def test_statistical_training_signal() -> None:
    """Rollouts of one task by a mediocre worker are not all worth the same, on nearly every task: a group has a gradient."""
    told_apart = []
    for name in FAMILIES:
        for seed in range(6):
            scores = []
            for member in range(8):
                env = make(name, seed=seed, chaos=CHAOS, reward="score")
                slip(env, Streams(f"group/{seed}/{member}"), from_middle=True)
                with suppress(Stuck):  # who has spoilt it cannot go on; what was reached counts
                    run_expert(env)
                scores.append(returned(env))
            told_apart.append(statistics.pvariance(scores) > 0)
    print(f"{sum(told_apart)} of {len(told_apart)} groups")
    assert sum(told_apart) >= 0.9 * len(told_apart)
