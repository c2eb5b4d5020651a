"""`doctor`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command

ERRORS_FOUND = 1  # exit code


def add(commands: Any) -> None:
    """Declare the command."""
    about = "check a cluster run before it takes GPUs; exit code 1 when something is wrong"
    doctor = command(commands, "doctor", _doctor, about)
    doctor.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="as for --custom-config-path"
    )
    doctor.add_argument("--json", action="store_true", help="findings as JSON on stdout")
    doctor.add_argument(
        "--slime-args",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="...",
        help="all that follows: what slime's train.py is given",
    )


def _doctor(options: argparse.Namespace) -> None:
    import orjson

    from spader_slime.doctor import Severity, examine
    from spader_slime.doctor.table import as_json, show

    findings = examine(options.config, options.slime_args)
    if options.json:
        print(orjson.dumps(as_json(findings), option=orjson.OPT_INDENT_2).decode())
    else:
        show(findings)
    if any(finding.severity is Severity.ERROR for finding in findings):
        sys.exit(ERRORS_FOUND)
