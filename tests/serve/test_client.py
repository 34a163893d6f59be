"""The clients: episodes on a server work as in this process, even when the connection or the server fails."""

import asyncio
import json
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

from companyos.core.calls import Call, Program, Reply
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, make, task_named
from companyos.env.observations import Observation
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, family
from companyos.integrations.client import Company, ServerError, rollout
from companyos.integrations.openenv.client import CompanyOS
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation
from tests.blocks import ROOT, blocks_of
from tests.serve.servers import AS_ADMIN, Server, good, serving

TASKS = [str(task_named(name, seed, 0.5)) for name in FAMILIES for seed in (3, 4)]
LIST = Call("ticketdesk", "list_tickets")
ON_A_SERVER = {
    block.language: block.code for block in blocks_of(ROOT / "docs" / "network.md") if block.title == "needs a server"
}
CURL = ROOT / "examples" / "curl.sh"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("two") / "ledger", WORKERS="2") as one:
        yield one


def digest(server: Server, session_id: str) -> str:
    found = httpx.get(f"{server.url}/inspect", params={"session_id": session_id}, headers=AS_ADMIN)
    return str(good(found)["digest"])


def expert(task_id: str, first: Observation | CompanyObservation) -> Program:
    return family(TaskId.parse(task_id).family).expert(EpisodeSoFar(first.task, first.now), ExpertStyle())


def reply(obs: Observation | CompanyObservation) -> Reply:
    return Reply(obs.code == "ok", obs.code, obs.last_result, obs.message)


def known(task_id: str) -> tuple[CompanyEnv, list[Observation]]:
    """The expert's episode in process, and all that was seen."""
    env = make(task_id)
    seen = [env.reset()]
    program = expert(task_id, seen[0])
    call = next(program)
    while not (obs := env.step(call)).done:
        seen.append(obs)
        call = program.send(reply(obs))
    return env, [*seen, obs]


def played(company: Company, task_id: str) -> list[Observation]:
    """The same by the light client."""
    seen = [company.reset(task_id)]
    program = expert(task_id, seen[0])
    call = next(program)
    while not (obs := company.step(call)).done:
        seen.append(obs)
        call = program.send(reply(obs))
    return [*seen, obs]


@contextmanager
def gone_for_a_while(server: Server) -> Iterator[None]:
    """Kills the server and has it come back while something else is tried."""
    server.kill()
    back = threading.Timer(0.2, server.start)
    back.start()
    yield
    back.join()


def test_what_the_light_client_sees_is_what_is_seen_in_process(server: Server) -> None:
    with Company(server.url) as company:
        for task_id in TASKS:
            env, seen = known(task_id)
            assert played(company, task_id) == seen
            assert digest(server, company.session_id) == env.digest()
            assert (company.done, company.success, company.task_id) == (True, True, task_id)
            over = env.step(LIST)
            assert company.step(LIST) == over


def test_the_light_client_forks_renders_and_rolls_out(server: Server) -> None:
    env = make(TASKS[0])
    first = env.reset()
    with Company(server.url) as company:
        assert company.reset(TASKS[0], reward="dense") == first
        assert company.step(LIST) == (second := env.step(LIST))
        assert company.render() == f"{first.task}\n\n{second.text}"
        crew = [company, *company.fork(3)]
        calls = [LIST, Call("ticketdesk", "my_changes"), Call("datahub", "list_metrics"), Call("no", "tool")]
        assert rollout(crew, calls) == [env.fork().step(call) for call in calls]
        assert rollout([], []) == []
        for twin in crew[1:]:
            twin.close()
        crew[1].session_id = "gone"
        [lost] = rollout(crew[1:2], [LIST])
        assert isinstance(lost, ServerError)
        assert (lost.status, lost.code) == (404, "unknown_session")
        crew[1].session_id = ""
        crew[1].close()


def test_the_light_client_names_what_is_wrong(server: Server) -> None:
    with Company(server.url) as company:
        with pytest.raises(ServerError, match="gardening") as refused:
            company.reset("gardening")
        assert (refused.value.status, refused.value.code) == (422, "bad_task")
        with pytest.raises(ServerError, match="session"):
            company.step(LIST)
    with pytest.raises(ValueError, match="http://"):
        Company("localhost:8000")
    with Company("http://127.0.0.1:9", retry_seconds=0.0) as nobody, pytest.raises(OSError, match="refused"):
        nobody.reset()


def test_the_light_client_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    env, seen = known(TASKS[1])
    with serving(tmp_path / "ledger") as server, Company(server.url) as company:
        found = [company.reset(TASKS[1])]
        for number, turn in enumerate(env.turns):
            with gone_for_a_while(server) if number in (2, 7) else nullcontext():
                found.append(company.step(turn.call))
        assert found == seen
        assert digest(server, company.session_id) == env.digest()


def test_the_five_lines_of_the_docs_run(server: Server) -> None:
    block = ON_A_SERVER["python"]
    assert len([line for line in block.splitlines() if line]) == 5
    names: dict[str, Any] = {}
    exec(block.replace("http://127.0.0.1:8000", server.url), names)
    assert names["obs"].code == "ok"
    names["company"].close()


def test_the_curl_of_the_docs_plays_three_steps_and_shows_them(server: Server) -> None:
    script = (
        ON_A_SERVER["sh"]
        .replace("http://127.0.0.1:8000", server.url)
        .replace("curl -s", "curl -sS --fail-with-body -w '\\n'")
    )
    plays_three_steps("bash", "-euo", "pipefail", "-c", script)


