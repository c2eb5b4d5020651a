"""`python -m spader_slime.local.engine --model DIR --port N`: serve a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spader_slime.errors import SpaderError


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if not (options.model / "config.json").is_file():  # known before torch is imported
        print(f"engine: {options.model} holds no model (no config.json)", file=sys.stderr)
        return 1
    from spader_slime.local.engine.serve import serve

    try:
        serve(
            options.model,
            options.host,
            options.port,
            threads=options.threads,
            max_running=options.max_running,
            context_length=options.context_length,
            die_with_parent=options.die_with_parent,
        )
    except (SpaderError, OSError) as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spader-slime engine", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000, help="0 picks a free port")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--max-running", type=int, default=192, help="sequences at once")
    parser.add_argument("--context-length", type=int, help="default: what the model's config says")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="exit when the starting process is gone"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
