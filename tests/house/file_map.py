"""Writes docs/internals/files.md: each module with the first sentence of its docstring.

`PYTHONPATH=tests python -m house.file_map` writes the page anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from house.repo import PACKAGE, ROOT, sources, tree_of

PAGE = ROOT / "docs" / "internals" / "files.md"
MAX_NAMES = 6  # of a module
HEAD = """# All files

Written by `PYTHONPATH=tests python -m house.file_map` from the docstrings of the modules, with
their classes or functions. Search this page to find the file that a change belongs to;
[architecture.md](architecture.md) says how the packages fit together.
"""


def summary(module: ast.Module) -> str:
    """The first sentence of a module's docstring, in one line."""
    line = " ".join((ast.get_docstring(module) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s", line)[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def names(module: ast.Module) -> str:
    """The public classes, and the public functions of a module without classes."""
    classes = [d.name for d in module.body if isinstance(d, ast.ClassDef)]
    functions = [d.name for d in module.body if isinstance(d, ast.FunctionDef)]
    public = [f"`{name}`" for name in classes or functions if not name.startswith("_")]
    more = [f"{len(public) - MAX_NAMES} more"] if len(public) > MAX_NAMES else []
    return f" ({', '.join(public[:MAX_NAMES] + more)})" if public else ""


def lines() -> Iterator[str]:
    """The lines of the page behind its head."""
    folder = None
    for path in sources():
        name, module = path.relative_to(ROOT), tree_of(path)
        if name.parts[0] not in PACKAGE or not ast.get_docstring(module):
            continue
        if name.parent != folder:
            folder = name.parent
            yield f"\n## {folder.as_posix()}\n"
        if path.stem != "__init__":
            yield f"- `{name.name}`: {summary(module)}{names(module)}"


def page() -> str:
    """The text of the page."""
    return HEAD + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
