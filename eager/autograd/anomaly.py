"""Implements anomaly mode, which names the line of the forward behind a backward's first NaN."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import interpreter
from ..arrays.dtypes import kind
from ..core.lazy import array_of
from ..core.observer import ObserverInterpreter
from ..core.op import Op
from ..core.tape import Entry, extra_of
from ..core.tensor import Tensor
from ..errors import GradientError, user_line
from ..ops.elementwise import pointwise

__all__ = ["detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"]


class _Watching(threading.local):
    on = False
    check_nan = True
    watcher: Any = None


WATCHING = _Watching()


def is_anomaly_enabled() -> bool:
    """True if this thread is inside of `detect_anomaly`.

    Example:
        >>> import fusewire as fw
        >>> fw.autograd.is_anomaly_enabled()
        False
    """
    return WATCHING.on


class _Watcher(ObserverInterpreter):
    """Notes the user's line of each entry, and the op that computed the first NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def saw(self, op: Op, inputs: tuple[Any, ...], out: Tensor) -> None:
        line = user_line()
        if type(out.edge) is Entry and not hasattr(out.edge, "extra"):
            extra_of(out.edge).site = line
        if not self.first and has_nan(out):
            if not any(isinstance(x, Tensor) and has_nan(x) for x in inputs):
                self.first = f"{op.name}{_shapes(inputs)} at {line}"


class set_detect_anomaly:
    """Switches anomaly mode on or off from here on, or within a context.

    Args:
        mode: True for on.
        check_nan: raises an error for a gradient with a NaN; False only notes lines. Default True.

    Example:
        >>> import fusewire as fw
        >>> with fw.autograd.set_detect_anomaly(True):
        ...     fw.autograd.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (WATCHING.on, WATCHING.check_nan, WATCHING.watcher)
        if WATCHING.watcher is not None:
            _leave()
        self._watcher = _Watcher().__enter__() if mode else None
        WATCHING.on, WATCHING.check_nan, WATCHING.watcher = mode, check_nan, self._watcher

    def __enter__(self) -> set_detect_anomaly:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._watcher is not None:
            self._watcher.__exit__()
        WATCHING.on, WATCHING.check_nan, WATCHING.watcher = self._before
        if WATCHING.watcher is not None:
            WATCHING.watcher.__enter__()


class detect_anomaly(set_detect_anomaly):
    """A context in which a gradient with a NaN is an error that names the line of the forward.

    It is slow, for debugging only. Compiled functions run eagerly.

    Args:
        check_nan: False only notes lines. Default True.

    Raises:
        GradientError: in backward, at the first op whose gradient has a NaN.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(0.0, requires_grad=True)
        >>> with fw.autograd.detect_anomaly():
        ...     y = x.sqrt() * 0.0
        ...     y.backward()
        Traceback (most recent call last):
        ...
        fusewire.eager.errors.GradientError: backward: the gradient of sqrt(float32[]) is nan ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)


def _leave() -> None:
    here: Any = interpreter.STATE.active
    if here is WATCHING.watcher:  # else the interpreter above it also leaves this one
        here.__exit__()


def watched(step: Callable[..., None]) -> Callable[..., None]:
    """`step` through an entry, with an error if it computes a gradient with a NaN."""

    def checked(edge: Any, g: Any, sums: dict[Any, Any], useful: Any, keep: bool) -> None:
        earlier = {e: sums.pop(e) for e in {*edge.edges} if isinstance(sums.get(e), Tensor)}
        arrays, watcher = edge.arrays, WATCHING.watcher
        first = watcher and watcher.first
        step(edge, g, sums, useful, keep)
        if watcher:
            watcher.first = first  # of the forward; this step may have computed a NaN as well
        for i, input_edge in enumerate(edge.edges):
            total = sums.get(input_edge)
            if WATCHING.check_nan and isinstance(total, Tensor) and has_nan(total):
                raise _error(edge, i, total, g, arrays)
        for e, before in earlier.items():
            sums[e] = pointwise.add(before, sums[e]) if e in sums else before

    return checked


def _error(edge: Any, i: int, gradient: Tensor, g: Any, arrays: Any) -> GradientError:
    site = getattr(getattr(edge, "extra", None), "site", "")
    index = np.unravel_index(int(np.isnan(gradient._data).argmax()), gradient._data.shape)
    position = f", first at index {tuple(map(int, index))}" if gradient._data.shape else ""
    shape = gradient._data.shape
    values = [x[index].item() for x in arrays or () if getattr(x, "shape", None) == shape]
    listed = ", ".join(f"{v:g}" for v in values)
    operand_values = f", where its operands are {listed}" if values else ""
    text = (f"backward: the gradient of {edge.op.name}{_shapes(arrays or ())} is nan for operand "
            f"{i}{position}{operand_values}")
    text += f"\n  forward: {site}" if site else \
        "\n  forward: unknown, it ran outside of detect_anomaly"
    first = WATCHING.watcher.first if WATCHING.watcher else ""
    text += f"\n  first nan of the forward: {first}" if first else ""
    nan_before = isinstance(g, Tensor) and has_nan(g)
    return GradientError(
        text, "the gradient of the result is nan already: look at later ops" if nan_before else
        "keep the operands away from where the derivative is infinite, before the op: "
        "x.clip(1e-6), or fw.where(ok, x, 1.0) inside and outside of it")


def _shapes(operands: Any) -> str:
    types = [f"{x.dtype.name}[{', '.join(map(str, x.shape))}]" if hasattr(x, "shape") else repr(x)
             for x in operands]
    return f"({', '.join(types)})"


def has_nan(x: Tensor) -> bool:
    """True if an element is NaN."""
    array = array_of(x._data, "detect_anomaly()")
    return isinstance(array, np.ndarray) and kind(array.dtype) in "fc" \
        and bool(np.isnan(array).any())
