"""Makes functions from source, in files of their own: traces read the lines of code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def function_of(source: str, folder: Path) -> Any:
    """The function `f` of a module with this source."""
    path = folder / f"made_{abs(hash(source))}.py"
    path.write_text("import fusewire as fw\n\n" + source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f
