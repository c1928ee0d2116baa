"""Packages are stages: few files in each folder, and no cycle of imports among packages."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import pytest

from house.repo import PACKAGE, imports, module_name, sources, tree_of

MOST_FILES = 20
STAGED = ("eager", "capture", "codegen",
          "export", "frontends")  # folders whose packages are stages of the pipeline


def is_staged(module: str) -> bool:
    """True for a module of one of the staged folders."""
    return module.split(".")[1:2] != [] and module.split(".")[1] in STAGED


def without_type_checking(tree: ast.Module) -> ast.Module:
    """The module without the imports that only type checkers run."""
    body = [node for node in tree.body
            if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))]
    return ast.Module(body, [])


def edges_among_packages() -> dict[str, set[str]]:
    """For every staged package, the staged packages from which it imports at run time."""
    modules = {module_name(path): path for path in sources()}
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    edges: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        if not is_staged(name):
            continue
        own = name if name in packages else name.rpartition(".")[0]
        for _, target in imports(without_type_checking(tree_of(path)), path):
            while target not in modules:
                target = target.rpartition(".")[0]
            other = target if target in packages else target.rpartition(".")[0]
            if other != own and is_staged(other):
                edges[own].add(other)
    return edges


def cycle_in(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """The packages of one cycle, or an empty list."""
    done: set[str] = set()

    def visit(package: str, path: list[str]) -> list[str]:
        if package in path:
            return [*path[path.index(package):], package]
        if package in done:
            return []
        for other in sorted(edges.get(package, ())):
            if found := visit(other, [*path, package]):
                return found
        done.add(package)
        return []

    return next((found for package in sorted(edges) if (found := visit(package, []))), [])


def test_packages_have_no_cycle() -> None:
    edges = edges_among_packages()
    assert len(edges) > 30
    assert cycle_in(edges) == []


@pytest.mark.parametrize("folder", [f for f in PACKAGE if f in STAGED])
def test_no_folder_has_many_files(folder: str) -> None:
    counts = Counter(path.parent for path in sources() if folder in path.parts)
    assert {str(parent): n for parent, n in counts.items() if n > MOST_FILES} == {}


def test_every_stage_says_what_it_is() -> None:
    silent = [module_name(path) for path in sources() if path.name == "__init__.py"
              and is_staged(module_name(path)) and module_name(path).count(".") > 1
              and not ast.get_docstring(tree_of(path))]
    assert silent == []


def test_a_cycle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) == []
