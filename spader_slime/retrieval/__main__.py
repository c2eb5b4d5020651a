"""`python -m spader_slime.retrieval --index DIR --port N`: serve an index."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spader_slime.errors import SpaderError
from spader_slime.retrieval.server import serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spader_slime.retrieval", description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="folder of a built index")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free port")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="exit when the starting process is gone"
    )
    options = parser.parse_args(arguments)
    try:
        serve(options.index, options.host, options.port, options.die_with_parent)
    except (SpaderError, OSError) as error:
        print(f"search service: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
