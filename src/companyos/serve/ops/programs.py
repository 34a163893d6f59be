"""Finds programs of the system that pip does not install: a browser and PostgreSQL."""

import shutil
import subprocess
from pathlib import Path

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of an installed Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def postgresql() -> str | None:
    """Return the path of the newest PostgreSQL server, in Debian's folder or where `pg_config` says, or None."""
    # for example /usr/lib/postgresql/15/bin/postgres; sorted by the version
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not paths and (pg_config := shutil.which("pg_config")):
        folder = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        paths = [path for path in [Path(folder) / "postgres"] if path.exists()]
    return str(paths[-1]) if paths else None