def test_the_example_of_curl_is_that_of_the_docs_and_takes_the_address(server: Server) -> None:
    _, rest = ON_A_SERVER["sh"].split("\n", 1)
    assert CURL.read_text().endswith(rest)
    plays_three_steps(str(CURL), server.url)
    nowhere = subprocess.run([CURL, "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    assert nowhere.returncode != 0
    assert "127.0.0.1" in nowhere.stderr


def plays_three_steps(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    *steps, view = done.stdout.split("\n", 3)
    replies = [json.loads(line) for line in steps]
    assert [reply["turn"] for reply in replies] == [1, 2, 3]
    assert [reply["observation"]["code"] for reply in replies] == ["ok"] * 3
    env = make("vendor_onboarding", seed=7, chaos=0.5)
    for body in re.findall(r'-d \'(\{"app".*?\})\'', ON_A_SERVER["sh"]):
        obs = env.step(json.loads(body))
    assert view.strip() == f"{obs.task}\n\n{obs.text}"


# -- OpenEnv's ---------------------------------------------------------------------------------------------------------


def as_seen(result: Any) -> tuple[Any, ...]:
    obs = result.observation
    return obs.text, obs.code, obs.last_result, result.reward, result.done


def as_known(obs: Observation) -> tuple[Any, ...]:
    return obs.text, obs.code, obs.last_result, obs.reward, obs.done


def test_what_openenvs_client_sees_is_what_is_seen_in_process(server: Server) -> None:
    with CompanyOS(server.url).sync() as client:
        for task_id in TASKS[::3]:
            env, seen = known(task_id)
            found = [client.reset(task=task_id)]
            found += [client.step(turn.call) for turn in env.turns]
            assert [as_seen(result) for result in found] == [as_known(obs) for obs in seen]
            assert found[-1].metadata == {"success": True}
            assert client.state().step_count == env.step_count
            assert digest(server, client.async_client.session_id) == env.digest()
            action = CompanyAction(app=LIST.app, method=LIST.method)
            assert as_seen(client.step(action)) == as_known(env.step(LIST))


def test_sixty_four_sockets_at_random_over_two_workers_do_not_mix(server: Server) -> None:
    tasks = [str(task_named(name, seed, 0.5)) for seed in range(13) for name in FAMILIES][:64]

    async def one(task_id: str, draw: random.Random) -> tuple[str, list[tuple[Any, ...]]]:
        async with CompanyOS(server.url) as client:
            found = [await client.reset(task=task_id)]
            program = expert(task_id, found[0].observation)
            call = next(program)
            while True:
                found.append(await client.step(call))
                if found[-1].done:
                    break
                if draw.random() < 0.1:  # the next step goes by another socket, to whichever worker takes it
                    client._ws.transport.abort()
                await asyncio.sleep(draw.random() * 0.01)
                call = program.send(reply(found[-1].observation))
            async with httpx.AsyncClient(base_url=server.url) as http:
                page = await http.get("/inspect", params={"session_id": client.session_id}, headers=AS_ADMIN)
            return good(page)["digest"], [as_seen(result) for result in found]

    async def crew() -> list[tuple[str, list[tuple[Any, ...]]]]:
        return await asyncio.gather(*(one(task_id, random.Random(task_id)) for task_id in tasks))

    for task_id, (found, seen) in zip(tasks, asyncio.run(crew()), strict=True):
        env, wanted = known(task_id)
        assert found == env.digest()
        assert seen == [as_known(obs) for obs in wanted]


def test_openenvs_client_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    env, seen = known(TASKS[2])
    with serving(tmp_path / "ledger", WORKERS="2") as server, CompanyOS(server.url).sync() as client:
        found = [client.reset(task=TASKS[2], episode_id="mine")]
        for number, turn in enumerate(env.turns):
            with gone_for_a_while(server) if number in (2, 7) else nullcontext():
                found.append(client.step(turn.call))
            assert client.state().episode_id == "mine"
        assert [as_seen(result) for result in found] == [as_known(obs) for obs in seen]


def test_openenvs_generic_client_plays(server: Server) -> None:
    env, seen = known(TASKS[4])
    with GenericEnvClient(server.url).sync() as client:
        found = [client.reset(task=TASKS[4])]
        for turn in env.turns:
            found.append(client.step({"app": turn.call.app, "method": turn.call.method, "params": turn.call.params}))
        assert [result.observation["text"] for result in found] == [obs.text for obs in seen]
        assert [result.reward for result in found] == [obs.reward for obs in seen]
        assert client.state()["step_count"] == env.step_count


def test_openenvs_tool_client_plays_one_episode_after_another(server: Server) -> None:
    # It resets by a socket and calls by HTTP, to whichever worker takes it.
    async def episodes() -> list[list[str]]:
        async with MCPToolClient(f"{server.url}/tools") as client:
            assert "ticketdesk_resolve_ticket" in {tool.name for tool in await client.list_tools()}
            found = []
            for task_id in TASKS[6:8]:
                await client.reset(task=task_id)
                turns = known(task_id)[0].turns
                found.append(
                    [await client.call_tool(f"{turn.call.app}_{turn.call.method}", **turn.call.params) for turn in turns]
                )
                assert (await client.state()).step_count == len(turns)
            return found

    assert asyncio.run(episodes()) == [[obs.text for obs in known(task_id)[1][1:]] for task_id in TASKS[6:8]]


def test_a_session_that_is_gone_is_said_and_a_reset_begins_another(server: Server) -> None:
    with CompanyOS(server.url).sync() as client:
        client.reset()
        good(httpx.post(f"{server.url}/close", json={"session_id": client.async_client.session_id}))
        with pytest.raises(RuntimeError, match="no such session"):
            client.step(LIST)
        client.reset()
        assert client.step(LIST).observation.step == 1
