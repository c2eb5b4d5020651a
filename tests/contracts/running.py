"""How a script of checks inside real slime runs.

    python SCRIPT SLIME_CHECKOUT OUT.json [CHECK ...]

It writes `{check: "" or what went wrong}`. Needs what `record_seams.py` needs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from contracts.real_slime import use_slime


def run(checks: Mapping[str, Callable[[], None]], after: Callable[[], None] = lambda: None) -> None:
    """Run all checks, or those named on the command line, and end the process.

    Args:
        after: called after every check.
    """
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    checkout, out, *chosen = sys.argv[1:]
    use_slime(checkout)
    results = {}
    for name in chosen or checks:
        try:
            checks[name]()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
        after()
        print(name, "failed" if results[name] else "passed", flush=True)
    Path(out).write_text(json.dumps(results), "utf-8")
    os._exit(0)  # slime keeps threads alive
