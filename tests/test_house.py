"""House rules that a program can check (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "spader_slime"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 220  # lines of a file; we aim at 150
SLIME_FILES = {"adapter.py"}

# From the ground up; a part may import its own level and those below.
LEVELS = (
    {"errors", "config", "episode", "files"},
    {"algorithms", "retrieval", "data", "scorings"},
    {"agent", "megatron", "metrics", "record", "replay"},
    {"runtime", "adapter", "loss_options", "teaching", "hooks"},
    {"local", "report", "evaluation", "checkpoints", "doctor"},
    {"show", "ask", "trajectory"},
    {"commands"},
    {"cli"},
)
FORBIDDEN = {  # what a part must never import, wherever it stands
    "algorithms": {"slime", "megatron", "ray", "sglang", "aiohttp", "urllib", "http", "requests"},
    "agent": {"slime", "megatron", "ray", "sglang"},
    "checkpoints": {"slime", "megatron", "ray", "sglang", "aiohttp"},
    "megatron": {"slime", "ray", "sglang", "aiohttp"},
    "retrieval": {"slime", "megatron", "ray", "sglang", "torch"},
}


def imports(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Dotted names that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def part(name: str) -> str:
    """`spader_slime.local.host` -> `local`."""
    return [*name.split("."), ""][1]


def own_part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def level(name: str) -> int:
    found = [number for number, parts in enumerate(LEVELS) if name in parts]
    assert found, f"spader_slime.{name} has no place in LEVELS"
    return found[0]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_stay_short() -> None:
    files = [*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    lengths = {relative(p): len(p.read_text(encoding="utf-8").splitlines()) for p in files}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_arrows_point_down() -> None:
    wrong = []
    for path in SOURCES:
        own = own_part(path)
        if own == "__init__":
            continue
        for name, node in imports(path):
            if name.startswith("spader_slime.") and level(part(name)) > level(own):
                wrong.append(f"{relative(path)}:{node.lineno} {name}")  # type: ignore[attr-defined]
    assert wrong == []


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_layers_know_nothing_of_what_is_not_theirs(layer: str) -> None:
    wrong = [
        f"{relative(path)} {name}"
        for path in SOURCES
        if own_part(path) == layer
        for name, _ in imports(path)
        if name.split(".")[0] in FORBIDDEN[layer]
    ]
    assert wrong == []


def test_only_the_adapter_knows_slime() -> None:
    knowing = {
        path.name for path in SOURCES for name, _ in imports(path) if name.split(".")[0] == "slime"
    }
    assert knowing <= SLIME_FILES


def test_names_of_test_files_are_unique() -> None:
    """pytest takes files of one name in two folders for the same module, and runs nothing."""
    counted = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in counted.items() if count > 1] == []


def test_hooks_are_short() -> None:
    """Unpack, call, write back: no more than 15 lines of statements."""
    tree = ast.parse((PACKAGE / "hooks.py").read_text(encoding="utf-8"))
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert len(functions) >= 4
    lengths = {f.name: len(statement_lines(f)) for f in functions}
    assert {name: n for name, n in lengths.items() if n > 15} == {}


def statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """Lines of the body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return {line for s in body for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


# Places of one machine, and package indexes other than PyTorch's public one.
MACHINE = re.compile(
    r"(?<![\w.])/(?:root|home/\w+|Users/\w+|opt/\w+|work/\w+)/|pypi\.org|pythonhosted|npmjs"
    r"|artifactory|index-url\s+(?!https://download\.pytorch\.org/whl/cpu)\S"
)


def test_nothing_names_a_machine_or_a_registry() -> None:
    wrong = []
    for path in tracked():
        if path == Path(__file__) or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [f"{relative(path)}: {found[0]}" for found in MACHINE.finditer(text)]
    assert wrong == []


def test_the_base_install_is_light() -> None:
    """What slime's processes install must not drag torch or an engine along."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    base = text[text.index("HOOKS = [") : text.index("]", text.index("HOOKS = ["))]
    heavy = ("torch", "sglang", "transformers", "megatron")
    assert [name for name in heavy if name in base] == []
