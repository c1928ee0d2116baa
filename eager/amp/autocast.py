"""The front door of autocast: a context, a decorator, and what is in force."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .. import interpreter
from ..arguments import check_choice
from ..arrays import devices
from ..arrays.dtypes import as_dtype, bfloat16, float16
from ..core.tensor import Tensor
from ..ops.elementwise.casting import CAST, casting_to

__all__ = [
    "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_enabled",
]

_DEFAULTS = {"cpu": bfloat16, "cuda": float16}  # dtypes by device, as PyTorch has them


class autocast:
    """A context, or a decorator, in which matrix products and convolutions run in 16 bits.

    Losses, `prod`, linear algebra and what else loses too much run in float32; all else in the
    dtype that its operands combine to. float64 is left alone. Put the forward and the loss inside,
    backward and the optimizer's step outside; gradients have the dtype of their parameters. It
    holds in this thread. Tensors of the caller are cast where they are used: what PyTorch keeps
    with `cache_enabled` a compiled function does by itself.

    >>> import fusewire as fw
    >>> a = fw.ones(2, 2)
    >>> with fw.autocast("cpu", dtype=fw.bfloat16):
    ...     product = a @ a
    ...     product.dtype.name, (product + a).dtype.name
    ('bfloat16', 'float32')
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        self.device, self.fast_dtype = device_type, _dtype_on(device_type, dtype)
        why_not = _why_not(device_type, self.fast_dtype) if enabled else ""
        if why_not:
            warnings.warn(f"autocast is switched off: {why_not}", UserWarning, stacklevel=2)
        self._enabled = enabled and not why_not
        self._cache_enabled = True if cache_enabled is None else cache_enabled

    def __enter__(self) -> autocast:
        casting = casting_to(self.fast_dtype) if self._enabled else None
        _LEFT.castings.append(interpreter.set_casting(casting))
        return self

    def __exit__(self, *error: Any) -> None:
        interpreter.set_casting(_LEFT.castings.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


class _Left(threading.local):
    """What to go back to at the end of each context, innermost last; threads may share contexts."""

    def __init__(self) -> None:
        self.castings: list[Any] = []


_LEFT = _Left()


def _dtype_on(device_type: str, dtype: Any) -> Any:
    check_choice("autocast", "device_type", device_type, tuple(_DEFAULTS))
    return _DEFAULTS[device_type] if dtype is None else as_dtype(dtype)


def _why_not(device_type: str, dtype: Any) -> str:
    if not is_autocast_available(device_type):
        return f'device "{device_type}" is not there, use "cpu"'
    if dtype not in (bfloat16, float16):
        return f"it runs in bfloat16 or float16, not in {dtype.name}"
    return ""


# ---- what is in force
def is_autocast_available(device_type: str) -> bool:
    """Whether autocast works on a device."""
    return device_type == devices.CPU or devices.available()


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether autocast is in force on a device, in this thread."""
    return is_autocast_available(device_type) and interpreter.STATE.casting is not None


def get_autocast_dtype(device_type: str) -> Any:
    """The low dtype of the autocast in force, or else the one that a device has by default."""
    if is_autocast_enabled(device_type):
        return interpreter.STATE.casting.dtype
    return _dtype_on(device_type, None)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept. They are not: see `autocast`."""
    return False


# ---- the two sides of an autograd.Function
def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Any:
    """Decorates `forward` of an autograd.Function; `custom_bwd` then knows its autocast.

    cast_inputs: the dtype of its floating point tensors where autocast is on; it then runs without.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward_rule: Callable[..., Any] = fwd

    @functools.wraps(forward_rule)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._casting = interpreter.STATE.casting
        if cast_inputs is None or ctx._casting is None:
            return forward_rule(ctx, *args, **kwargs)
        ctx._casting = None
        args = tuple(_cast(x, cast_inputs) for x in args)
        with autocast(device_type, enabled=False):
            return forward_rule(ctx, *args, **{k: _cast(x, cast_inputs) for k, x in kwargs.items()})

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates `backward` of an autograd.Function: it runs under the autocast of its forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward_rule: Callable[..., Any] = bwd

    @functools.wraps(backward_rule)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        before = interpreter.set_casting(ctx._casting)
        try:
            return backward_rule(ctx, *args, **kwargs)
        finally:
            interpreter.set_casting(before)

    return backward


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) and x.dtype in CAST else x
