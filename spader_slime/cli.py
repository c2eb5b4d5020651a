"""The command line, `spader-slime COMMAND`. Imports happen inside the commands: help is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spader_slime.errors import SpaderError

USER_FAULT, INTERRUPTED = 2, 130  # exit codes
Command = Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0; 2 when the user can do something about it (one line on stderr says what); 130 after
        Ctrl-C. Faults of the program itself keep their traceback.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except SpaderError as error:
        print(f"spader-slime: {' '.join(str(error).split())}", file=sys.stderr)
        return USER_FAULT
    except KeyboardInterrupt:
        print(
            "\nspader-slime: interrupted; `train` and `compare` go on when called again",
            file=sys.stderr,
        )
        return INTERRUPTED
    except BrokenPipeError:  # `spader-slime show DUMP | head`
        sys.stderr.close()
    return 0


def _train(options: argparse.Namespace) -> None:
    from spader_slime.local.settings import load_config

    config = load_config(options.config, options.overrides)
    from spader_slime.local.train import run_training  # a faulty file is told before torch loads

    run_training(config)


def _compare(options: argparse.Namespace) -> None:
    from spader_slime.local.comparison.run import run_compare

    run_compare(options.plan, options.out, options.parallel, options.stage)


def _ask(options: argparse.Namespace) -> None:
    from spader_slime.ask import ask

    ask(options.question, options.run_dir, options.temperature, options.seed)


def _show(options: argparse.Namespace) -> None:
    from spader_slime.show import show

    show(options.dump, options.group, options.peers)


def _report(options: argparse.Namespace) -> None:
    from spader_slime.report import write_report

    print(write_report(options.run_dir))


def _world(options: argparse.Namespace) -> None:
    from spader_slime.local.world.build import build_world

    print(build_world(options.size, options.out, options.seed).root)


def _engine(options: argparse.Namespace) -> None:
    from spader_slime.local.engine.__main__ import main as serve

    _passed_on(serve, options)


def _search(options: argparse.Namespace) -> None:
    from spader_slime.retrieval.__main__ import main as serve

    _passed_on(serve, options)


def _passed_on(program: Callable[[list[str]], Any], options: argparse.Namespace) -> None:
    """Hand the rest of the command line to a program with options of its own."""
    code = program(options.rest)
    if code:
        sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spader-slime", description="Train search agents.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _learning_commands(commands)
    _looking_commands(commands)
    _serving_commands(commands)
    return parser


def _learning_commands(commands: Any) -> None:
    train = _command(commands, "train", _train, "train an agent; goes on where it was interrupted")
    train.add_argument("--config", type=Path, required=True, metavar="FILE")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="replaces a key of FILE")

    compare = _command(commands, "compare", _compare, "estimators and rewards side by side")
    compare.add_argument("plan", type=Path, metavar="PLAN", help="YAML file that says what")
    compare.add_argument("--out", type=Path, default=Path("runs/compare"), metavar="DIR")
    compare.add_argument("--parallel", type=int, default=2, metavar="N", help="runs at once")
    stages = ("cold", "tune", "final", "report")
    compare.add_argument("--stage", choices=stages, help="stop after this stage")

    world = _command(commands, "world", _world, "build a world of questions and passages")
    world.add_argument("out", type=Path, metavar="DIR")
    world.add_argument("--size", choices=("small", "full"), default="small")
    world.add_argument("--seed", type=int, default=0)


def _looking_commands(commands: Any) -> None:
    ask = _command(commands, "ask", _ask, "ask the trained agent and watch it search")
    ask.add_argument("question")
    ask.add_argument("--run", type=Path, dest="run_dir", metavar="DIR", help="default: the newest")
    ask.add_argument("--temperature", type=float, default=0.0, help="0 (default): greedy")
    ask.add_argument("--seed", type=int, default=0, help="for temperatures above 0")

    show = _command(commands, "show", _show, "peers of a rollout dump, step by step")
    show.add_argument("dump", type=Path, metavar="DUMP", help="file like runs/NAME/dumps/0.pt")
    show.add_argument("--group", type=int, default=0, metavar="N", help="which prompt of it")
    show.add_argument("--peers", type=int, default=4, metavar="N", help="peers side by side")

    report = _command(commands, "report", _report, "write report.html of a run again")
    report.add_argument("run_dir", type=Path, metavar="DIR")


def _serving_commands(commands: Any) -> None:
    for name, run, about in (
        ("engine", _engine, "serve a model with SGLang's protocol (--model DIR --port N)"),
        ("search", _search, "serve a search index (--index DIR --port N)"),
    ):
        server = _command(commands, name, run, about, add_help=False, prefix_chars="\0")
        server.add_argument("rest", nargs="*")


def _command(commands: Any, name: str, run: Command, about: str, **more: Any) -> Any:
    parser = commands.add_parser(name, help=about, description=about, **more)
    parser.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
