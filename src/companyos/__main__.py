"""Run the command line with `python -m companyos`."""

import sys

from companyos.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
