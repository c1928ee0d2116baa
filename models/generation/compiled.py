"""Keeps the compiled functions of each model, so that all its generations share recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import fusewire as fw

from ..pretrained_model import PretrainedModel

Function = Callable[..., Any]
_COMPILED: WeakKeyDictionary[PretrainedModel, dict[Function, Function]] = WeakKeyDictionary()


def compiled_for(model: PretrainedModel, function: Function, dynamic: bool = True) -> Any:
    """The function, compiled once for each model.

    Args:
        model: the model.
        function: takes the model, or what holds it.
        dynamic: True makes all sizes symbols in the first recording, False only those that have
            changed. Default True.
    """
    functions = _COMPILED.setdefault(model, {})
    if function not in functions:
        functions[function] = fw.compile(function, dynamic=dynamic or None)
    return functions[function]
