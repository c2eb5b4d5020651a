"""slime's real argument parser on the flags of launch scripts.

    python tests/launch/slime_parser.py SLIME_CHECKOUT FLAGS.json OUT.json

FLAGS.json: {name: flags}. Writes {name: what is wrong, or ""}. slime's own `parse_args` runs whole:
its flags, Megatron-LM's (`MEGATRON_SRC`, or installed), the check against the model's config, and
the validation of all three parts. SGLang's flags are real where it can be imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))


def main(checkout: str, flags: dict[str, list[str]]) -> dict[str, str]:
    from launch.parser_stage import set_the_stage

    set_the_stage(checkout)
    arguments: Any = import_module("slime.utils.arguments")
    known = option_names(arguments)
    return {name: faults(arguments, known, words) for name, words in flags.items()}


def option_names(arguments: Any) -> set[str]:
    """Every flag that slime, Megatron or SGLang reads; slime ignores all others."""
    megatron: Any = import_module("megatron.training.arguments")
    sglang: Any = import_module("slime.backends.sglang_utils.arguments")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser = megatron.add_megatron_arguments(parser)
    arguments.get_slime_extra_args_provider()(parser)
    engines = argparse.ArgumentParser(add_help=False)
    sglang.add_sglang_arguments(engines)
    both = [*parser._actions, *engines._actions]
    early = {f"--{name.replace('_', '-')}" for name in vars(arguments._pre_parse_mode())}
    return early | {option for action in both for option in action.option_strings}


def faults(arguments: Any, known: set[str], words: list[str]) -> str:
    """What slime says to one command line."""
    unknown = [word for word in words if word.startswith("--") and word not in known]
    if unknown:
        return f"unknown: {' '.join(unknown)}"
    sys.argv = ["train.py", *words]
    try:
        arguments.parse_args()
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    slime, given, out = sys.argv[1:]
    result = main(slime, json.loads(Path(given).read_text("utf-8")))
    Path(out).write_text(json.dumps(result), "utf-8")
