"""Converts checkpoints with slime's own name maps and its own tool's way of reading them.

    python tests/contracts/on_slime_names.py SLIME_CHECKOUT OUT.json FOLDER ...

Every FOLDER holds `hf/` (its config names the model), and checkpoints: what Megatron wrote, and
what `spader-slime import` made. Writes the list of folders done.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from contracts.real_slime import use_slime  # noqa: E402

VOCAB = "259"
CHECKPOINTS = {"megatron/iter_0000007": "slime", "imported/release": "slime, imported"}


def convert(tool: Path, folder: Path, checkpoint: str, out: str) -> None:
    """As a user of slime does it."""
    words: dict[str, Any] = {
        "--input-dir": folder / checkpoint,
        "--output-dir": folder / out,
        "--origin-hf-dir": folder / "hf",
        "--vocab-size": VOCAB,
    }
    flat = [str(word) for pair in words.items() for word in pair]
    with patch.object(sys, "argv", [str(tool), *flat]):
        runpy.run_path(str(tool), run_name="__main__")


def main(checkout: str, out: Path, folders: list[str]) -> None:
    use_slime(checkout)
    for folder in folders:
        for checkpoint, made in CHECKPOINTS.items():
            tool = Path(checkout) / "tools" / "convert_torch_dist_to_hf.py"
            convert(tool, Path(folder), checkpoint, made)
    out.write_text(json.dumps(folders), "utf-8")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    sys.stdout.flush()
    os._exit(0)
