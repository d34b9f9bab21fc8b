"""Entry point: `octavo` and `python -m octavo.app`."""

import sys

from octavo.app.cli.main import run


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
