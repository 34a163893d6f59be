"""What a server can reach in an isolated network, measured by OpenEnv's own probes."""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from openenv.validation.providers._netns import PROBE_SCRIPT

ROOT = Path(__file__).parents[2]
KINDS = ("tcp", "udp", "icmp")
# Runs in there: the server, then the oracle's episodes by its loopback, then the probes.
_INSIDE = """
import fcntl, os, socket, struct, subprocess, sys, time, urllib.request
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 1))  # the loopback is up
server = subprocess.Popen([sys.executable, "-m", "companyos", "serve"], stdout=subprocess.DEVNULL)
try:
    for _ in range(600):
        try:
            urllib.request.urlopen("http://127.0.0.1:8000/health").close()
            break
        except OSError:
            time.sleep(0.05)
    subprocess.run([sys.executable, "validation/oracle.py"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], check=True)
finally:
    server.kill()
    server.wait()
"""


def measured(ledger: Path, mode: str) -> dict[str, Any]:
    """OpenEnv's evidence of a server that has worked without any network, and of what it could have reached."""
    here = _own_address()
    control = json.loads(_output([sys.executable, "-c", PROBE_SCRIPT, here]))
    run = shlex.join([sys.executable, "-c", _INSIDE, PROBE_SCRIPT, here])
    inside = ["sh", "-ec", f"mount -t sysfs sysfs /sys; exec {run}"]
    subject = json.loads(_output(["unshare", "--map-root-user", "--net", "--mount", *inside], COMPANYOS_LEDGER=str(ledger)))
    probes = [{"kind": kind, "control": control["probes"][kind], "subject": subject["probes"][kind]} for kind in KINDS]
    assert 8000 in subject["namespace"]["listening_ports"]
    return {
        "requested_mode": mode,
        "subject_network_mode": "none",
        "namespace": subject["namespace"],
        "probes": probes,
    }


def _own_address() -> str:
    """An address of this machine that is not its loopback. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def _output(command: list[str], **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COMPANYOS_") and name != "PORT"}
    surroundings = kept | {"COMPANYOS_LOG_LEVEL": "warning"} | variables
    return subprocess.run(command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, text=True, check=True).stdout
