"""Lets real slime be imported on a CPU machine: empty stand-ins for packages that are not there.

slime imports sglang and friends at the top of its modules, while the code driven by these tests
never calls into them. Installed packages always win: the finder comes last.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

ABSENT = ("sglang", "wandb", "torch_memory_saver", "megatron.training", "mbridge")


class Module(types.ModuleType):
    """Any public attribute is a class that can be called, subclassed and used as a decorator."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if any(fullname == name or fullname.startswith(name + ".") for name in ABSENT):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install() -> None:
    sys.meta_path.append(_Finder())
