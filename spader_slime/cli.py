"""The command line, `spader-slime COMMAND`. Imports happen inside the commands: help is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spader_slime.commands import (
    checkpoints,
    data,
    doctor,
    evaluating,
    learning,
    looking,
    search,
    serving,
)
from spader_slime.errors import SpaderError

USER_FAULT, INTERRUPTED = 2, 130  # exit codes
GROUPS = (learning, looking, serving, search, data, evaluating, checkpoints, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0; 2 when the user can do something about it (one line on stderr says what); 130 after
        Ctrl-C. Faults of the program itself keep their traceback.
    """
    options = make_parser().parse_args(arguments)
    try:
        options.run(options)
    except SpaderError as error:
        print(f"spader-slime: {' '.join(str(error).split())}", file=sys.stderr)
        return USER_FAULT
    except KeyboardInterrupt:
        print(
            "\nspader-slime: interrupted; "
            "`train`, `compare`, `evaluate`, `index build`, `export` and `import` go on if "
            "called again",
            file=sys.stderr,
        )
        return INTERRUPTED
    except BrokenPipeError:  # `spader-slime show DUMP | head`
        sys.stderr.close()
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The whole command line; the reference pages are made from it."""
    parser = argparse.ArgumentParser(prog="spader-slime", description="Train search agents.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in GROUPS:
        group.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
