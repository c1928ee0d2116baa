"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...ops.shape.join import concat
from ...ops.shape.view import reshape
from ...tensor_methods.methods import update

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other, as one vector; gradients flow on.

    >>> import fusewire as fw
    >>> fw.nn.utils.parameters_to_vector(fw.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    return concat([reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters to the elements of `vec`, in the order of `parameters_to_vector`."""
    if not isinstance(vec, Tensor):
        raise DTypeError(f"vector_to_parameters: takes a tensor, not {type(vec).__name__}",
                         "make a tensor of it first: fw.tensor(x)")
    given = list(parameters)
    total = sum(p.size for p in given)
    if vec.shape != (total,):
        raise ShapeError(f"vector_to_parameters: the vector has shape {vec.shape}, the parameters "
                         f"have {total} elements", f"pass a vector of shape ({total},)")
    at = 0
    with no_grad():
        for p in given:
            update(p, reshape(vec[at:at + p.size], p.shape))
            at += p.size
