"""Reads the `dynamic=` argument: the sizes that are symbols from the first call on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...eager.arrays.shapes import axis_of
from ...eager.core.tensor import Tensor
from ...eager.errors import ArgumentError
from ..heap.access_path import Path

Dynamic = bool | Mapping[Any, Any] | None
DynamicAxis = tuple[Path, int,
                    str]  # of a tensor: path, axis, and the name of its size or ""


def check_dynamic(dynamic: Dynamic, fn: Callable[..., Any]) -> None:
    """Raises ArgumentError if `dynamic` is malformed or names no argument of `fn`."""
    if dynamic is None or isinstance(dynamic, bool):
        return
    help = 'dynamic=True, or {"x": [0]}: axes by the names of arguments'
    if not isinstance(dynamic, Mapping):
        raise ArgumentError(f"dynamic={dynamic!r} is not True, False or axes of arguments", help)
    parameters = _parameters(fn)
    for name in dynamic:
        if isinstance(name, str) and parameters is not None and name not in parameters:
            raise ArgumentError(f"dynamic names {name!r}, which is not an argument: the "
                                f"arguments are {', '.join(parameters) or 'none'}", help)


def requested_axes(dynamic: Dynamic, fn: Callable[..., Any], args: Any,
                   kwargs: Any) -> Iterator[DynamicAxis]:
    """The axes of this call's tensors that `dynamic` selects."""
    for path, name, tensor in _tensors(fn, args, kwargs) if dynamic else ():
        if isinstance(dynamic, Mapping):
            axes = dynamic.get(name, ())
        else:
            axes = range(tensor.ndim)
        for axis in axes:
            own = axes[axis] if isinstance(axes, Mapping) else ""
            yield path, axis_of(f"dynamic: argument {name}", axis, tensor.ndim), own


def _parameters(fn: Callable[..., Any]) -> list[str] | None:
    """The names of the parameters; None if the function takes any keyword."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else names


def _tensors(fn: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[tuple[Path, Any, Tensor]]:
    """(path, name, tensor) of the tensor arguments; a position stands for a missing name."""
    names = _parameters(fn) or []
    for i, value in enumerate(args):
        if isinstance(value, Tensor):
            yield Path("args").item(i), names[i] if i < len(names) else i, value
    for name, value in kwargs.items():
        if isinstance(value, Tensor):
            yield Path("kwargs").item(name), name, value
