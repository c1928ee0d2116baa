"""Copies all parameters of a model to one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...arrays.shapes import product
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...ops.shape.join import concat
from ...ops.shape.view import reshape
from ...tensor_methods.methods import update

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters one after the other: a vector (total,), with gradients.

    Args:
        parameters: an iterable of at least one tensor.

    Raises:
        ShapeError: there are no parameters.

    Example:
        >>> import fusewire as fw
        >>> fw.nn.utils.parameters_to_vector(fw.nn.Linear(3, 2).parameters()).shape
        (8,)
    """
    return concat([reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters to the elements of `vec`, in the order of `parameters_to_vector`.

    Args:
        vec: (total,), where total is the number of elements of all parameters.
        parameters: an iterable of tensors, written in place.

    Raises:
        DTypeError: `vec` is not a tensor.
        ShapeError: `vec` does not have the shape (total,).

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(2, 1)
        >>> fw.nn.utils.vector_to_parameters(fw.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, Tensor):
        raise DTypeError(f"vector_to_parameters: takes a tensor, not {type(vec).__name__}",
                         "make a tensor of it first: fw.tensor(x)")
    tensors = list(parameters)
    total = sum(product(p.shape) for p in tensors)
    if vec.shape != (total,):
        raise ShapeError(f"vector_to_parameters: the vector has shape {vec.shape}, the parameters "
                         f"have {total} elements", f"pass a vector of shape ({total},)")
    at = 0
    with no_grad():
        for p in tensors:
            size = product(p.shape)
            update(p, reshape(vec[at:at + size], p.shape))
            at += size
