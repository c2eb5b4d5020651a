"""The table of variables in docs/cluster.md against the launch scripts."""

from __future__ import annotations

import re

import pytest
from docs.pages import ROOT, rows

LAUNCH = ROOT / "launch"
SCRIPTS = [
    LAUNCH / "lib.sh",
    *sorted((LAUNCH / "lib").glob("*.sh")),
    *sorted(LAUNCH.glob("run-*.sh")),
    LAUNCH / "slurm" / "spader.sbatch",
    *sorted((LAUNCH / "eopd").glob("*.sh")),
]
USE = re.compile(r"\$\{([A-Z][A-Z0-9_]+):?[=-]((?:\$\{[^}]*\}|[^}])*)\}")
RUN = re.compile(r"run-|\d-")  # the scripts of one run, which have defaults of their own
INNER = {  # set by the scripts themselves or by Slurm, or a script's words on a missing file
    "SLURM_NNODES", "SLURM_NODEID", "SLURM_JOB_NODELIST", "SLURM_SUBMIT_DIR", "REF_LOAD_HINT",
    "TRAIN_DATA_HINT", "CUDA_VISIBLE_DEVICES",
}  # fmt: skip
EXPERTS_ONLY = {"ROUTING_REPLAY", "CPU_OFFLOAD"}  # the one script that reads them has the default
HEADINGS = (
    "### Model, data, places", "### Nodes", "### Which GPUs, how split", "### Training",
    "### Fine-tuning and teacher", "### Slurm only",
)  # fmt: skip


def in_scripts() -> dict[str, list[str]]:
    """Every variable that a caller may set -> its defaults as the shared scripts write them."""
    found: dict[str, list[str]] = {}
    for script in SCRIPTS:
        code = re.sub(r"^\s*#.*$", "", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, default in USE.findall(code):
            if name not in INNER:
                own = not RUN.match(script.name) or name in EXPERTS_ONLY
                found.setdefault(name, []).extend([default] if own else [])
    return found


@pytest.fixture(scope="module")
def table() -> dict[str, str]:
    """Variable -> the cell of its default."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    listed: dict[str, str] = {}
    for heading in HEADINGS:
        for names, default, _ in rows(page, heading):
            listed |= dict.fromkeys(re.findall(r"`(\w+)`", names), default)
    return listed


def test_the_table_lists_every_variable_and_no_other(table: dict[str, str]) -> None:
    assert set(table) == set(in_scripts())


def test_plain_defaults_are_those_of_the_scripts(table: dict[str, str]) -> None:
    plain = {n: d[0] for n, d in in_scripts().items() if d and d[0] and "$" not in d[0]}
    wrong = {n: (d, table[n]) for n, d in plain.items() if f"`{d}`" not in table[n]}
    assert wrong == {} and len(plain) > 30


def test_variables_used_in_the_page_exist(table: dict[str, str]) -> None:
    for page in ("docs/cluster.md", "docs/tuning.md", "examples/qampari/README.md", "README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        used = set(re.findall(r"\b([A-Z][A-Z_]{2,})=", text)) - {"NAME"}
        assert used - set(table) <= {"WANDB_API_KEY", "CUDA_VISIBLE_DEVICES"}, page
