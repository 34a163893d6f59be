"""The installed peers really play their episodes from start to end."""

from contextlib import suppress

import pytest

from companyos.bench.peers import KNOWN, load
from companyos.bench.peers.openenv_idle import STEPS, IdleOpenEnv
from companyos.bench.peers.race import gather
from companyos.bench.peers.tau2_retail import Retail
from companyos.bench.peers.textworld_games import TextWorldGames
from tests.peers.law import meets_the_contract

pytestmark = pytest.mark.filterwarnings("ignore")  # their libraries' warnings are not ours to fix


@pytest.fixture(scope="module")
def games() -> TextWorldGames:
    return TextWorldGames()  # compiling the games takes a while


@pytest.fixture(scope="module")
def retail() -> Retail:
    return Retail()


def test_every_known_peer_can_be_installed() -> None:
    peers, skipped = gather()
    assert skipped == []
    assert len({peer.name for peer in peers}) >= len(KNOWN) == len({type(peer).__module__ for peer in peers})
    assert [type(peer) for peer in load("openenv_idle")] == [IdleOpenEnv]


def test_a_textworld_walkthrough_wins_its_game(games: TextWorldGames) -> None:
    meets_the_contract(games, lambda reply: (reply[0].feedback, *reply[1:]))
    for number, script in enumerate(games.scripts):
        step = games.stepper(games.begin(games.open(), number))
        *_, (state, _, done) = map(step, script)
        assert done
        assert state["won"]


def test_a_textworld_game_with_a_new_seed_is_made(games: TextWorldGames) -> None:
    env = games.begin(games.open(), 1000)
    assert env.reset().feedback != games.begin(games.open(), 0).reset().feedback


def test_a_tau2_script_leaves_the_database_that_its_task_requires(retail: Retail) -> None:
    meets_the_contract(retail, lambda reply: reply.content)
    changed = failed = 0
    for number, script in enumerate(retail.scripts):
        env, asked = retail.begin(None, number), retail.begin(None, number)
        before = env.get_db_hash()
        failed += sum(reply.error for reply in map(retail.stepper(env), script))
        for call in script:
            with suppress(ValueError):  # some reference calls of tasks are refused
                asked.use_tool(call.name, **call.arguments)
        assert env.get_db_hash() == asked.get_db_hash()
        changed += env.get_db_hash() != before
    assert changed > len(retail.scripts) / 2
    assert failed < sum(map(len, retail.scripts)) / 20


def test_the_idle_environment_counts_and_ends() -> None:
    idle = IdleOpenEnv()
    meets_the_contract(idle, lambda reply: reply.done)
    env = idle.begin(idle.open(), 0)
    replies = list(map(idle.stepper(env), idle.scripts[0]))
    assert [reply.done for reply in replies] == [False] * (STEPS - 1) + [True]
    assert env.state.step_count == STEPS
