"""Checks of a training run before it takes GPUs: `spader-slime doctor` (docs/doctor.md)."""

from __future__ import annotations

from spader_slime.doctor.findings import Finding, Severity
from spader_slime.doctor.run import examine

__all__ = ["Finding", "Severity", "examine"]
