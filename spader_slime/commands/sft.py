"""`data sft`, `data sft-check`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command

_STYLE = {True: "green", False: ""}


def add_sft(parts: Any) -> None:
    """Declare the two commands under `data`."""
    sft = command(parts, "sft", _sft, "chats with tool turns to a fine-tuning file for slime")
    sft.add_argument(
        "--in", dest="inputs", type=Path, nargs="+", required=True, metavar="FILE",
        help="a chat per row under messages or conversations; tools beside it",
    )  # fmt: skip
    sft.add_argument("--out", type=Path, required=True, metavar="FILE.parquet|FILE.jsonl")
    sft.add_argument(
        "--observation-tag", default="information", metavar="TAG",
        help="blocks inside assistant turns that are not learned; default: information",
    )  # fmt: skip
    sft.add_argument("--source", metavar="NAME", help="replaces the source in the metadata")
    sft.add_argument("--tokenizer", metavar="DIR", help="render every row with its chat template")
    sft.add_argument("--max-tokens", type=int, metavar="N", help="leave out longer rows")
    sft.add_argument("--strict", action="store_true", help="end at the first broken row")
    check = command(parts, "sft-check", _check, "what training will learn of a fine-tuning file")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--tokenizer", required=True, metavar="DIR", help="of the model to train")
    check.add_argument("--max-tokens", type=int, metavar="N", help="longer rows are faults")
    check.add_argument("--show", type=int, default=1, metavar="N", help="print the first N rows")


def _sft(options: argparse.Namespace) -> None:
    from spader_slime.data.sft import SftOptions, convert_chats, load_renderer
    from spader_slime.errors import ConfigError

    if options.max_tokens is not None and not options.tokenizer:
        raise ConfigError("--max-tokens", options.max_tokens, "a value together with --tokenizer")
    renderer = load_renderer(options.tokenizer) if options.tokenizer else None
    asked = SftOptions(
        options.observation_tag, options.source, renderer, options.max_tokens, options.strict
    )
    report = convert_chats(options.inputs, options.out, asked)
    print("\n".join([*report.lines(), f"written: {options.out}, {options.out}.report.json"]))


def _check(options: argparse.Namespace) -> None:
    from spader_slime.data.sft import check_chats, load_renderer
    from spader_slime.errors import DataError

    renderer = load_renderer(options.tokenizer)
    report = check_chats(options.file, renderer, options.max_tokens, _printer(options.show))
    print("\n".join(report.lines()))
    lost = report.rows_in - report.rows_out
    if lost or not report.rows_in:
        raise DataError(f"{lost} of {report.rows_in} rows of {options.file} can't be learned from")


def _printer(rows: int) -> Callable[[str, Any], None]:
    """Prints the first rows as training sees them; what is learned stands between ⟦ and ⟧."""
    from rich.console import Console
    from rich.text import Text

    console, left = Console(soft_wrap=True, highlight=False), iter(range(rows))

    def show(place: str, rendered: Any) -> None:
        if next(left, None) is None:
            return
        text = Text(f"--- {place}; learned: ⟦ ⟧\n")
        for piece in rendered.pieces:
            text.append(f"⟦{piece.text}⟧" if piece.learned else piece.text, _STYLE[piece.learned])
        console.print(text)

    return show
