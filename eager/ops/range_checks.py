"""Checks that indices are in range: eager at once, compiled code before and after it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import devices
from ..core.dispatch import apply
from ..core.op import Op, define
from ..core.tensor import Tensor
from ..errors import IndexingError

# Set by an upper layer: the check for an array on a GPU, which synchronizes once.
on_gpu: Callable[[Any, int, int], bool] | None = None


def _impl(xp: Any, x: Any, size: int, what: str) -> Any:
    require(x, size, what)
    return x.view()


def require(x: Any, size: int, what: str, low: int = 0) -> None:
    """Raises IndexingError unless every element of the array `x` is one of low ... size - 1."""
    if not in_range(x, size, low):
        bad = int(x.min()) if x.min() < low else int(x.max())
        raise IndexingError(f"{what}: {bad} is out of range for size {size}",
                            f"the valid range is {low} to {size - 1}")


def in_range(x: Any, size: int, low: int = 0) -> bool:
    """True if every element of the array `x` is one of low ... size - 1."""
    if not x.size:
        return True
    if on_gpu is not None and isinstance(x, devices.ndarray):
        return on_gpu(x, size, low)
    return bool(x.min() >= low and x.max() < size)


check_index_op = define(Op(
    "check_index", "pointwise", lambda x, size, what: x, _impl, lambda k, x, size, what: x,
    why={"vjp": "integers have no gradient", "onnx": "a model does not check its inputs"}))


def check_index(x: Tensor, size: int, what: str) -> Tensor:
    """`x` itself; IndexingError, which begins with `what`, for elements not in 0 ... size - 1."""
    return apply(check_index_op, (x,), {"size": size, "what": what})
