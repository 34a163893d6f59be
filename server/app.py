"""The entry point that OpenEnv's tools expect at this path. `companyos serve` is the same, with flags."""

import sys
from typing import Any

from companyos.cli.main import main as companyos


def __getattr__(name: str) -> Any:
    # Makes the app for `uvicorn server.app:app` only when asked, so that importing `main` opens no ledger.
    if name == "app":
        from companyos.web.app import create

        return create()
    raise AttributeError(name)


def main() -> int:
    """Start the server with the settings in the COMPANYOS_* variables."""
    return companyos(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
