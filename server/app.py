"""App: where OpenEnv's tools look for a server. `companyos serve` is the same, with flags."""

import sys
from typing import Any

from companyos.cli.main import main as companyos


def __getattr__(name: str) -> Any:
    # `uvicorn server.app:app` makes the app; whoever imports this module for `main` opens no ledger.
    if name == "app":
        from companyos.web.app import create

        return create()
    raise AttributeError(name)


def main() -> int:
    """Serves, as the COMPANYOS_* variables say."""
    return companyos(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
