"""What the doctor says of a setup."""

from __future__ import annotations

from doctor.setups import Setup

from spader_slime.doctor import Finding, Severity, examine


def problems(setup: Setup) -> list[Finding]:
    """Errors and warnings."""
    return [f for f in examine(*setup.write()) if f.severity is not Severity.OK]


def said(findings: list[Finding]) -> str:
    """All of it, for a message."""
    return "\n".join(
        f"{f.severity.value} {f.theme} {f.what} | {f.value} | {f.advice}" for f in findings
    )
