"""Deployment: the compose file agrees with the Dockerfile and the settings, and its topology works without Docker."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from websockets.sync.client import connect

from companyos.core.calls import Call
from companyos.env import task_named
from companyos.serve.ledger.postgres import _parameters
from companyos.serve.ops.settings import PREFIX, Settings
from tests.serve.postgres import Postgres
from tests.serve.servers import AS_ADMIN, Expert, Server, good, result_of, solo, wait_for
from tests.serve.sockets import action
from tools.dockerfile import stages

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVERS = [COMPOSE["services"][name] for name in ("server-1", "server-2")]
VARIABLES = {
    "POSTGRES_PASSWORD": "a-password",
    "COMPANYOS_TOKENS": "one,other",
    "COMPANYOS_ADMIN_TOKEN": "third",
    "COMPANYOS_WATCH_KEY": "key",
    "COMPANYOS_SITE": "companyos.example",
}


def filled(text: str) -> str:
    """What compose makes of `${NAME:?}`: every variable has to be given."""
    return re.sub(r"\$\{(\w+):\?\}", lambda found: VARIABLES[found[1]], text)


def test_its_variables_are_settings_and_the_settings_are_what_a_server_runs_with() -> None:
    image = stages((ROOT / "Dockerfile").read_text())[-1]
    for server in SERVERS:
        given = {name: filled(value) for name, value in server["environment"].items()}
        unknown = {name for name in given if not name.startswith(PREFIX)}
        assert unknown == {"FORWARDED_ALLOW_IPS"}
        assert {name.removeprefix(PREFIX).lower() for name in given.keys() - unknown} <= {*Settings.__struct_fields__}
        settings = Settings.read({**image.environment, **given})
        assert (settings.host, settings.workers, settings.tokens) == ("0.0.0.0", 2, ("one", "other"))
        assert settings.allowed_hosts == ("companyos.example",)
        parameters = _parameters(settings.ledger)
        database = COMPOSE["services"][str(parameters["host"])]["environment"]
        assert parameters["user"] == database["POSTGRES_USER"]
        assert parameters["dbname"] == database["POSTGRES_DB"]
        assert parameters["password"] == filled(database["POSTGRES_PASSWORD"])
        assert (FOLDER / server["build"]).resolve() == ROOT
        assert server["read_only"]
        assert server["tmpfs"] == ["/tmp"]
        assert "ports" not in server  # nobody gets past the proxy


def test_no_secret_stands_in_it_and_all_that_it_mounts_is_there() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    assert set(re.findall(r"\$\{(\w+):\?\}", text)) == set(VARIABLES)
    proxy = COMPOSE["services"]["proxy"]
    assert (FOLDER / proxy["volumes"][0].split(":")[0]).is_file()
    assert {volume.split(":")[0] for one in COMPOSE["services"].values() for volume in one.get("volumes", ())} == {
        "./Caddyfile",
        *COMPOSE["volumes"],
    }
    upstreams = re.search(r"COMPANYOS_SERVERS:(.*?)\}", (FOLDER / "Caddyfile").read_text())
    assert upstreams is not None
    port = stages((ROOT / "Dockerfile").read_text())[-1].last("EXPOSE").text
    assert upstreams[1].split() == [f"{name}:{port}" for name in COMPOSE["services"] if name.startswith("server")]


@contextmanager
def proxied(servers: list[Server], folder: Path) -> Iterator[str]:
    """The proxy of the compose file before these servers: its URL."""
    program = shutil.which("caddy")
    assert program, "these tests need Caddy: .ci/packages installs it on Debian"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    given = {"COMPANYOS_SITE": url, "COMPANYOS_SERVERS": " ".join(f"127.0.0.1:{server.port}" for server in servers)}
    command = [program, "run", "--adapter", "caddyfile", "--config", str(FOLDER / "Caddyfile")]
    surroundings = {**os.environ, **given, "HOME": str(folder)}
    with (folder / "proxy.log").open("wb") as log:
        proxy = subprocess.Popen(command, env=surroundings, stdout=log, stderr=log)
    try:
        wait_for(lambda: httpx.get(f"{url}/ready").status_code == 200)
        yield url
    finally:
        proxy.terminate()
        proxy.wait()


def test_two_servers_behind_the_proxy_play_one_episode_in_turn_and_one_of_them_may_die(
    postgres: Postgres, tmp_path: Path
) -> None:
    given = {
        "LEDGER": postgres.new_database(),
        "TOKENS": "one,other",
        "WATCH_KEY": "key",
        "LOG_LEVEL": "debug",
        "LOG_FORMAT": "json",
    }
    folders = [tmp_path / name for name in ("first", "second")]
    servers = []
    for folder in folders:
        folder.mkdir()
        servers.append(Server(folder / "ledger", **given))
    try:
        for server in servers:
            server.start()
        with proxied(servers, tmp_path) as url:
            _play(url, servers)
    finally:
        for server in servers:
            server.kill()


def _play(url: str, servers: list[Server]) -> None:
    task_id = str(task_named("vendor_onboarding", 7, 0.5))
    with httpx.Client(base_url=url, headers={"authorization": "Bearer one"}) as client:
        expert = Expert(good(client.post("/reset", json={"task": task_id})))
        while expert.call is not None:
            if len(expert.rewards) == 6:
                assert ["place" in server.said() for server in servers] == [True, True]
                servers[0].kill()
            reply = client.post("/step", json=expert.body | {"turn": len(expert.rewards) + 1})
            if reply.status_code not in (502, 503):  # from the proxy, until it has noticed
                expert.hear(good(reply))
        servers[0].start()
        page = client.get("/inspect", params={"session_id": expert.session_id}, headers=AS_ADMIN)
        assert result_of(expert, good(page)["digest"]) == solo(task_id)
        other = client.get("/render", params={"session_id": expert.session_id}, headers={"authorization": "Bearer other"})
        assert other.status_code == 404
    with connect(url.replace("http", "ws") + "/ws", additional_headers={"Authorization": "Bearer one"}) as one:
        one.send(json.dumps({"type": "reset", "data": {}}))
        assert json.loads(one.recv())["type"] == "observation"
        one.send(json.dumps({"type": "step", "data": action(Call("ticketdesk", "list_tickets"))}))
        assert json.loads(one.recv())["data"]["observation"]["step"] == 1
