"""Files stay short enough to read, functions short enough to see at once."""

from __future__ import annotations

import ast

from house.repo import ROOT, files, sources, tree_of

MAX_FILE, MAX_FUNCTION, MAX_WIDTH = 500, 60, 100


def test_files() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_bytes().splitlines()) for p in sources()}
    assert {name: n for name, n in lengths.items() if n > MAX_FILE} == {}


def test_functions() -> None:
    long = [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for path in sources() for node in ast.walk(tree_of(path))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION]
    assert long == []


def test_width() -> None:
    wide = [f"{path.relative_to(ROOT)}:{number}"
            for path in files() if path.suffix == ".py"
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if len(line) > MAX_WIDTH]
    assert wide == []
