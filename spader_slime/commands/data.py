"""`data convert`, `data check`, `data stats`, `data split`, `data sft`, `data sft-check`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command
from spader_slime.commands.sft import add_sft

FORMATS = ("qampari", "quest", "mintaka", "webqsp", "search_r1", "spader")
PROTOCOLS = ("spader", "spader_cited", "search_r1")
APART = ("both", "question", "gold")


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    group = commands.add_parser("data", help="training and evaluation files", description=__doc__)
    parts = group.add_subparsers(metavar="COMMAND", required=True)
    _add_convert(parts)
    _add_check(parts)
    stats = command(parts, "stats", _stats, "figures of slime rows")
    stats.add_argument("files", type=Path, nargs="+", metavar="FILE")
    stats.add_argument("--json", action="store_true", help="print JSON")
    _add_keys(stats)
    _add_split(parts)
    add_sft(parts)


def _add_convert(parts: Any) -> None:
    convert = command(parts, "convert", _convert, "a public data set to slime rows")
    convert.add_argument("--format", choices=FORMATS, required=True)
    convert.add_argument(
        "--in", dest="inputs", type=Path, nargs="+", required=True, metavar="FILE",
        help=".jsonl, .json (gzipped too) or .parquet",
    )  # fmt: skip
    convert.add_argument("--out", type=Path, required=True, metavar="FILE.parquet|FILE.jsonl")
    convert.add_argument(
        "--prompt", choices=("messages", "question", "own"), default="messages",
        help="messages of --protocol around the question (default); the bare question; "
        "the data set's own messages",
    )  # fmt: skip
    convert.add_argument("--protocol", choices=PROTOCOLS, default="spader", help="whose messages")
    convert.add_argument("--prompt-file", metavar="FILE", help="replaces the protocol's prompt")
    convert.add_argument("--source", metavar="NAME", help="replaces the source in the metadata")
    convert.add_argument("--strict", action="store_true", help="end at the first broken row")


def _add_check(parts: Any) -> None:
    check = command(parts, "check", _check, "are these slime rows sound, and the files apart?")
    check.add_argument("files", type=Path, nargs="+", metavar="FILE")
    check.add_argument("--strict", action="store_true", help="leaks between the files are faults")
    _add_keys(check)


def _add_split(parts: Any) -> None:
    split = command(parts, "split", _split, "parts that share no question and no gold set")
    split.add_argument("file", type=Path, metavar="FILE")
    split.add_argument("--out", type=Path, required=True, metavar="DIR")
    split.add_argument(
        "--parts", nargs="+", type=_share, metavar="NAME=SHARE",
        default=[("train", 0.9), ("dev", 0.1)], help="default: train=0.9 dev=0.1",
    )  # fmt: skip
    split.add_argument("--seed", type=int, default=0)
    split.add_argument("--apart", choices=APART, default="both", help="what parts must not share")
    split.add_argument(
        "--against", type=Path, nargs="+", default=[], metavar="FILE",
        help="leave out rows that share it with these files",
    )  # fmt: skip
    _add_keys(split)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    for name in ("prompt", "label", "metadata"):
        option = "--input-key" if name == "prompt" else f"--{name}-key"
        parser.add_argument(option, dest=f"{name}_key", default=name, metavar="KEY")


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    if not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SHARE")
    return name, float(share)


def _keys(options: argparse.Namespace) -> Any:
    from spader_slime.data.rows import Keys

    return Keys(options.prompt_key, options.label_key, options.metadata_key)


def _convert(options: argparse.Namespace) -> None:
    from spader_slime.data.convert import convert, report_path
    from spader_slime.data.rows import prompter

    report = convert(
        options.format,
        options.inputs,
        options.out,
        prompter(options.prompt, _messages(options)),
        messages=options.prompt != "question",
        strict=options.strict,
        source=options.source,
    )
    print("\n".join([*report.lines(), f"written: {options.out}, {report_path(options.out)}"]))


def _messages(options: argparse.Namespace) -> Callable[[str], list[dict[str, str]]]:
    from spader_slime.agent.protocol import make_protocol
    from spader_slime.config import AgentConfig

    config = AgentConfig(protocol=options.protocol, prompt_file=options.prompt_file)
    return make_protocol(config).messages


def _check(options: argparse.Namespace) -> None:
    from spader_slime.data.check import check_file
    from spader_slime.data.leaks import leaks, seen_in
    from spader_slime.errors import DataError

    checks = [check_file(file, _keys(options)) for file in options.files]
    print("\n".join(line for check in checks for line in check.lines()))
    faults = sum(len(check.faults) for check in checks)
    if faults:
        raise DataError(f"{faults} faults in {sum(check.rows for check in checks)} rows")
    shared = leaks([seen_in(file, _keys(options)) for file in options.files])
    for leak in shared:
        print("\n".join(leak.lines()))
    if shared and options.strict:
        raise DataError("files that should be apart share questions or gold sets")


def _stats(options: argparse.Namespace) -> None:
    from spader_slime.data.stats import file_stats, stats_lines

    found = {file: file_stats(file, _keys(options)) for file in options.files}
    if options.json:
        print(json.dumps({str(file): stats for file, stats in found.items()}, indent=1))
        return
    for file, stats in found.items():
        print("\n".join(stats_lines(file, stats)))


def _split(options: argparse.Namespace) -> None:
    from spader_slime.data.split import split_file

    found = split_file(
        options.file, options.out, dict(options.parts), options.seed, options.apart,
        options.against, _keys(options),
    )  # fmt: skip
    print("\n".join([*found.lines(), f"written: {options.out}"]))
