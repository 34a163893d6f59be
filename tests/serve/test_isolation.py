"""Isolation: interleaved sessions do not mix, and nobody can reach the session of another owner."""

import random
import string
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import FAMILIES
from companyos.serve.ledger import MemoryLedger, open_ledger
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.steps import StepRequest
from tests.helpers import FAMILY
from tests.serve.servers import AS_ADMIN, AppClient, Expert, body_of, good, serving

SESSIONS = 64
DETOURS = [Call("ticketdesk", "my_changes"), Call("ticketdesk", "list_tickets"), Call("approvalflow", "no_such_tool")]
Seen = list[tuple[str, float, bool]]


class Player:
    """An expert with detours of its own, so that no two sessions of one task go alike, and all that it did and saw."""

    def __init__(self, begun: dict[str, Any], draw: random.Random) -> None:
        self._begun, self._draw = begun, draw
        self._expert = Expert(begun)
        self._heard: list[tuple[Call, dict[str, Any]]] = []
        self.session_id = self._expert.session_id
        self.task_id = self._expert.task_id
        self.call: Call | None = self._expert.call

    @property
    def body(self) -> dict[str, Any]:
        assert self.call is not None
        return body_of(self.session_id, self.call) | {"turn": len(self._heard) + 1}

    def hear(self, reply: dict[str, Any]) -> None:
        assert reply["session_id"] == self.session_id
        assert self.call is not None
        self._heard.append((self.call, reply))
        if self.call is self._expert.call:
            self._expert.hear(reply)
        self.call = None if reply["done"] else self._expert.call if self._draw.random() < 0.8 else self._draw.choice(DETOURS)

    def fork(self, session_id: str) -> "Player":
        twin = Player(self._begun | {"session_id": session_id}, self._draw)
        for call, reply in self._heard:
            twin.call = twin._expert.call if call == twin._expert.call else call
            twin.hear(reply | {"session_id": session_id})
        return twin

    @property
    def seen(self) -> Seen:
        return [(reply["observation"]["text"], reply["reward"], reply["done"]) for _, reply in self._heard]

    def solo(self) -> tuple[str, Seen]:
        """The same calls alone and in process: the digest, and what was seen."""
        env = make(self.task_id)
        observations = [env.step(call) for call, _ in self._heard]
        return env.digest(), [(obs.text, obs.reward, obs.done) for obs in observations]


