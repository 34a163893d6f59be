"""Build and run the image of the Dockerfile without a Docker engine.

    make container-check        (as root, with Debian's debootstrap and curl; three minutes)

debootstrap makes the base image: the same Debian, with its own Python of the same version. Each step then runs as in Docker,
in a separate root directory. The image is started as OpenEnv's validator starts it: uid 65532, a read-only root, only /tmp
writable, no capabilities, no network but the loopback. curl then plays an episode.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from companyos.env import make, run_expert
from tools.dockerfile import Stage, Step, held_back, ignore_patterns, stages

CONTEXT = Path(__file__).parents[1]
TASK = "vendor_onboarding-v4-train-7-50"
SECONDS_TO_HEALTH = 30
DISK = "512m"  # as openenv.yaml declares
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Packages that Debian needs to replace the official Python image on Debian slim.
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
_BASE = re.compile(r"python:(?P<python>3\.\d+)-slim-(?P<debian>[a-z]+)")
_LOOPBACK_UP = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))"


def say(line: str) -> None:
    print(line, flush=True)


def done(command: list[str]) -> str:
    """Run a command and return its output. End the check if it fails."""
    found: subprocess.CompletedProcess[str] = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"failed ({found.returncode}): {shlex.join(command)}\n{found.stdout[-2000:]}{found.stderr[-2000:]}")
    return found.stdout


# -- building ----------------------------------------------------------------------------------------------------------


def furnish(base: str, root: Path) -> None:
    """Make a root directory like this base image."""
    wanted = _BASE.fullmatch(base)
    if wanted is None:
        raise SystemExit(f"cannot replace the base image {base} by a Debian")
    done(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", wanted["debian"], str(root)])
    for name in ("python", "pip"):  # the paths of the official image
        (root / f"usr/local/bin/{name}").symlink_to(f"/usr/bin/{name}3")
    for mark in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        mark.unlink()
    version = done(["chroot", str(root), "python", "--version"]).strip()
    if not version.startswith(f"Python {wanted['python']}."):
        raise SystemExit(f"{base} has another Python than {version}")
    say(f"base {base}: {version} on Debian {(root / 'etc/debian_version').read_text().strip()}")


class Build:
    """A build of the stages of a Dockerfile."""

    def __init__(self, workshop: Path, base: Path) -> None:
        self._workshop = workshop
        self._base = base
        self._roots: dict[str, Path] = {}
        self._patterns = ignore_patterns((CONTEXT / ".dockerignore").read_text())

    def make(self, number: int, stage: Stage) -> Path:
        root = self._workshop / f"stage-{number}"
        done(["cp", "--archive", "--reflink=auto", str(self._base), str(root)])
        folder = PurePosixPath("/")
        for step in stage.steps:
            began = time.monotonic()
            if step.name == "WORKDIR":
                folder = folder / step.text
                (root / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                self._copy(step, root, folder)
            elif step.name == "RUN":
                self._run(step, root, folder, {"PATH": PATH, "HOME": "/root"} | stage.environment)
            if step.name in ("COPY", "RUN"):
                say(f"  {time.monotonic() - began:5.1f} s  {step.name} {step.text[:90]}")
        self._roots[stage.name] = root
        return root

    def _copy(self, step: Step, root: Path, folder: PurePosixPath) -> None:
        *sources, target = step.words
        place = root / (folder / target).relative_to("/")
        if "from" in step.options:
            [source] = sources
            done(["cp", "--archive", str(self._roots[step.options["from"]] / source.lstrip("/")), str(place)])
            return
        for source in sources:
            found = CONTEXT / source
            for file in [found] if found.is_file() else sorted(path for path in found.rglob("*") if path.is_file()):
                if held_back(PurePosixPath(file.relative_to(CONTEXT).as_posix()), self._patterns):
                    continue
                goal = place / (file.name if found.is_file() else file.relative_to(found))
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, goal)

    def _run(self, step: Step, root: Path, folder: PurePosixPath, environment: Mapping[str, str]) -> None:
        """Run a step as Docker does, but with the package index and certificates of this machine's pip."""
        settings, places = _pip_of_this_machine()
        shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
        for place in places:
            spot = root / place.relative_to("/")
            (spot if place.is_dir() else spot.parent).mkdir(parents=True, exist_ok=True)
            if place.is_file():
                spot.touch()
        mounts = [f"mount --bind {shlex.quote(str(place))} {shlex.quote(f'{root}{place}')}" for place in places]
        mounts.append(f"mount -t proc proc {shlex.quote(str(root / 'proc'))}")
        variables = [f"{name}={value}" for name, value in {**environment, **settings}.items()]
        script = f"cd {shlex.quote(str(folder))}; {step.text}"
        inside = shlex.join(["chroot", str(root), "env", "-i", *variables, "sh", "-ec", script])
        done(["unshare", "--mount", "sh", "-ec", "; ".join([*mounts, f"exec {inside}"])])


