"""Entry point: `octavo` and `python -m octavo.app`."""

import os
import sys

from octavo.app.cli.main import run


def main() -> None:
    """Run the command line and exit with its code."""
    # Read by torch's OpenMP when it is imported. Threads that spin between torch's operations take the cores from the
    # kernels' own threads and from other programs: beside a busy program prefill fell to a tenth. Sleeping instead
    # costs a fifth of prefill on a quiet machine, and nothing of decoding.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Its C++ parts would write warnings to stderr, across the screen.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    sys.exit(run())


if __name__ == "__main__":
    main()
