"""The comparison with other environments: its sides and its report. No test checks a speed, because machines differ."""

import json
import math
import sys
from typing import Any

import pytest

from companyos.bench import speed as bench
from companyos.bench.peers import KNOWN, Missing, Peer, load, ours, race
from companyos.bench.peers.games import CartPole, Taxi
from companyos.bench.peers.ours import Ours, OursWithText
from companyos.bench.peers.race import MedianRange
from companyos.cli.main import main
from tests.peers.law import meets_the_contract


class Counting(Peer):
    """A peer with fixed tasks that only counts."""

    name = "Counting"
    module = "pytest"
    step_includes = "one more"
    text = True
    scripts = ((1, 1, 1), (2, 2))

    def open(self) -> list[int]:
        return [0]

    def begin(self, env: list[int], number: int) -> list[int]:
        env[:] = [number]
        return env

    def stepper(self, env: list[int]) -> Any:
        def step(by: int) -> int:
            env[0] += by
            return env[0]

        return step


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few episodes, for tests that do not depend on them."""
    monkeypatch.setattr(ours, "EPISODES", 2)
    monkeypatch.setattr(race, "LIVE", 1)


@pytest.mark.parametrize("kind", [Ours, OursWithText])
def test_our_sides_meet_the_contract_and_their_episodes_end(kind: type[Ours]) -> None:
    side = kind()
    meets_the_contract(side, lambda reply: reply if side.text else reply.text)
    for number, script in enumerate(side.scripts):
        env = side.begin(None, number)
        assert all(not env.step(call).done for call in script[:-1])
        assert env.step(script[-1]).done


def test_our_side_plays_every_family_with_the_expert_and_the_random_agent() -> None:
    side = Ours()
    played = [side.begin(None, number) for number in range(len(side.scripts))]
    for env, script in zip(played, side.scripts, strict=True):
        for call in script:
            env.step(call)
    families = {env.task_id.split("-")[0] for env in played}
    assert families == {env.task_id.split("-")[0] for env in played if env.success}
    assert families == {env.task_id.split("-")[0] for env in played if not env.success}


@pytest.mark.parametrize("kind", [Taxi, CartPole])
def test_games_meet_the_contract_and_their_episodes_end(kind: type[Taxi | CartPole]) -> None:
    game = kind()
    meets_the_contract(game, repr)
    for number, script in enumerate(game.scripts):
        ends = [reply[2] or reply[3] for reply in map(game.stepper(game.begin(game.open(), number)), script)]
        assert ends == [False] * (len(script) - 1) + [True]


@pytest.mark.usefixtures("few")
def test_a_race_measures_every_quantity_of_every_side() -> None:
    results = race.race([Ours(), OursWithText(), Counting(), CartPole()], rounds=1, seconds=0.0)
    sides = ["CompanyOS", "Counting", "Gymnasium CartPole"]
    sides_by_quantity = {
        what: [finding.side for finding in results if finding.what == what] for what in {f.what for f in results}
    }
    assert sides_by_quantity == {
        "step": ["CompanyOS", "CompanyOS as text", "Counting", "Gymnasium CartPole"],
        "reset, known task": sides,
        "reset, new seed": ["CompanyOS", "Gymnasium CartPole"],  # the counting peer has no seeds
        "fork in mid-episode": sides,
        "memory, live episode": sides,
    }
    assert [finding.side for finding in results if finding.ours_is is None] == ["CompanyOS", "CompanyOS as text"] + [
        "CompanyOS"
    ] * 4
    numbers = [number for f in results for spread in (f.value, f.ours_is) if spread for number in _numbers(spread)]
    assert all(math.isfinite(number) and number > 0 for number in numbers)
    assert all(low <= value <= high for value, low, high in (_numbers(f.value) for f in results))


@pytest.mark.usefixtures("few")
def test_ratios_are_computed_within_a_round_and_text_is_compared_with_text() -> None:
    plain, text, words, moves = Ours(), OursWithText(), Counting(), CartPole()
    took = {plain: [1.0, 2.0, 4.0], text: [2.0, 4.0, 8.0], words: [8.0, 8.0, 8.0], moves: [1.0, 1.0, 1.0]}
    assert race._times_ours(words, took[words], took) == MedianRange(2.0, 1.0, 4.0)
    assert race._times_ours(moves, took[moves], took) == MedianRange(0.5, 0.25, 1.0)
    del took[text]  # for quantities that do not depend on text
    assert race._times_ours(words, took[words], took) == MedianRange(4.0, 2.0, 8.0)
    assert race._times_ours(plain, took[plain], took) is None


def test_sides_take_turns_and_the_first_round_is_not_counted() -> None:
    first, second, order = Counting(), Counting(), []

    def prepare(side: Peer) -> race.Timed:
        def timed(seconds: float) -> float:
            order.append(side)
            return float(len(order))

        return timed

    assert race._in_turns([first, second], prepare, rounds=2, seconds=0.0) == {first: [3.0, 6.0], second: [4.0, 5.0]}
    assert order == [second, first, first, second, second, first]


@pytest.mark.parametrize("file", KNOWN)
def test_a_missing_peer_gives_one_line_that_says_what_to_install(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _nobody_is_here(monkeypatch)
    with pytest.raises(Missing, match=rf"^{KNOWN[file]}: .*; pip install {KNOWN[file]}$"):
        load(file)


@pytest.mark.usefixtures("few")
def test_the_command_compares_installed_peers_and_names_the_missing_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _nobody_is_here(monkeypatch)
    monkeypatch.setattr(race.main, "__defaults__", (7, 0.0, False))
    assert main(["bench", "--peers", "--rounds", "1"]) == 0
    *lines, line = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert {finding["side"] for finding in report["found"]} == {"CompanyOS", "CompanyOS as text"}
    assert len(report["skipped"]) == len(KNOWN)
    shown = " ".join(" ".join(lines).split())  # a terminal breaks long lines
    assert all(skipped in shown for skipped in report["skipped"])
    assert "fork in mid-episode" in shown


def test_the_table_chooses_readable_units() -> None:
    assert race.shown(MedianRange(2.5e-6, 1e-6, 3e-6), "s") == "2.5 µs (1–3)"
    assert race.shown(MedianRange(0.25, 0.2, 0.3), "s") == "250 ms (200–300)"
    assert race.shown(MedianRange(1.5, 1.5, 1.5), "s") == "1.5 s"
    assert race.shown(MedianRange(144.0, 144.0, 144.0), "kB") == "144 kB"
    assert race.shown(MedianRange(2500.0, 2500.0, 2500.0), "kB") == "2.5 MB"
    assert race.shown(MedianRange(0.7, 0.6, 0.8)) == "0.7 (0.6–0.8)"


@pytest.mark.usefixtures("few")
def test_the_race_plays_the_same_episodes_as_the_benchmark() -> None:
    assert Ours().begin(None, 5).task_id == bench.episode(5).task_id


def _nobody_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gymnasium", "textworld", "tau2", "loguru", "openenv"):
        monkeypatch.setitem(sys.modules, module, None)
    for file in KNOWN:
        monkeypatch.delitem(sys.modules, f"companyos.bench.peers.{file}", raising=False)


def _numbers(spread: MedianRange) -> tuple[float, float, float]:
    return spread.value, spread.low, spread.high
