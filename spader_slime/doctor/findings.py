"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How bad it is."""

    ERROR = "error"  # the run fails, or trains on something else than was meant
    WARNING = "warning"  # it runs, and probably not as intended
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        severity: error, warning or ok.
        what: flag, key, file or service that was looked at.
        value: what was found there.
        advice: what to do; for ok findings a remark, or empty.
        theme: the check that found it; filled in by the one that runs the checks.
    """

    severity: Severity
    what: str
    value: str
    advice: str = ""
    theme: str = ""


def error(what: str, value: object, advice: str) -> Finding:
    """Something that has to be changed."""
    return Finding(Severity.ERROR, what, str(value), advice)


def warning(what: str, value: object, advice: str) -> Finding:
    """Something to look at."""
    return Finding(Severity.WARNING, what, str(value), advice)


def ok(what: str, value: object, remark: str = "") -> Finding:
    """Something that is as it should be."""
    return Finding(Severity.OK, what, str(value), remark)
