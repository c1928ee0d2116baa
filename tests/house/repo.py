"""What the house tests share: where the repository is and which files it holds."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("eager", "capture", "codegen", "export", "frontends")  # each may import those before it
PACKAGE = (*LAYERS, "commands", "data", "distributed", "metrics", "models", "serving",
           "training")  # installed folders
NOT_OURS = {"build", "dist", "__pycache__"}         # beside everything hidden or *.egg-info


def project() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files() -> Iterator[Path]:
    """Every file of the repository, without what builds, tools and environments leave there."""
    for folder, inner, names in os.walk(ROOT):
        inner[:] = sorted(name for name in inner if _is_ours(Path(folder), name))
        yield from (Path(folder, name) for name in sorted(names) if name != ".git")  # a worktree's


def _is_ours(folder: Path, name: str) -> bool:
    if name.startswith("."):
        return name in (".ci", ".github")
    return not (name in NOT_OURS or name.endswith(".egg-info")
                or (folder / name / "pyvenv.cfg").exists())


def sources() -> list[Path]:
    """The package's own Python files: the root's and those of its folders."""
    inside = [path for path in files() if path.suffix == ".py"]
    return [p for p in inside if p.parent == ROOT or p.relative_to(ROOT).parts[0] in PACKAGE]


def module_name(path: Path) -> str:
    """The dotted name under which `path` is imported."""
    parts = ("fusewire", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shape_of(text: str) -> str:
    """`text` with every number replaced, since numbers depend on the machine."""
    return re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", text)


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every first-party thing that `tree`, a part of `path`, imports."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *filter(None, [node.module])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "fusewire":
                yield node.lineno, name
