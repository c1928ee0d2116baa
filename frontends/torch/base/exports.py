"""Namespaces of the front end that have the names of a module of `fusewire`."""

from __future__ import annotations

import types
from typing import Any

from ....eager.front.public_modules import public_names
from .tensor_class import retagged


def exported(module: Any) -> dict[str, Any]:
    """The public names of a module; results of its functions have the front end's class."""
    return {name: _of_class(getattr(module, name)) for name in public_names(module)
            if not isinstance(getattr(module, name), types.ModuleType)}


def _of_class(value: Any) -> Any:
    return retagged(value) if isinstance(value, types.FunctionType) else value
