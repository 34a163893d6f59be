"""The TRL environment, working on a server."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from companyos.core.calls import Call
from companyos.core.errors import BadTask, Misuse
from companyos.env import make, run_expert, task_named
from companyos.integrations.client import Company, ServerError
from companyos.integrations.trl_env import CompanyOS, EpisodeOver, TrlEpisode
from companyos.train.loops.trl_plan import TrlPlan, check_server
from tests.helpers import FAMILY, task_id
from tests.serve.servers import Server, serving

TOKEN = "trainer"
CAPACITY = 3
TASKS = [str(task_named(name, 5, {"stale": 0.5, "flaky": 0.5})) for name in (FAMILY, "expense_report")]

LOOK = Call("ticketdesk", "my_changes")


def make_call(episode: TrlEpisode, call: Call) -> str:
    said: str = getattr(episode, f"{call.app}_{call.method}")(**call.params)
    return said


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    ledger: Path = tmp_path_factory.mktemp("trl") / "ledger"
    with serving(ledger, TOKENS=TOKEN, CAPACITY=str(CAPACITY)) as one:
        yield one


def test_a_group_on_a_server_is_told_and_paid_what_it_would_be_in_process(server: Server) -> None:
    factory = partial(CompanyOS, url=server.url, token=TOKEN)
    with ExitStack() as stack:
        group = [stack.enter_context(factory()) for _ in range(CAPACITY)]
        for task in TASKS:
            known = make(task, reward="score")
            run_expert(known)
            here = CompanyOS()
            first = here.reset(task_id=task)
            assert [episode.reset(task_id=task, prompt="") for episode in group] == [first] * len(group)
            for turn in known.turns:
                said = make_call(here, turn.call)
                assert [make_call(episode, turn.call) for episode in group] == [said] * len(group)
            assert {episode.get_reward() for episode in group} == {known.turns[-1].reward}
            assert {(one.success, one.codes, one.task_id) for one in group} == {(True, here.codes, task)}
            with pytest.raises(EpisodeOver):
                make_call(group[0], LOOK)


def test_who_stops_early_on_a_server_is_scored_as_in_process(server: Server) -> None:
    with CompanyOS() as here, CompanyOS(server.url, TOKEN) as there:
        for episode in (here, there):
            episode.reset(family=FAMILY, seed=3)
        assert (there.get_reward(), there.success, there.codes) == (here.get_reward(), False, ())
        assert there.task_id == here.task_id == task_id(3)


def test_a_server_that_refuses_stops_the_training_though_trl_told_the_model(server: Server) -> None:
    with CompanyOS(server.url, TOKEN) as episode, Company(server.url, TOKEN) as somebody:
        episode.reset(task_id=TASKS[0])
        assert episode._server is not None
        somebody.session_id = episode._server.session_id
        somebody.close()
        with pytest.raises(ServerError, match="unknown_session"):
            make_call(episode, LOOK)
        with pytest.raises(ServerError, match="unknown_session"):
            episode.get_reward()


def test_a_task_with_other_tools_is_refused_on_a_server_too(server: Server) -> None:
    with CompanyOS(server.url, TOKEN) as episode, pytest.raises(BadTask, match="tool_clutter"):
        episode.reset(task_id=task_id(7, "100"))


def test_a_batch_that_is_larger_than_the_servers_capacity_is_refused_before_anything_is_loaded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_SERVER", TOKEN)
    plan = TrlPlan(model="small", out=Path("run"), url=server.url, token_env="TOKEN_OF_SERVER", tasks=1, group=CAPACITY)
    check_server(plan)
    with pytest.raises(Misuse, match=r"2 × 3 = 6 episodes at a time, and the server takes 3: lower --tasks"):
        check_server(replace(plan, tasks=2))
    with pytest.raises(Misuse, match=r"no CompanyOS server at .*wrong_token"):
        check_server(replace(plan, token_env=""))
