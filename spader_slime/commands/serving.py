"""`engine`: a server with options of its own."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spader_slime.commands.base import command


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    about = "serve a model with SGLang's protocol (--model DIR --port N)"
    server = command(commands, "engine", _engine, about, add_help=False, prefix_chars="\0")
    server.add_argument("rest", nargs="*")


def _engine(options: argparse.Namespace) -> None:
    from spader_slime.local.engine.__main__ import main as serve

    code = serve(options.rest)
    if code:
        sys.exit(code)
