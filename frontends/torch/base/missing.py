"""Errors for names that a module of the front end does not have."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import Any

from ....eager.front.hints import MissingNameError

_PAGE = "docs/appendix/coverage.md lists what there is"


def getattr_of(module_name: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: an error with the nearest name."""
    public = "torch" + module_name.partition("frontends.torch")[2]

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        known = [n for n in vars(sys.modules[module_name]) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, 2, 0.75)
        hint = f"is it {' or '.join(f'{public}.{n}' for n in near)}? {_PAGE}" if near else _PAGE
        raise MissingNameError(f"fusewire.{public}", name, lambda: hint)

    return missing
