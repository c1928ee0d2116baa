"""Running an op: the one place every op passes through."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import interpreter, kernels
from .errors import FusewireError, GradientError
from .op import Op
from .shapes import TensorType
from .tape import MODE, Entry, Leaf
from .tensor import Tensor

_NOTHING: dict[str, Any] = {}


def apply(op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = _NOTHING) -> Tensor:
    """The tensor that `op` makes of `inputs` (tensors, and Python scalars that adapt to them)."""
    if interpreter.active is not None:
        return interpreter.active.apply(op, inputs, params)  # type: ignore[no-any-return]
    return evaluate(op, inputs, params)


def evaluate(op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = _NOTHING) -> Tensor:
    """`apply` on values, right now, with the tape but past any interpreter."""
    edges: Any = None
    arrays = []
    for x in inputs:
        if isinstance(x, Tensor):
            arrays.append(x.data)
            if x.edge is not None:
                edges = True
        else:
            arrays.append(x)
    try:
        data = op.impl(kernels, *arrays, **params)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise _explained(op, inputs, params, error) from None
    if type(data) is not np.ndarray:
        data = np.asarray(data)
    out = Tensor(data)
    if edges and MODE.enabled and op.vjp is not None:
        edges = tuple([x.edge if isinstance(x, Tensor) else None for x in inputs])
        out.edge = Entry(op, params, tuple(arrays), edges, data)
    return out


def _explained(
    op: Op, inputs: tuple[Any, ...], params: dict[str, Any], error: Exception
) -> Exception:
    """The error of the op's own result rule, which names what is wrong, or else NumPy's."""
    if isinstance(error, FusewireError):
        return error
    try:
        op.result(*map(type_of, inputs), **params)
    except FusewireError as ours:
        return ours
    kind = next(k for k in (IndexError, TypeError, ValueError, Exception) if isinstance(error, k))
    given = ", ".join(str(type_of(x)) for x in inputs)
    made = type("OpError", (FusewireError, kind), {})
    return made(f"{op.name}({given}): {error}")  # type: ignore[no-any-return]


def type_of(x: Any) -> Any:
    """The TensorType of a tensor; a Python scalar stands for itself."""
    return TensorType(x.data.shape, x.data.dtype) if isinstance(x, Tensor) else x


def replace(tensor: Tensor, new: Tensor) -> Tensor:
    """`tensor`, changed in place to the value of `new`.

    GradientError for a leaf that requires a gradient while the tape is on; ShapeError where `new`
    has another shape or dtype is the caller's to raise.
    """
    if isinstance(tensor.edge, Leaf):
        if MODE.enabled:
            raise GradientError(
                "a leaf that requires a gradient cannot be changed in place while the tape is on",
                "put the update under fw.no_grad()",
            )
    else:
        tensor.edge = new.edge
    if interpreter.active is not None:
        interpreter.active.changed(tensor)
    tensor.data = new.data
    return tensor
