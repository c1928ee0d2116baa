"""Computes softmax, log_softmax and logsumexp along an axis, without overflow."""

from __future__ import annotations

from ...arguments import names_itself
from ...arrays.shapes import axis_or_scalar
from ...core.op import Op, each
from ...core.tensor import Tensor
from ..batching import shifted
from ..elementwise.composite import call, composite
from ..elementwise.pointwise import alias, exp, isfinite, log, where
from ..shape.view import reshape, squeeze
from . import reduce

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _softmax(x: Tensor, axis: int) -> Tensor:
    e = exp(x - reduce.max(x, axis, keepdims=True))
    return e / reduce.sum(e, axis, keepdims=True)


def _log_softmax(x: Tensor, axis: int) -> Tensor:
    shifted = x - reduce.max(x, axis, keepdims=True)
    return shifted - log(reduce.sum(exp(shifted), axis, keepdims=True))


softmax_op = composite(
    "softmax", _softmax, onnx="Softmax", rows=lambda x, axis: (axis,), batch=shifted("axis"),
    vjp=each(lambda g, out, x, axis: out * (g - reduce.sum(g * out, axis, keepdims=True))))
log_softmax_op = composite(
    "log_softmax", _log_softmax, onnx="LogSoftmax", rows=lambda x, axis: (axis,),
    batch=shifted("axis"),
    vjp=each(lambda g, out, x, axis: g - exp(out) * reduce.sum(g, axis, keepdims=True)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) divided by its sum along `axis`, of the shape of `x`. Large values do not overflow.

    Args:
        axis: along which the results add up to 1. Default -1.

    Raises:
        DTypeError: `x` does not hold real floats.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([0.0, 0.0, -float("inf")]).softmax()
        tensor([0.5, 0.5, 0. ])
    """
    return _along(softmax_op, x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of `softmax` along `axis` (default -1), of the shape of `x`.

    Raises:
        DTypeError: `x` does not hold real floats.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([0.0, 0.0]).log_softmax()
        tensor([-0.6931472, -0.6931472])
    """
    return _along(log_softmax_op, x, axis)


def _along(op: Op, x: Tensor, axis: int) -> Tensor:
    x = reduce.floating(op.name, x, "f")
    at = axis_or_scalar(op.name, axis, x.ndim)
    if x.ndim == 0:
        return reshape(_along(op, reshape(x, (1,)), 0), ())
    return call(op, x, axis=at) if x.shape[at] else alias(x)  # an empty axis has no maximum


@names_itself
def logsumexp(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) along `axis`. Large values do not overflow.

    Args:
        axis: one axis or several. Default -1.
        keepdims: True keeps the reduced axes with size 1. Default False.

    Raises:
        DTypeError: `x` does not hold real floats.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([1000.0, 1000.0]).logsumexp()
        tensor(1000.6932)
    """
    x = reduce.floating("logsumexp", x, "f")
    top = reduce.max(x, axis, keepdims=True).detach()
    top = where(isfinite(top), top, 0.0)  # inf - inf would be nan
    out = log(reduce.sum(exp(x - top), axis, keepdims=True)) + top
    return out if keepdims else squeeze(out, axis)