def _pip_of_this_machine() -> tuple[dict[str, str], list[Path]]:
    """Return the settings of this machine's pip as variables, and the local paths that they name."""
    settings = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    places: set[Path] = set()
    for line in done([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        key, text = name.split(".", 1)[1], value.strip("'\"")
        if key in ("index-url", "extra-index-url", "find-links", "trusted-host", "cert"):
            settings[f"PIP_{key.upper().replace('-', '_')}"] = text
            words = (Path(word.removeprefix("file://")) for word in text.split())
            here = (place for place in words if place.is_absolute() and place.exists())
            places |= {
                place.parent if place.name == "simple" else place for place in here
            }  # the files of an index are beside it
    return settings, sorted(places)


# -- running -----------------------------------------------------------------------------------------------------------


class Container:
    """A running image, with the restrictions of OpenEnv's validator."""

    def __init__(self, root: Path, image: Stage, process: subprocess.Popen[bytes], variables: Mapping[str, str]) -> None:
        self._root = root
        self._process = process
        self._variables = variables
        self._user = image.last("USER").text

    @property
    def first(self) -> int:
        """The process with id 1 inside. When it ends, all others do."""
        return int((Path("/proc") / str(self._process.pid) / "task" / str(self._process.pid) / "children").read_text())

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside the server, as `docker exec` does."""
        beside = ["nsenter", "--target", str(self.first), "--mount", "--net", "--pid"]
        inside = as_user(self._root, self._user, self._variables, list(command))
        return subprocess.run([*beside, *inside], capture_output=True, text=True, check=False)

    def curl(self, port: int, place: str, body: Any = None) -> Any:
        """Send a request from inside the container's network."""
        sent = [] if body is None else ["--data", json.dumps(body)]
        here = ["nsenter", "--target", str(self._process.pid), "--net"]
        found = subprocess.run(
            [*here, "curl", "--silent", "--fail-with-body", "--max-time", "5", *sent, f"http://127.0.0.1:{port}{place}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(found.stdout) if found.returncode == 0 else None

    def wait_for_health(self, port: int) -> float:
        began = time.monotonic()
        while self.curl(port, "/health") != {"status": "healthy"}:
            if time.monotonic() - began > SECONDS_TO_HEALTH or self._process.poll() is not None:
                raise SystemExit(f"not healthy after {time.monotonic() - began:.0f} s")
            time.sleep(0.1)
        return time.monotonic() - began

    def stop(self) -> float:
        """Send SIGTERM to the first process, as `docker stop` does, and return the seconds until it ended."""
        began = time.monotonic()
        os.kill(self.first, signal.SIGTERM)
        self._process.wait(20)
        return time.monotonic() - began


def as_user(root: Path, user: str, variables: Mapping[str, str], command: list[str]) -> list[str]:
    """Return the command line that runs a command in this root as this user, without privileges."""
    uid, gid = user.split(":")
    weak = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    given = [f"{name}={value}" for name, value in variables.items()]
    return ["chroot", str(root), "setpriv", f"--reuid={uid}", f"--regid={gid}", *weak, "env", "-i", *given, *command]


@contextmanager
def container(root: Path, image: Stage, **more: str) -> Iterator[Container]:
    """Run the image's own command."""
    variables = {"HOME": "/"} | image.environment | more
    quoted = shlex.quote(str(root))
    folder = image.last("WORKDIR").text
    enter = ["sh", "-c", f'cd {shlex.quote(folder)} && exec "$@"', "sh", *image.last("CMD").command]
    setting = [
        f"{shlex.quote(sys.executable)} -c {shlex.quote(_LOOPBACK_UP)}",
        f"mount --bind {quoted} {quoted}",
        f"mount -o remount,bind,ro {quoted}",
        f"mount -t proc proc {quoted}/proc",
        f"mount -t tmpfs -o nosuid,nodev,size={DISK},mode=1777 tmpfs {quoted}/tmp",
        f"exec {shlex.join(as_user(root, image.last('USER').text, variables, enter))}",
    ]
    command = ["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "sh", "-ec", "; ".join(setting)]
    process = subprocess.Popen(command, start_new_session=True)
    subject = Container(root, image, process, variables)
    try:
        yield subject
    finally:
        if process.poll() is None:
            os.kill(subject.first, signal.SIGKILL)
        process.wait()


def check_run(root: Path, image: Stage) -> None:
    with container(root, image) as subject:
        say(f"healthy after {subject.wait_for_health(8000):.1f} s")
        check_restrictions(subject)
        beat = subject.run(*image.last("HEALTHCHECK").command)
        if beat.returncode:
            raise SystemExit(f"the health check fails on a healthy server: {beat.stderr}")
        say("HEALTHCHECK passes")
        check_episode(subject)
        say(f"ended {subject.stop():.1f} s after SIGTERM")
    with container(root, image, PORT="9000") as subject:
        subject.wait_for_health(9000)
        if subject.run(*image.last("HEALTHCHECK").command).returncode or subject.curl(8000, "/health"):
            raise SystemExit("PORT is not honoured")
        say("PORT=9000 is honoured, by server and health check")
        subject.stop()


def check_restrictions(subject: Container) -> None:
    """Check that the restrictions are in effect."""
    who = subject.run("id", "-u").stdout.strip()
    places = ("/tmp", "/", "/opt/companyos", "/var/tmp")
    written = [place for place in places if subject.run("touch", f"{place}/x").returncode == 0]
    nets = subject.run("python", "-c", "import socket; print([name for _, name in socket.if_nameindex()])").stdout.strip()
    caps = subject.run("grep", "CapEff", "/proc/self/status").stdout.split()[1]
    if (who, written, nets, int(caps, 16)) != ("65532", ["/tmp"], "['lo']", 0):
        raise SystemExit(
            f"the restrictions are not in effect: uid {who}, writes to {written}, networks {nets}, capabilities {caps}"
        )
    say(f"runs as uid {who}, can write only to /tmp, has no capabilities and only the network {nets}")


def check_episode(subject: Container) -> None:
    """Play an expert's episode, which must give the same rewards as in process."""
    env = make(TASK)
    run_expert(env)
    begun = subject.curl(8000, "/reset", {"task": TASK})
    for turn in env.turns:
        call = {"app": turn.call.app, "method": turn.call.method, "params": turn.call.params}
        reply = subject.curl(8000, "/step", {"session_id": begun["session_id"], **call})
        if reply is None or reply["reward"] != turn.reward:
            raise SystemExit(f"differs from the episode in process: {call} gave {reply}")
    if not (reply["done"] and reply["success"]):
        raise SystemExit("the expert did not succeed")
    say(f"episode of {len(env.turns)} steps by curl: done, success, every reward as in process")


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds and runs the image without a Docker engine.")
    parser.add_argument("--base", type=Path, help="store the base image here, or use the one that is here")
    args = parser.parse_args()
    if os.geteuid() or not shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"):
        raise SystemExit("this needs root and debootstrap (apt-get install debootstrap)")
    began = time.monotonic()
    plan = stages((CONTEXT / "Dockerfile").read_text())
    if len({stage.base for stage in plan}) != 1:
        raise SystemExit("all stages must have the same base image")
    with tempfile.TemporaryDirectory(prefix="companyos-container-") as folder:
        workshop = Path(folder)
        workshop.chmod(0o755)
        base = args.base or workshop / "base"
        if not base.exists():
            furnish(plan[0].base, base)
        build = Build(workshop, base)
        roots = [build.make(number, stage) for number, stage in enumerate(plan)]
        size = int(done(["du", "--summarize", "--block-size=1M", str(roots[-1] / "opt")]).split()[0])
        say(f"the image adds {size} MB to its base")
        check_run(roots[-1], plan[-1])
    say(f"container check passed in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
