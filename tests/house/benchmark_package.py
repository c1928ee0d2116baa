"""Imports the benchmarks, which lie outside of the installed package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from house.repo import ROOT


def benchmark_module(name: str) -> ModuleType:
    """The module `benchmarks.<name>` of the repository."""
    if "benchmarks" not in sys.modules:
        folder = ROOT / "benchmarks"
        spec = importlib.util.spec_from_file_location(
            "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec and spec.loader
        sys.modules["benchmarks"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return importlib.import_module(f"benchmarks.{name}")
