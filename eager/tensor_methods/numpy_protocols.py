"""Runs NumPy's functions on tensors: `np.exp(x)`, `array + x`, `np.mean(x, axis=0)` are tensors.

There is no table of functions here. NumPy has the Array API's names beside its own (`np.acos` is
`np.arccos`), so a function of ours is found by the NumPy function of its name.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError

_CURE = "np.asarray(x) gives NumPy the values of a tensor x"


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """The values as a NumPy array: read-only, or a copy where `dtype` or `copy` needs one."""
    return np.array(self.numpy(), dtype=dtype, copy=copy)


def buffer(self: Tensor, flags: int) -> memoryview:
    """The values as memory that can be read (`memoryview(x)`, from Python 3.12 on)."""
    return memoryview(self.numpy())


def addresses(self: Tensor) -> Any:
    """`ctypes` of the array with the values: `x.ctypes.data` is the address of the first one.

    Raises:
        ShapeError: the elements do not lie side by side, so the memory behind it is not the values.
    """
    values = self.numpy()
    if not values.flags.c_contiguous:
        raise ShapeError("x.ctypes: the elements of this view do not lie side by side in memory",
                         "take them from a copy: y = fw.asarray(x, copy=True), then y.ctypes")
    return values.ctypes


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """The result of our function that has the meaning of NumPy's function `ufunc`."""
    name = ufunc.__name__
    if method != "__call__":
        raise DTypeError(f"np.{name}.{method}: tensors do not support this method of np.{name}",
                         _CURE)
    if "out" in options:
        raise DTypeError(f"np.{name}: a tensor's values cannot be written into an array with out= "
                         "or array += x", f"write array = array + x, or: {_CURE}")
    function = next(iter(_functions().get(ufunc, ())), None)
    if function is None:
        raise DTypeError(f"np.{name}: there is no function of tensors with this meaning", _CURE)
    for option in options:
        if option not in _parameters(function):
            raise DTypeError(f"np.{name}: tensors do not support the option {option}=", _CURE)
    return function(*inputs, **options)


def array_function(
    self: Tensor, function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """The result of our function of the same meaning, or of NumPy's on arrays.

    NumPy's runs where ours does not take these options.
    """
    for ours in _functions().get(function, ()):
        bound = _bound(ours, function, args, options)
        if bound is not None:
            return ours(*bound[0], **bound[1])
    return function(*_arrays(args), **_arrays(options))


def _arrays(x: Any) -> Any:
    """`x` with tensors replaced by arrays, in tuples, lists and dicts too."""
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    return type(x)(map(_arrays, x)) if type(x) in (tuple, list) else x


def _bound(
    ours: Callable[..., Any], function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments for `ours`, by their names in NumPy; None if `ours` has other names.

    The first argument is the array and is positional. `np.split(x, indices_or_sections)` does not
    fit, since our split takes `sizes`.
    """
    ours_by_name = _parameters(ours)
    theirs_by_name = _parameters(function, ours_by_name)
    if not theirs_by_name or not ours_by_name or not 1 <= len(args) <= len(theirs_by_name):
        return None
    named = {**dict(zip(list(theirs_by_name)[1:], args[1:])), **options}
    first, *others = ours_by_name.values()
    needed = {p.name for p in others if p.default is p.empty}
    if not needed <= set(named) <= set(ours_by_name) - {first.name}:
        return None
    positional = [named.pop(p.name) for p in others
                  if p.kind is p.POSITIONAL_ONLY and p.name in named]
    return [args[0], *positional], named


def _parameters(function: Any, unknown: Any = None) -> dict[str, inspect.Parameter]:
    """The named parameters of a function; none if it takes any number of arrays.

    `unknown` for a function without a signature: some written in C have none in older NumPy.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return unknown or {}
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return {}
    return {name: p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}


@cache
def _functions() -> dict[Any, list[Callable[..., Any]]]:
    """Our functions by NumPy's function. Only `rint`, which rounds, has no name in the standard."""
    package: Any = sys.modules[__name__.partition(".")[0]]
    functions: dict[Any, list[Any]] = {np.rint: [package.round]}
    for theirs, ours in ((np, package), (np.linalg, package.linalg), (np.fft, package.fft),
                         (np.lib.stride_tricks, package.lib.stride_tricks)):
        for name, function in vars(ours).items():
            if callable(getattr(theirs, name, None)):
                functions.setdefault(getattr(theirs, name), []).append(function)
    return functions
