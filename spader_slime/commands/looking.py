"""`ask`, `show`, `report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    ask = command(commands, "ask", _ask, "ask the trained agent and watch it search")
    ask.add_argument("question")
    ask.add_argument("--run", type=Path, dest="run_dir", metavar="DIR", help="default: the newest")
    ask.add_argument("--temperature", type=float, default=0.0, help="0 (default): greedy")
    ask.add_argument("--seed", type=int, default=0, help="for temperatures above 0")

    show = command(commands, "show", _show, "peers of a rollout dump, step by step")
    show.add_argument("dump", type=Path, metavar="DUMP", help="file like runs/NAME/dumps/0.pt")
    show.add_argument("--group", type=int, default=0, metavar="N", help="which prompt of it")
    show.add_argument("--peers", type=int, default=4, metavar="N", help="peers side by side")

    report = command(commands, "report", _report, "write report.html of a run again")
    report.add_argument("run_dir", type=Path, metavar="DIR")


def _ask(options: argparse.Namespace) -> None:
    from spader_slime.ask import ask

    ask(options.question, options.run_dir, options.temperature, options.seed)


def _show(options: argparse.Namespace) -> None:
    from spader_slime.show import show

    show(options.dump, options.group, options.peers)


def _report(options: argparse.Namespace) -> None:
    from spader_slime.report import write_report

    print(write_report(options.run_dir))
