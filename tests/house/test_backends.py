"""Back ends enter by registration: generic code names no device's library and no upper layer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusewire.codegen.backend import backend_of, code_kinds
from fusewire.eager.upper_layer import UPPER, Upper, register
from house.repo import ROOT, sources, tree_of

CUDA_FOLDERS = ("codegen/cuda", "eager/cuda")
"""The folders that know CUDA: its back end, and what eager needs of it."""

CUDA_NAMES = re.compile(r"cupy|nvrtc|f[\"']cuda:\{", re.IGNORECASE)


def generic_sources() -> list[Path]:
    """The files of the package outside of the folders that know CUDA."""
    return [path for path in sources()
            if not path.relative_to(ROOT).as_posix().startswith(CUDA_FOLDERS)]


def named(text: str) -> list[str]:
    """What a text names of CUDA."""
    return CUDA_NAMES.findall(text)


def filled(tree: ast.Module) -> Iterator[str]:
    """Assignments of a module, while it is imported, to variables of other modules of ours."""
    ours = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom)
            and (node.level or (node.module or "").startswith("fusewire")) for alias in node.names}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else \
            [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
        for target in targets:
            root = target
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if root is not target and isinstance(root, ast.Name) and root.id in ours:
                yield ast.unparse(target)


def test_only_the_folders_of_cuda_name_it() -> None:
    found = {path.relative_to(ROOT).as_posix(): names for path in generic_sources()
             if (names := named(path.read_text()))}
    assert found == {}


def test_no_import_fills_a_variable_of_another_module() -> None:
    found = {path.relative_to(ROOT).as_posix(): names for path in sources()
             if (names := [*filled(tree_of(path))])}
    assert found == {}


@pytest.mark.parametrize(("source", "names"), [
    ("from ..core import dispatch\ndispatch.large = run", ["dispatch.large"]),
    ("from .a import KINDS\nKINDS['c'] = show", ["KINDS['c']"]),
    ("from .a import b\nb.c.d: int = 1", ["b.c.d"]),
    ("import numpy as np\nnp.x = 1", []),
    ("from .a import b\ndef f():\n    b.c = 1", []),
    ("a = {}\na['x'] = 1", []),
])
def test_the_check_sees(source: str, names: list[str]) -> None:
    assert [*filled(ast.parse(source))] == names


@pytest.mark.parametrize(("text", "names"), [
    ("import cupy", ["cupy"]), ("CuPy's", ["CuPy"]), ('f"cuda:{i}"', ['f"cuda:{']),
    ('"cuda:0", "cuda"', []),
])
def test_a_name_is_found(text: str, names: list[str]) -> None:
    assert named(text) == names


def test_each_function_of_an_upper_layer_says_what_it_is_for() -> None:
    assert {name for name in Upper.__annotations__ if f"`{name}`" not in (Upper.__doc__ or "")} \
        == set()
    with pytest.raises(TypeError, match="no lower layer calls nonsense"):
        register(nonsense=1)
    assert not hasattr(UPPER, "nonsense")


def test_the_back_ends_of_the_package() -> None:
    assert "cuda" in code_kinds()
    assert backend_of("cpu") is not backend_of("cuda:1") is backend_of("cuda:0")
