"""Imports run one way, eager <- capture <- codegen <- export <- frontends, and none is hidden."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from house.repo import LAYERS, ROOT, imports, module_name, sources, tree_of

INSIDE = [path for path in sources() if path.relative_to(ROOT).parts[0] in LAYERS]


def layer(name: str) -> int:
    """Position of a module's folder in LAYERS, or -1 for the root package and the commands."""
    part = [*name.split("."), ""][1]
    return LAYERS.index(part) if part in LAYERS else -1


def upward(path: Path) -> list[str]:
    """Imports of `path` that go to a higher folder, to the root package or to the commands."""
    own = layer(module_name(path))
    return [f"{path.relative_to(ROOT)}:{line} imports {name}"
            for line, name in imports(tree_of(path), path)
            if layer(name) > own or layer(name) < 0]


def hidden(path: Path) -> list[str]:
    """First-party imports of `path` that happen inside a function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return [f"{path.relative_to(ROOT)}:{line} imports {name} inside a function"
            for node in ast.walk(tree_of(path)) if isinstance(node, functions)
            for line, name in imports(node, path)]


def test_imports_run_downhill() -> None:
    assert [found for path in INSIDE for found in upward(path)] == []


def test_no_first_party_import_is_hidden_in_a_function() -> None:
    assert sorted({found for path in sources() for found in hidden(path)}) == []


@pytest.mark.parametrize(("source", "found"), [
    ("from ..capture import graph", True),    # a higher folder
    ("from .. import capture", True),
    ("from .. import tensor", True),          # a name of the root package
    ("import fusewire", True),
    ("import fusewire.codegen", True),
    ("from ..commands import main", True),    # what sees all four
    ("from .ops import view", False),
    ("from ..eager.ops import view", False),
    ("import numpy", False),
])
def test_the_check_sees(source: str, found: bool) -> None:
    names = [name for _, name in imports(ast.parse(source), ROOT / "eager" / "x.py")]
    assert any(layer(name) > 0 or layer(name) < 0 for name in names) is found
