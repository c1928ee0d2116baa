"""Limits the size of gradients: Pascanu et al., arXiv 1211.5063.

`foreach` chooses between implementations in PyTorch; it has no effect here.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from ...arguments import check_at_least, check_number, names_itself
from ...core.in_place import replace
from ...core.tape import no_grad
from ...core.tensor import Tensor, tensor
from ...errors import GradientError
from ...linalg.norm import vector_norm
from ...ops.elementwise.clip import clip
from ...ops.elementwise.pointwise import cast
from ...ops.shape.join import stack

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]
_SMALL = 1e-6  # added to a norm that is divided by


@names_itself
@no_grad
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The norm of all elements of `tensors` as one vector: a scalar tensor.

    Args:
        tensors: a tensor or an iterable of tensors; 0 for none.
        norm_type: the order of the norm; inf for the largest absolute value. Default 2.
        error_if_nonfinite: True raises an error for a norm of inf or nan. Default False.
        foreach: has no effect.

    Raises:
        GradientError: the norm is not finite, with `error_if_nonfinite`.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.get_total_norm([fw.tensor([3.0]), fw.tensor([[4.0]])])
        tensor(5.)
    """
    each = _listed(tensors)
    if not each:
        return tensor(0.0)
    order = float(norm_type if norm_type == "inf" else check_number(
        "get_total_norm", "norm_type", norm_type))
    norms = [vector_norm(x, ord=order) for x in each if x.size]
    total = vector_norm(stack(norms), ord=order) if norms else \
        tensor(0.0, each[0].dtype, each[0].device)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise GradientError(
            f"the norm of order {order:g} of the gradients is {total.item()}, they cannot be "
            "clipped to one", "with error_if_nonfinite=False they are scaled by it all the same; "
            "fw.autograd.set_detect_anomaly(True) finds the op that made the first nan")
    return total


@names_itself
@no_grad
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: Any = None
) -> None:
    """Scales the gradients of `parameters` in place by max_norm / total_norm; returns None.

    The factor is at most 1, so gradients never grow.

    Args:
        parameters: a parameter or an iterable of parameters; those without a gradient stay.
        max_norm: the largest norm that is left.
        total_norm: the norm of all gradients, as from `get_total_norm`.
        foreach: has no effect.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.zeros(2))
        >>> p.grad = fw.tensor([3.0, 4.0])
        >>> fw.nn.utils.clip_grads_with_norm_([p], 2.5, fw.tensor(5.0))
        >>> (p.grad * 10).round()
        tensor([15., 20.])
    """
    check_number("clip_grads_with_norm_", "max_norm", max_norm)
    share = clip(max_norm / (total_norm + _SMALL), None, 1.0)
    for g in _gradients(_listed(parameters)):
        replace(g, g * cast(share, g.dtype))


@names_itself
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: Any = None,
) -> Tensor:
    """The norm of all gradients of `parameters`, which are scaled in place to at most `max_norm`.

    Args:
        parameters: a parameter or an iterable of parameters; those without a gradient stay.
        max_norm: the largest norm that is left.
        norm_type: the order of the norm; inf for the largest absolute value. Default 2.
        error_if_nonfinite: True raises an error for a norm of inf or nan. Default False.
        foreach: has no effect.

    Raises:
        GradientError: the norm is not finite, with `error_if_nonfinite`.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.zeros(2))
        >>> p.grad = fw.tensor([3.0, 4.0])
        >>> fw.nn.utils.clip_grad_norm_([p], max_norm=1.0)
        tensor(5.)
        >>> (p.grad * 10).round()
        tensor([6., 8.])
    """
    if isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("clip_grad_norm_: the generator of parameters is used up, nothing is "
                          "clipped", UserWarning, stacklevel=2)
    each = _listed(parameters)
    total = get_total_norm(_gradients(each), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(each, max_norm, total)
    return total


@names_itself
@no_grad
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: Any = None) -> None:
    """Limits each element of the gradients of `parameters` to [-clip_value, clip_value], in place.

    Args:
        parameters: a parameter or an iterable of parameters; those without a gradient stay.
        clip_value: the largest absolute value that is left.
        foreach: has no effect.

    Example:
        >>> import fusewire as fw
        >>> p = fw.nn.Parameter(fw.zeros(2))
        >>> p.grad = fw.tensor([3.0, -0.5])
        >>> fw.nn.utils.clip_grad_value_([p], 1.0)
        >>> p.grad
        tensor([ 1. , -0.5])
    """
    limit = check_at_least("clip_grad_value_", "clip_value", clip_value, 0)
    for g in _gradients(_listed(parameters)):
        replace(g, clip(g, -float(limit), float(limit)))


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    """The gradients of the parameters that have one, each gradient once."""
    gradients = [p.grad for p in parameters]
    return list({id(g): g for g in gradients if g is not None}.values())
