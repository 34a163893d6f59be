"""The blocks of docs/start-here.md for OpenEnv and MCP work against a server."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from companyos.cli.main import parser
from companyos.company import TOOLBOX
from tests.blocks import ROOT, Block, blocks_of
from tests.serve.servers import Server, serving

BLOCKS = blocks_of(ROOT / "docs" / "start-here.md")
ON_A_SERVER = [block for block in BLOCKS if block.title == "needs a server"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("start") / "ledger") as one:
        yield one


def printed(block: Block, server: Server) -> str:
    code = block.code.replace("http://127.0.0.1:8000", server.url)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_openenvs_client_reads_the_ticket(server: Server) -> None:
    [block] = [block for block in ON_A_SERVER if "openenv" in block.code]
    assert "T-9262; title=Onboard" in printed(block, server)


def test_an_mcp_host_finds_the_tools_and_reads_the_ticket(server: Server) -> None:
    [block] = [block for block in ON_A_SERVER if "fastmcp" in block.code]
    said = printed(block, server)
    assert int(said.split(" ", 1)[0]) > len(TOOLBOX.names)  # one more shows the brief again, and chaos adds clutter
    assert "T-9262; title=Onboard" in said


def test_the_configuration_for_mcp_hosts_names_a_command_line_of_ours() -> None:
    [block] = [block for block in BLOCKS if block.language == "json"]
    command = json.loads(block.code)["mcpServers"]["companyos"]
    assert command["command"] == "companyos"
    given = parser().parse_args(command["args"])
    assert (given.task, given.seed) == ("vendor_onboarding", 7)
