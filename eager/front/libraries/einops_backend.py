"""The back end of einops for tensors.

It calls methods, so a tensor of another class, such as that of `fusewire.torch`, keeps its class.
Source: `AbstractBackend` in einops/_backends.py.
"""

from __future__ import annotations

from typing import Any

from ...arrays import dtypes
from ...core.tensor import Tensor
from ...ops.create import arange, asarray
from ...ops.products.einsum import einsum
from ...ops.shape.join import concat, stack

__all__: list[str] = []


def register(backends: Any) -> None:
    """Defines the back end; `backends` is the module `einops._backends`.

    einops finds back ends among the subclasses of its base class. The module holds the class, as a
    list of subclasses does not.
    """
    backends.FusewireBackend = type("FusewireBackend", (_Functions, backends.AbstractBackend), {})


def _of_class_of(first: Tensor, out: Tensor) -> Tensor:
    """`out` in the class that results of `first` have; that of a parameter is its tensor's."""
    kind = type(first.detach())
    if type(out) is not kind:
        out.__class__ = kind
    return out


class _Functions:
    """The functions of arrays that einops calls."""

    framework_name = __name__.partition(".")[0]
    arange = staticmethod(arange)

    def is_appropriate_type(self, tensor: Any) -> bool:
        """True for tensors of fusewire."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """A tensor with the values of an array."""
        return asarray(x)

    def to_numpy(self, x: Any) -> Any:
        """The values as an array of NumPy."""
        return x.detach().numpy()

    def stack_on_zeroth_dimension(self, tensors: Any) -> Any:
        """The tensors along a new first axis."""
        return _of_class_of(tensors[0], stack(tensors))

    def concat(self, tensors: Any, axis: int) -> Any:
        """The tensors joined along an axis."""
        return _of_class_of(tensors[0], concat(tensors, axis))

    def einsum(self, pattern: str, *x: Any) -> Any:
        """The sums of products that the pattern describes."""
        return _of_class_of(x[0], einsum(pattern, *x))

    def transpose(self, x: Any, axes: Any) -> Any:
        """`x` with its axes in another order."""
        return x.permute_dims(tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """`x` reduced along `axes` by the method of this name."""
        return getattr(x, operation)(axis=tuple(axes))

    def add_axis(self, x: Any, new_position: int) -> Any:
        """`x` with an axis of size 1 at this place."""
        return x[(slice(None),) * new_position + (None,)]

    def tile(self, x: Any, repeats: Any) -> Any:
        """`x` repeated along each axis."""
        return x.tile(tuple(repeats))

    def is_float_type(self, x: Any) -> bool:
        """True for a floating dtype."""
        return dtypes.is_float(x.dtype)
