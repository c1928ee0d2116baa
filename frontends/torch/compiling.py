"""`torch.compile`, which is `fw.compile`, and stand-ins for TorchScript."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .base.package import fw


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: Any = None,
            backend: Any = None, mode: Any = None, options: Any = None, disable: bool = False
            ) -> Any:
    """`model`, a function or a module, compiled; without it a decorator.

    backend, mode and options have no effect.
    """
    if disable:
        return model if model is not None else lambda fn: fn
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic)
    return fw.compile(model, fullgraph=fullgraph)


def _as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    return function


jit = SimpleNamespace(script=_as_it_is, trace=_as_it_is, ignore=_as_it_is, export=_as_it_is,
                      unused=_as_it_is, is_scripting=lambda: False, is_tracing=lambda: False)
"""Functions run as they are: there is no TorchScript."""


def _identity(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


compiler = SimpleNamespace(disable=_as_it_is, is_compiling=lambda: False, reset=lambda: None)
