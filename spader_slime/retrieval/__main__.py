"""`python -m spader_slime.retrieval --index DIR --port N`: serve an index, as a child process.

`spader-slime serve` is the same with all options.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spader_slime.errors import SpaderError
from spader_slime.retrieval.serving import ServeOptions, serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spader_slime.retrieval", description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="folder of a built index")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free port")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="exit when the starting process is gone"
    )
    try:
        serve(ServeOptions(**vars(parser.parse_args(arguments))))
    except SpaderError as error:
        print(f"search service: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
