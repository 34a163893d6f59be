"""Finds programs of the system that pip does not install: a browser and PostgreSQL."""

import shutil
import subprocess
from pathlib import Path

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of an installed Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


def postgresql() -> str | None:
    """Return the path of the newest PostgreSQL server, in Debian's folder or where `pg_config` says, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found and (configured := shutil.which("pg_config")):
        answer = subprocess.run([configured, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        found = [path for path in [Path(answer) / "postgres"] if path.exists()]
    return str(found[-1]) if found else None
