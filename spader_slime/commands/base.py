"""What all groups of commands use."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Command = Callable[[argparse.Namespace], None]


def command(commands: Any, name: str, run: Command, about: str, **more: Any) -> Any:
    """A subcommand `name` that calls `run` with the parsed options; its parser."""
    parser = commands.add_parser(name, help=about, description=about, **more)
    parser.set_defaults(run=run)
    return parser
