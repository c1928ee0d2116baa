"""Writes stubs for public modules that lie elsewhere: by them, type checkers and editors find the
module of `import fusewire.nn.functional as F`, which the package makes when it is imported.

    PYTHONPATH=tests python -m house.public_stubs
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from fusewire.eager.front.public_modules import MODULES, SECOND_NAMES
from house.repo import ROOT

# Those with modules below them. A stub of another one, such as random.pyi, would be taken for the
# standard library's module by an editor whose folder is this repository.
PACKAGES = ("nn", "optim", "utils")
FIRST_LINE = "# Written by `PYTHONPATH=tests python -m house.public_stubs`."


def stubs() -> dict[Path, str]:
    """The text of each stub by its path."""
    modules = {path: module for path, module in {**SECOND_NAMES, **MODULES}.items()
               if path.split(".")[0] in PACKAGES}
    return {_file(path, modules): _text(path, module, modules) for path, module in modules.items()}


def _file(path: str, modules: dict[str, ModuleType]) -> Path:
    folder = ROOT.joinpath(*path.split("."))
    below = any(other.startswith(f"{path}.") for other in modules)
    return folder / "__init__.pyi" if below else folder.with_suffix(".pyi")


def _text(path: str, module: ModuleType, modules: dict[str, ModuleType]) -> str:
    below = any(other.startswith(f"{path}.") for other in modules)
    dots = "." * (path.count(".") + (2 if below else 1))
    return f"{FIRST_LINE}\nfrom {dots}{module.__name__.partition('.')[2]} import *\n"


if __name__ == "__main__":
    for file, text in stubs().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
