"""`export` and `import`: Megatron checkpoints to Hugging Face folders and back."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command

DTYPES = ("keep", "bfloat16", "float16", "float32")


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    _add_export(commands)
    _add_import(commands)


def _add_export(commands: Any) -> None:
    export = command(
        commands, "export", _export, "make a Hugging Face folder of a Megatron checkpoint"
    )
    export.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="the run's checkpoints, or one iter_NNNNNNN",
    )
    export.add_argument(
        "--origin-hf", type=Path, required=True, metavar="DIR", help="where training started from"
    )
    export.add_argument("--out", type=Path, required=True, metavar="DIR")
    export.add_argument(
        "--shard-size", type=_gigabytes, default=5.0, metavar="GB", help="default: 5"
    )
    export.add_argument("--verify", action="store_true", help="compare logits layer by layer")
    _add_common(export)
    card = export.add_argument_group("model card")
    card.add_argument(
        "--run", type=Path, dest="run_dir", metavar="DIR", help="run folder; default: found"
    )
    card.add_argument("--base-model", metavar="NAME", help="default: as the origin's config says")
    card.add_argument("--license", metavar="ID", help="default: the origin's")
    card.add_argument("--dataset", action="append", default=[], metavar="NAME", help="repeatable")
    card.add_argument("--title", metavar="TEXT")


def _gigabytes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in GB, a number above 0")
    return value


def _add_import(commands: Any) -> None:
    started = command(
        commands, "import", _import, "make a Megatron checkpoint of a Hugging Face folder"
    )
    started.add_argument("--hf", type=Path, required=True, metavar="DIR")
    started.add_argument("--out", type=Path, required=True, metavar="DIR")
    started.add_argument("--spec", choices=("te", "local"), default="te", help="Megatron layers")
    started.add_argument(
        "--layers",
        choices=("auto", "stacked", "numbered"),
        default="auto",
        help="layers as an axis or in names; auto: numbered for mixtures of experts, as slime",
    )
    _add_common(started)


def _add_common(parser: Any) -> None:
    parser.add_argument("--dtype", choices=DTYPES, default="keep", help="default: as stored")
    parser.add_argument("--dry-run", action="store_true", help="list what maps to what, and stop")
    parser.add_argument("--force", action="store_true", help="replace the output if it is there")


def _export(options: argparse.Namespace) -> None:
    from spader_slime.checkpoints.card import CardFacts
    from spader_slime.checkpoints.export import export
    from spader_slime.checkpoints.export_plan import ExportOptions, plan_export

    asked = ExportOptions(
        checkpoint=options.checkpoint,
        origin=options.origin_hf,
        out=options.out,
        dtype=options.dtype,
        shard_bytes=int(options.shard_size * 1e9),
        replace=options.force,
        verify=options.verify,
        card=CardFacts(
            options.base_model,
            options.license,
            tuple(options.dataset),
            options.run_dir,
            options.title,
        ),
    )
    if options.dry_run:
        print("\n".join(plan_export(asked).describe()))
        return
    verified = export(asked)
    if verified is not None:
        print(verified)
    print(options.out)


def _import(options: argparse.Namespace) -> None:
    from spader_slime.checkpoints.hf_import import ImportOptions, import_hf, plan_import

    asked = ImportOptions(
        options.hf, options.out, options.dtype, options.spec, options.layers, options.force
    )
    if options.dry_run:
        print("\n".join(plan_import(asked).describe()))
        return
    print(import_hf(asked))
