"""Writes configuration.md and commands.md from the code: `python docs/reference.py`.

Keys, defaults and ranges come from the dataclasses, meanings from the comments beside them.
"""

from __future__ import annotations

import argparse
import inspect
import io
import math
import tokenize
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from spader_slime.cli import make_parser
from spader_slime.config import SpaderConfig
from spader_slime.local.settings import TrainConfig

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/reference.py: change the code, then run it again. -->\n\n"


def comments(schema: type) -> dict[str, str]:
    """Field -> the comment on its line or, where that has none, on the lines above it."""
    source = inspect.getsource(schema)
    lines = source.splitlines()
    found: dict[str, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            before = lines[token.start[0] - 1][: token.start[1]]
            if ":" in before:
                found[before.split(":")[0].strip()] = token.string.lstrip("# ")
    return found


def allowed(item: Field[Any]) -> str:
    """`[0, 1]`, `a, b`, or nothing."""
    if "one_of" in item.metadata:
        return ", ".join(f"`{value}`" for value in item.metadata["one_of"])
    low, high = item.metadata.get("range", (-math.inf, math.inf))
    if (low, high) == (-math.inf, math.inf):
        return ""
    if high == math.inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -math.inf else f"{low:g} to {high:g}"


def shown(value: Any) -> str:
    """A default as YAML writes it."""
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def tables(node: Any, name: str) -> Iterator[str]:
    """A section for `node` and one for every section inside it."""
    said = comments(type(node))
    plain = [item for item in fields(node) if not is_dataclass(getattr(node, item.name))]
    yield f"## {name}\n\n{(inspect.getdoc(type(node)) or '').strip()}\n"
    if plain:
        rows = ["| key | default | allowed | |", "| --- | --- | --- | --- |"]
        rows += [
            f"| `{item.name}` | `{shown(getattr(node, item.name))}` | {allowed(item)} "
            f"| {said.get(item.name, '')} |".replace("  |", " |")
            for item in plain
        ]
        yield "\n".join(rows) + "\n"
    for item in fields(node):
        if is_dataclass(getattr(node, item.name)):
            yield from tables(getattr(node, item.name), f"{name}.{item.name}".removeprefix("."))


def configuration() -> str:
    """All keys: `spader:` on a cluster, and the rest of a single-machine run's file."""
    run = TrainConfig()
    parts = [f"{NOTE}# Configuration\n"]
    parts.append(
        "On a cluster the file of `--custom-config-path` has the one key `spader:`. A file for\n"
        "`spader-slime train` has it too, and beside it what slime's and Megatron's flags say\n"
        "there. A wrong key or value is answered with its name, the value and what is allowed.\n"
    )
    parts += tables(SpaderConfig(), "spader")
    for item in fields(run):
        if item.name != "spader":
            parts += tables(getattr(run, item.name), item.name)
    return "\n".join(parts)


def commands() -> str:
    """Every command with its arguments."""
    parts = [f"{NOTE}# Commands\n"]
    for name, parser in sorted(subcommands(make_parser())):
        about = (parser.description or "").strip()
        parts.append(f"## spader-slime {name}\n\n{about[:1].upper()}{about[1:]}.\n")
        rows = [row for action in parser._actions if (row := argument(action))]
        if rows:
            parts.append("\n".join(["| argument | |", "| --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def argument(action: argparse.Action) -> str:
    """A table row: how it is written, and what it does; nothing for --help and commands."""
    other = action.dest == "rest" or isinstance(action, argparse._SubParsersAction)
    if "--help" in action.option_strings or other:
        return ""
    word = action.metavar or (action.dest if not action.option_strings else action.dest.upper())
    word = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else str(word)
    takes = "" if action.nargs == 0 else f" {word}"
    name = f"{', '.join(action.option_strings)}{takes}".strip()
    about = str(action.help or "")
    silent = action.default is None or action.default is False or action.default == []
    if not silent and action.option_strings and "default" not in about:
        about = f"{about} (default: {action.default})".strip()
    cells = f"`{name}`{' (required)' if required(action) else ''}", about
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |".replace("|  |", "| |")


def required(action: argparse.Action) -> bool:
    return bool(action.option_strings and action.required)


def subcommands(
    parser: argparse.ArgumentParser, prefix: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """(`data convert`, its parser) for everything in the command tree that can be called."""
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if prefix and (not found or parser.get_default("run")):
        yield prefix, parser
    for action in found:
        for name, child in action.choices.items():
            yield from subcommands(child, f"{prefix} {name}".strip())


PAGES = {"configuration.md": configuration, "commands.md": commands}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
