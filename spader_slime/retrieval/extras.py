"""Packages that only some users need, imported when they are wanted."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spader_slime.errors import DataError


def need(module: str, purpose: str, install: str) -> Any:
    """The module.

    Args:
        purpose: what it is for, as in "reranking".
        install: what pip installs to get it, as in "spader_slime[dense]".

    Raises:
        DataError: it is not installed, or can't be loaded; says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(f"{purpose} needs {module} ({error}): pip install '{install}'") from error
