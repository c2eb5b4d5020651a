"""From a run's folder to `report.html` and PNG plots."""

from __future__ import annotations

from spader_slime.report.write import write_report

__all__ = ["write_report"]
