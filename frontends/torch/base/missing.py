"""Names that a module of the front end does not have yet: submodules, and errors for others."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ....eager.front.hints import MissingNameError

_PAGE = "docs/appendix/coverage.md lists what there is"


def getattr_of(module_name: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: a submodule, which is imported when it is first used, or an
    error with the nearest name."""
    public = "torch" + module_name.partition("frontends.torch")[2]

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        if hasattr(sys.modules[module_name], "__path__") and find_spec(f"{module_name}.{name}"):
            return import_module(f"{module_name}.{name}")
        known = [n for n in vars(sys.modules[module_name]) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, 2, 0.75)
        hint = f"is it {' or '.join(f'{public}.{n}' for n in near)}? {_PAGE}" if near else _PAGE
        raise MissingNameError(f"fusewire.{public}", name, lambda: hint)

    return missing
