"""Registers tensors with a library as soon as a program imports it, before or after fusewire.

These libraries keep lists of the arrays that they know. Importing them here would make
`import fusewire` slow, so a finder waits for their modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from . import datasets_format, einops_backend

__all__: list[str] = []

Register = Callable[[ModuleType], None]

LIBRARIES: dict[str, Register] = {
    "datasets.formatting": datasets_format.register, "einops._backends": einops_backend.register,
}
"""By the name of a module, the function that is called with it when it has been imported."""


class LibraryFinder:
    """Calls the function of `waiting` for a module once that module has been imported."""

    def __init__(self, waiting: dict[str, Register]) -> None:
        self.waiting = waiting

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module of `waiting`; None for other modules."""
        register = self.waiting.pop(name, None)  # so the search below does not come back here
        spec = find_spec(name) if register else None
        if spec is None or spec.loader is None or register is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Registers with the libraries that are imported, and waits for the others."""
    waiting = dict(LIBRARIES)
    for name in LIBRARIES:
        if name in sys.modules:
            waiting.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, LibraryFinder(waiting))  # type: ignore[arg-type]
