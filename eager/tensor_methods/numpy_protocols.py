"""NumPy's functions on tensors: `np.exp(x)`, `array + x`, `np.mean(x, axis=0)` are tensors.

Which function of ours stands for one of NumPy's is not listed here. NumPy has the Array API's names
as well as its own, so ours is the one whose name finds NumPy's function: `np.acos` is `np.arccos`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import DTypeError

_CURE = "np.asarray(x) gives NumPy the values of a tensor x"


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """The values as a NumPy array: read-only, or a copy where `dtype` or `copy` needs one."""
    return np.array(self.numpy(), dtype=dtype, copy=copy)


def buffer(self: Tensor, flags: int) -> memoryview:
    """The values as memory that can be read (`memoryview(x)`, from Python 3.12 on)."""
    return memoryview(self.numpy())


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """What NumPy's function `ufunc` is for tensors: our function of the same meaning."""
    name = ufunc.__name__
    if method != "__call__":
        raise DTypeError(f"np.{name}.{method}: tensors do not take this form of np.{name}", _CURE)
    if "out" in options:
        raise DTypeError(f"np.{name}: a tensor's values cannot be written into an array with out= "
                         "or array += x", f"write array = array + x, or: {_CURE}")
    function = next(iter(_functions().get(ufunc, ())), None)
    if function is None:
        raise DTypeError(f"np.{name}: there is no such function of tensors", _CURE)
    for option in options:
        if option not in _parameters(function):
            raise DTypeError(f"np.{name}: {option}= is not taken for tensors", _CURE)
    return function(*inputs, **options)


def array_function(
    self: Tensor, function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Our function of the same meaning where it takes these options; else NumPy's, on arrays."""
    for ours in _functions().get(function, ()):
        bound = _bound(ours, function, args, options)
        if bound is not None:
            return ours(*bound[0], **bound[1])
    return function(*_arrays(args), **_arrays(options))


def _arrays(x: Any) -> Any:
    """`x` with arrays in the place of tensors, in tuples, lists and dicts too."""
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    return type(x)(map(_arrays, x)) if type(x) in (tuple, list) else x


def _bound(
    ours: Callable[..., Any], function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments for `ours`, by the names that they have in NumPy; None where it takes others.

    The first one is the array and goes by place. `np.split(x, indices_or_sections)` is not ours,
    which takes `sizes`.
    """
    known = _parameters(ours)
    theirs = _parameters(function, known)
    if not theirs or not known or not 1 <= len(args) <= len(theirs):
        return None
    named = {**dict(zip(list(theirs)[1:], args[1:])), **options}
    first, *others = known.values()
    needed = {p.name for p in others if p.default is p.empty}
    if not needed <= set(named) <= set(known) - {first.name}:
        return None
    placed = [named.pop(p.name) for p in others if p.kind is p.POSITIONAL_ONLY and p.name in named]
    return [args[0], *placed], named


def _parameters(function: Any, unknown: Any = None) -> dict[str, inspect.Parameter]:
    """The parameters with names of their own; none where an open number of arrays comes first.

    `unknown` where the function has no signature, as some written in C in older NumPy.
    """
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return unknown or {}
    if any(p.kind is p.VAR_POSITIONAL for p in found.values()):
        return {}
    return {name: p for name, p in found.items() if p.kind is not p.VAR_KEYWORD}


@cache
def _functions() -> dict[Any, list[Callable[..., Any]]]:
    """Ours by NumPy's. `rint`, which rounds, is the only one that has no name of the standard's."""
    package: Any = sys.modules[__name__.partition(".")[0]]
    found: dict[Any, list[Any]] = {np.rint: [package.round]}
    for theirs, ours in ((np, package), (np.linalg, package.linalg), (np.fft, package.fft)):
        for name, function in vars(ours).items():
            if callable(getattr(theirs, name, None)):
                found.setdefault(getattr(theirs, name), []).append(function)
    return found
