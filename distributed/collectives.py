"""The collectives as functions of tensors, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..eager.core.dispatch import apply, type_of
from ..eager.core.op import Op
from ..eager.core.tensor import Tensor, as_tensor
from ..eager.errors import ArgumentError, AxisError
from ..eager.ops.collectives import collective as ops
from .engines.engine import ProcessGroup
from .groups import get_group, membership, where

_REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def _params(group: ProcessGroup | None) -> dict[str, Any]:
    chosen = get_group(group)
    return {"group": chosen.name, "size": chosen.size, "site": where()}


def _axis(name: str, x: Tensor, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(f"{name}: axis {axis} of a tensor with {x.ndim} axes",
                        f"pass an axis from {-x.ndim} to {x.ndim - 1}" if x.ndim else
                        "reshape the number first: x.reshape(1)")
    return axis % x.ndim


def _root(name: str, root: int, group: ProcessGroup | None) -> int:
    size = get_group(group).size
    if not 0 <= root < size:
        raise ArgumentError(f"{name}: root {root} in a group of {size} ranks",
                            f"pass a rank from 0 to {size - 1}")
    return root


def all_reduce(x: Any, reduce: str = "sum", group: ProcessGroup | None = None) -> Tensor:
    """The sum of `x` over the ranks of a group, on each of them; shape and dtype of `x`.

    The result is replicated: its gradient on each rank is that of `x`. Compute the same loss from
    it on all ranks.

    Args:
        x: a tensor, of one shape and dtype on all ranks.
        reduce: "sum", "mean", "max", "min" or "prod" (without a gradient). Ranks whose elements
            equal the maximum or minimum share its gradient: of values that are equal but for
            rounding, as eager and compiled code may round them, only the largest gets it.
        group: by default all ranks.
    """
    tensor = as_tensor("all_reduce", x)
    if reduce not in _REDUCTIONS:
        raise ArgumentError(f"all_reduce: unknown reduction {reduce!r}",
                            f"it is one of {', '.join(map(repr, _REDUCTIONS))}")
    params = _params(group)
    if reduce == "mean":
        return _checked(ops.all_reduce_op, tensor, {**params, "reduce": "sum"}) / params["size"]
    return _checked(ops.all_reduce_op, tensor, {**params, "reduce": reduce})


def replicate_values(x: Any, group: ProcessGroup | None = None) -> Tensor:
    """`x`, which is equal on all ranks, for computations in which the ranks differ.

    No numbers move. The gradient of `x` is the sum of the gradients of all ranks.
    """
    return apply(ops.replicate_op, (as_tensor("replicate_values", x),), _params(group))


def all_gather(x: Any, axis: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """The tensors of all ranks, joined along an axis in the order of the ranks.

    The result takes part in computations that differ between the ranks: the gradient of `x` is the
    sum over the ranks of this rank's part (`reduce_scatter`).
    """
    tensor = as_tensor("all_gather", x)
    return apply(ops.all_gather_op, (tensor,),
                 {**_params(group), "axis": _axis("all_gather", tensor, axis)})


def reduce_scatter(x: Any, axis: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """This rank's part, along an axis, of the sum of `x` over the ranks.

    ShapeError if the ranks cannot share the axis equally.
    """
    tensor = as_tensor("reduce_scatter", x)
    params = {**_params(group), "axis": _axis("reduce_scatter", tensor, axis)}
    return _checked(ops.reduce_scatter_op, tensor, params)


def all_to_all(x: Any, split: int = 0, concat: int = 0, group: ProcessGroup | None = None
               ) -> Tensor:
    """The parts for this rank, of the tensors of all ranks.

    Each rank cuts its tensor along the axis `split` in one part for each rank. The parts that a
    rank receives are joined along the axis `concat`.
    """
    tensor = as_tensor("all_to_all", x)
    params = {**_params(group), "split": _axis("all_to_all", tensor, split),
              "concat": _axis("all_to_all", tensor, concat)}
    return _checked(ops.all_to_all_op, tensor, params)


def _checked(op: Op, x: Tensor, params: dict[str, Any]) -> Tensor:
    """The result of a collective on a tensor that its rule accepts."""
    op.result(type_of(x), **params)
    return apply(op, (x,), params)


def broadcast(x: Any, root: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """The tensor of one rank, on all ranks; `x` of the others has the same shape and dtype.

    The gradient on the root is the sum over the ranks, elsewhere zero.
    """
    return apply(ops.broadcast_op, (as_tensor("broadcast", x),),
                 {**_params(group), "root": _root("broadcast", root, group)})


def shift(x: Any, by: int = 1, group: ProcessGroup | None = None) -> Tensor:
    """The tensor of the rank that is `by` before this one; the ranks form a ring."""
    return apply(ops.shift_op, (as_tensor("shift", x),), {**_params(group), "by": int(by)})


def barrier(group: ProcessGroup | None = None) -> None:
    """Waits until all ranks of a group have called it."""
    apply(ops.barrier_op, (Tensor(np.zeros(0, np.uint8)),), _params(group))


def all_gather_object(value: Any, group: ProcessGroup | None = None) -> list[Any]:
    """The objects of all ranks of a group, in their order. Objects must be picklable."""
    return membership().gather_objects(value, get_group(group), where())


def send(x: Any, to: int, group: ProcessGroup | None = None) -> None:
    """Sends a tensor to rank `to` of a group, without waiting for it. It has no gradient."""
    membership().engine.send(np.asarray(as_tensor("send", x).detach()._data), to, get_group(group))


def receive(source: int, group: ProcessGroup | None = None) -> Tensor:
    """The next tensor that rank `source` of a group has sent to this one."""
    return Tensor(membership().engine.receive(source, get_group(group)))
