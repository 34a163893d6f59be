"""Programs: what the system brings and pip does not, and where it is found."""

import shutil
import subprocess
from pathlib import Path

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """A browser of the system's."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


def postgresql() -> str | None:
    """PostgreSQL's server, where Debian or whoever packed it has put it: the newest, if there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found and (configured := shutil.which("pg_config")):
        answer = subprocess.run([configured, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        found = [path for path in [Path(answer) / "postgres"] if path.exists()]
    return str(found[-1]) if found else None
