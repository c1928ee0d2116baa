"""Implements autocast as a context and a decorator."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .. import interpreter
from ..arguments import check_choice, names_itself
from ..arrays import devices
from ..arrays.dtypes import as_dtype, bfloat16, float16
from ..core.tensor import Tensor
from ..ops.elementwise.casting import CAST, casting_to

__all__ = [
    "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_enabled",
]


class autocast:
    """A context, or a decorator, in which matrix products and convolutions run in 16 bits.

    Losses, `prod`, linear algebra and other sensitive ops run in float32. Other ops run in the
    dtype that their operands combine to. float64 stays. Put the forward and the loss inside,
    backward and the optimizer's step outside; gradients have the dtype of their parameters. It
    holds in this thread.

    Args:
        device_type: "cpu" or "cuda".
        dtype: bfloat16 or float16. Default: bfloat16 on "cpu", float16 on "cuda". Another dtype,
            or a missing device, switches autocast off with a UserWarning.
        enabled: False runs ops in their own dtypes. Default True.
        cache_enabled: accepted for PyTorch's signature; a compiled function casts parameters once
            by itself.

    Raises:
        ArgumentError: another device_type.

    Example:
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
    """The castings to restore at the end of each context of a thread, innermost last."""

    def __init__(self) -> None:
        self.castings: list[Any] = []


_LEFT = _Left()


def _dtype_on(device_type: str, dtype: Any) -> Any:
    check_choice("autocast", "device_type", device_type, devices.kinds())
    return devices.TYPES[device_type].fast_dtype if dtype is None else as_dtype(dtype)


def _why_not(device_type: str, dtype: Any) -> str:
    if not is_autocast_available(device_type):
        return f'device "{device_type}" is not available, use "cpu"'
    if dtype not in (bfloat16, float16):
        return f"it runs in bfloat16 or float16, not in {dtype.name}"
    return ""


# ---- the active autocast
def is_autocast_available(device_type: str) -> bool:
    """True if autocast works on a device.

    Args:
        device_type: "cpu" or "cuda".

    Example:
        >>> import fusewire as fw
        >>> fw.amp.is_autocast_available("cpu")
        True
    """
    return device_type in devices.kinds() and devices.TYPES[device_type].count() > 0


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """True if autocast is active on a device, in this thread.

    Args:
        device_type: "cpu" or "cuda". Default "cpu".

    Example:
        >>> import fusewire as fw
        >>> with fw.autocast("cpu"):
        ...     fw.is_autocast_enabled()
        True
    """
    return is_autocast_available(device_type) and interpreter.STATE.casting is not None


@names_itself
def get_autocast_dtype(device_type: str) -> Any:
    """The 16-bit dtype of the active autocast, or else the default of a device.

    Args:
        device_type: "cpu" or "cuda".

    Raises:
        ArgumentError: another device_type.

    Example:
        >>> import fusewire as fw
        >>> fw.get_autocast_dtype("cpu").name
        'bfloat16'
    """
    if is_autocast_enabled(device_type):
        return interpreter.STATE.casting.dtype
    return _dtype_on(device_type, None)


def is_autocast_cache_enabled() -> bool:
    """False: casts of parameters are not cached, see `autocast`.

    Example:
        >>> import fusewire as fw
        >>> fw.amp.is_autocast_cache_enabled()
        False
    """
    return False


# ---- forward and backward of an autograd.Function
def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Any:
    """Decorates `forward` of an autograd.Function, so that `custom_bwd` knows its autocast.

    Args:
        fwd: the forward; None returns a decorator.
        device_type: "cpu" or "cuda".
        cast_inputs: dtype for floating point arguments under autocast; the forward then runs
            without autocast. Default None: arguments stay.

    Example:
        >>> import fusewire as fw
        >>> class Square(fw.autograd.Function):
        ...     @staticmethod
        ...     @fw.amp.custom_fwd(device_type="cpu", cast_inputs=fw.float32)
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     @fw.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         return g * 2 * ctx.saved_tensors[0]
        >>> with fw.autocast("cpu"):
        ...     Square.apply(fw.ones(2, dtype=fw.bfloat16)).dtype.name
        'float32'
    """
    check_choice("custom_fwd", "device_type", device_type, devices.kinds())
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
    """Decorates `backward` of an autograd.Function: it runs under the autocast of its forward.

    Args:
        bwd: the backward; None returns a decorator. The forward needs `custom_fwd`.
        device_type: "cpu" or "cuda".

    Example:
        >>> import fusewire as fw
        >>> class Twice(fw.autograd.Function):
        ...     @staticmethod
        ...     @fw.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     @fw.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         return 2 * g
        >>> x = fw.tensor(1.0, requires_grad=True)
        >>> Twice.apply(x).backward()
        >>> x.grad
        tensor(2.)
    """
    check_choice("custom_bwd", "device_type", device_type, devices.kinds())
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
