"""`penstock`, and `python -m penstock`. Ctrl-C is one line and exit code 130 from the first import on."""

import sys


def main() -> None:
    """Import the commands, which takes a moment, and run the one that is asked for."""
    try:
        from penstock.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