class Crowd:
    """Players who come and go at random, by single steps or by rollouts, over connections to whichever worker is free."""

    def __init__(self, url: str, seed: int) -> None:
        self._draw = random.Random(seed)
        # No connection is kept, so that each request may reach another worker than the last.
        self._client = httpx.Client(base_url=url, limits=httpx.Limits(max_keepalive_connections=0), timeout=30)
        names = list(FAMILIES)
        # Each task twice: sessions that differ in nothing but their id.
        tasks = [str(task_named(names[number % len(names)], number, 0.5)) for number in range(SESSIONS // 2)] * 2
        self.players = [Player(self._post("/reset", {"task": task_id}), self._draw) for task_id in tasks]

    def play(self) -> None:
        draw = self._draw
        with ThreadPoolExecutor(6) as pool:
            while at_work := [player for player in self.players if player.call is not None]:
                chosen = draw.sample(at_work, min(len(at_work), draw.randint(1, 16)))
                if draw.random() < 0.5:
                    answers = self._post("/rollout", {"steps": [player.body for player in chosen]})["answers"]
                    assert {answer["status"] for answer in answers} <= {200, 503}
                    replies = [answer.get("result") for answer in answers]
                else:
                    replies = list(pool.map(lambda player: self._post("/step", player.body), chosen))
                for player, reply in zip(chosen, replies, strict=True):
                    if reply is not None:  # else there was no place: the same turn comes again
                        player.hear(reply)
                if draw.random() < 0.2 and len(self.players) < SESSIONS + 16:
                    self._fork(draw.choice(at_work))

    def check(self) -> None:
        digests = (self._get("/inspect", player)["digest"] for player in self.players)
        found = [(digest, player.seen) for digest, player in zip(digests, self.players, strict=True)]
        assert found == [player.solo() for player in self.players]
        assert len(self.players) > SESSIONS, "no forks among them"

    def live(self) -> float:
        """Return how many session copies all workers hold in memory."""
        page = self._client.get("/metrics").text
        return float(page.split("\ncompanyos_live_sessions ")[1].split()[0])

    def close(self) -> None:
        self._client.close()

    def _fork(self, player: Player) -> None:
        twins = self._post("/fork", {"session_id": player.session_id, "count": 2})["session_ids"]
        self.players += [player.fork(name) for name in twins]

    def _post(self, place: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            reply = self._client.post(place, json=body)
            if reply.status_code != 503:
                return good(reply)
            assert reply.json()["error"]["code"] == "over_capacity"
            time.sleep(0.01)

    def _get(self, place: str, player: Player) -> dict[str, Any]:
        return good(self._client.get(place, params={"session_id": player.session_id}, headers=AS_ADMIN))


@pytest.mark.parametrize(("ledger", "crowded"), [("sqlite", False), ("sqlite with fsync", True), ("postgres", True)])
def test_sessions_interleaved_at_random_over_two_workers_are_each_as_alone(
    ledger: str, crowded: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = {"WORKERS": "2"}
    if ledger == "postgres":
        settings["LEDGER"] = request.getfixturevalue("postgres").new_database()
    if "fsync" in ledger:
        settings["FSYNC"] = "true"
    if crowded:  # so that nearly every step brings its session back by replay, while others are swept out
        settings |= {"CAPACITY": "20", "IDLE_SECONDS": "0.01"}
    with serving(tmp_path / "ledger", **settings) as server:
        crowd = Crowd(server.url, seed=len(ledger))
        crowd.play()
        crowd.check()
        assert crowd.live() <= 40 if crowded else crowd.live() > len(crowd.players), "one worker did it all"
        crowd.close()


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
def test_who_is_at_work_does_not_expire_and_who_was_left_does(
    ledger: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "it") if ledger == "sqlite" else request.getfixturevalue("postgres").new_database()
    now, draw = [1000.0], random.Random(7)
    ledgers = [open_ledger(place), open_ledger(place)]
    workers = [Sessions(one, capacity=6, idle_seconds=2, ttl_seconds=100, clock=lambda: now[0]) for one in ledgers]
    waits: list[tuple[str, Iterator[Call], CompanyEnv]] = []
    left = []
    for seed in range(12):
        env = make(str(task_named(FAMILY, seed, 0.5)))
        run_expert(env)
        begun = [workers[seed % 2].create(TaskId.parse(env.task_id)).header.session_id for _ in range(2)]
        now[0] += 2
        waits.append((begun[0], iter([turn.call for turn in env.turns]), env))
        left.append(begun[1])
    while waits:  # each is at work again within the hundred seconds, at either worker
        for name, calls, env in draw.sample(waits, len(waits)):
            now[0] += 2
            worker = draw.choice(workers)
            if (call := next(calls, None)) is not None:
                worker.step(StepRequest(name, call))
            else:
                assert worker.observe(name).env.digest() == env.digest()
                waits.remove((name, calls, env))
        draw.choice(workers).sweep()
    assert [ledgers[0].read(name) for name in left] == [None] * len(left)
    for one in ledgers:
        one.close()


def test_a_look_shows_a_session_between_two_turns_and_never_within_one(tmp_path: Path) -> None:
    env = make(str(task_named(FAMILY, 7, 0.5)))
    expected, texts = [env.digest()], [env.reset().text]
    with serving(tmp_path / "ledger", FSYNC="true") as server, httpx.Client(base_url=server.url) as client:
        expert = Expert(good(client.post("/reset", json={"task": env.task_id})))

        def work() -> None:
            while expert.call is not None:
                texts.append(env.step(expert.call).text)
                expected.append(env.digest())
                expert.hear(good(client.post("/step", json=expert.body)))

        worker = threading.Thread(target=work)
        worker.start()
        where, looks = {"session_id": expert.session_id}, []
        while worker.is_alive():
            looks.append(good(client.get("/inspect", params=where, headers=AS_ADMIN)))
        worker.join()
    assert len(looks) > 3
    assert [look["digest"] for look in looks] == [expected[len(look["turns"])] for look in looks]


# -- whose session it is -----------------------------------------------------------------------------------------------


LOOKS = ("/render", "/inspect", "/manifest", "/state", "/tools/state")


def tries(session_id: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Every way to ask for a session, by place and by where it is named."""
    call = {"app": "ticketdesk", "method": "list_tickets"}
    tool = {"name": "ticketdesk_list_tickets", "arguments": {}}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    bodies: dict[str, dict[str, Any]] = {"/step": call, "/fork": {"count": 1}, "/close": {}, "/mcp": rpc, "/tools/mcp": rpc}
    bodies |= {place: {} for place in LOOKS}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for place, body in bodies.items():
        method = "GET" if place in LOOKS else "POST"
        json = {} if method == "GET" else {"json": body}
        found[f"{place} by header"] = (method, place, json | {"headers": {"x-session-id": session_id}})
        found[f"{place} by query"] = (method, place, json | {"params": {"session_id": session_id}})
        if body is rpc:
            found[f"{place} by body"] = (method, place, {"json": rpc | {"params": tool | {"session_id": session_id}}})
        elif method == "POST":
            found[f"{place} by body"] = (method, place, {"json": body | {"session_id": session_id}})
    found["/rollout by body"] = ("POST", "/rollout", {"json": {"steps": [call | {"session_id": session_id}]}})
    return found


def test_to_anothers_token_a_session_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "ledger", WORKERS="2", TOKENS="alice,bob") as server,
        httpx.Client(base_url=server.url, headers={"authorization": "Bearer alice"}) as alice,
        httpx.Client(base_url=server.url, headers={"authorization": "Bearer bob"}) as bob,
    ):
        begun = good(alice.post("/reset", json={"seed": 7, "chaos": 0.5}))
        name, never = begun["session_id"], "n" * len(begun["session_id"])
        good(alice.post("/step", json=body_of(name, DETOURS[0])))
        for (what, about_alices), about_none in zip(tries(name).items(), tries(never).values(), strict=True):
            (method, place, more), (_, _, other) = about_alices, about_none
            theirs, nothing = bob.request(method, place, **more), bob.request(method, place, **other)
            expected = {"/rollout": 200, "/mcp": 200, "/tools/mcp": 200, "/inspect": 401}.get(place, 404)
            # Replies may repeat the id that was asked for, and nothing else may tell the two apart.
            said, unknown = theirs.text.replace(name, "it"), nothing.text.replace(never, "it")
            assert (theirs.status_code, said) == (nothing.status_code, unknown), what
            assert theirs.status_code == expected, what
            assert "/mcp" not in place or "Unknown session_id" in said, what
            if expected == 404:
                assert theirs.json()["error"]["code"] == "unknown_session"
        assert [
            answer["status"] for answer in good(bob.post("/rollout", **tries(name)["/rollout by body"][2]))["answers"]
        ] == [404]
        assert good(alice.post("/step", json=body_of(name, DETOURS[1])))["turn"] == 2


def test_no_place_that_takes_a_session_was_forgotten() -> None:
    with AppClient() as api:
        paths = good(api.get("/openapi.json"))["paths"]
    takes = {
        path
        for path, methods in paths.items()
        for said in methods.values()
        if any(one["name"] == "X-Session-Id" for one in said.get("parameters", ()))
    }
    assert takes | {"/rollout"} == {what.split()[0] for what in tries("")}


def test_ids_are_long_and_drawn_from_the_whole_alphabet_and_never_twice() -> None:
    task, many = task_named(FAMILY), 500
    ids: list[str] = []
    for sessions in (Sessions(MemoryLedger(), capacity=3000), Sessions(MemoryLedger(), capacity=3000)):  # two workers
        made = [sessions.create(task).header.session_id for _ in range(many)]
        ids += made + [twin.header.session_id for twin in sessions.fork(made[0], count=many)]
    alphabet = string.ascii_letters + string.digits + "-_"
    assert len(set(ids)) == len(ids) == 4 * many
    assert {len(name) for name in ids} == {32}  # of 64 letters: 192 bits
    for letters in zip(*ids, strict=True):  # at every place each letter, about as often as any other
        often = Counter(letters)
        assert set(often) == set(alphabet)
        assert max(often.values()) < 4 * len(ids) / len(alphabet)
