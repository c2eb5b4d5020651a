"""The findings, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spader_slime.doctor.findings import Finding, Severity

LOG_WIDTH = 160  # columns, where the output goes to a file
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.OK: "green"}


def counted(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings of each severity."""
    found = Counter(finding.severity for finding in findings)
    return {severity.value: found[severity] for severity in Severity}


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """`{"findings": [{"severity", "what", "value", "advice", "theme"}], "counts": {..}}`."""
    listed = [{**asdict(f), "severity": f.severity.value} for f in findings]
    return {"findings": listed, "counts": counted(findings)}


def show(findings: Sequence[Finding], console: Console | None = None) -> None:
    """Print a table in the order of the checks, and a summary."""
    console = console or Console()
    if not console.is_terminal:
        console.width = LOG_WIDTH
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "check", "what", "found", "what to do"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = Text(finding.severity.value, STYLES[finding.severity])
        cells = (finding.theme, finding.what, finding.value, finding.advice)
        table.add_row(mark, *map(Text, cells))
    console.print(table)
    console.print(Text(_summary(counted(findings))))


def _summary(counts: dict[str, int]) -> str:
    errors, warnings = counts["error"], counts["warning"]
    if not errors and not warnings:
        return f"All is well: {counts['ok']} checks."
    verdict = "Correct the errors before you start." if errors else "Nothing stops the run."
    return f"{errors} error(s), {warnings} warning(s). {verdict}"
