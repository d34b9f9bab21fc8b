"""Entry point: `octavo` and `python -m octavo.app`."""

import os
import sys

from octavo.app.cli.main import run


def main() -> None:
    """Run the command line and exit with its code."""
    # Read by torch's OpenMP when it is imported. Threads that spin between torch's operations take the cores from the
    # kernels' own threads: on a busy machine prefill fell to a tenth, and decoding lost an eighth on a quiet one.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    sys.exit(run())


if __name__ == "__main__":
    main()
