"""Declares the collective operations of process groups, each with its gradient.

A value is replicated if all ranks of the group have equal numbers, else varying. `all_reduce` makes
a replicated value of a varying one, and its gradient is the identity; `replicate` begins the
opposite direction, and its gradient is the sum over the ranks (Megatron's g and f, JAX's psum and
pvary). So a loss that all ranks have counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from ...arrays import dtypes
from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.op import OPS, Op, define, each
from ...core.tensor import Tensor
from ...errors import CollectiveError, DTypeError, GradientError, ShapeError
from ...ordered_calls import begin, perform
from ...upper_layer import UPPER
from ..elementwise.pointwise import cast, equal

_NO_LIBRARY = "the ranks of a group compute it together"
_NO_ONNX = "ONNX has no operator for several processes"
_REDUCTIONS = {"sum": "iufc", "prod": "iufc", "max": "biuf", "min": "biuf"}  # kinds of dtypes


def _run(kind: str, array: Any, params: Mapping[str, Any]) -> Any:
    """The result on this rank; the collectives of a group of one rank change nothing."""
    if params["size"] == 1:
        return array.copy()
    return _required(UPPER.collective, kind)(kind, array, params)


def _begun(kind: str, array: Any, params: Mapping[str, Any]) -> Any:
    """A Future of the result on this rank."""
    if params["size"] == 1:
        result: Future[Any] = Future()
        result.set_result(array.copy())
        return result
    return _required(UPPER.begin_collective, kind)(kind, array, params)


def _required(function: Callable[..., Any] | None, kind: str) -> Callable[..., Any]:
    if function is None:
        raise CollectiveError(f"{kind}: there is no process group",
                              "call fusewire.distributed.init_process_group() first")
    return function


def _collective(name: str, result: Callable[..., TensorType],
                vjp: Callable[..., Tensor] | None, why: str = "") -> Op:
    """Declares a collective of one tensor. Each has the params `group`, its name; `size`, its
    number of ranks; and `site`, the line that asks for it. With `later`, compiled programs compute
    what follows before they wait for the result."""
    def start(x: Any, turn: int | None = None, **params: Any) -> Any:
        return begin(_begun, name, x, params, turn)

    def impl(k: Any, x: Any, *after: Any, turn: int | None = None, **params: Any) -> Any:
        return perform(_run, name, x, params, turn)

    def rule(x: TensorType, *after: TensorType, turn: int | None = None,
             **params: Any) -> TensorType:
        return result(x, **params)

    def gradient(g: Tensor, out: Tensor, x: Tensor, *after: Any, turn: int | None = None,
                 **params: Any) -> Tensor:
        assert vjp is not None
        return vjp(g, out, x, **params)

    reasons = {"meaning": _NO_LIBRARY, "onnx": _NO_ONNX} | ({"vjp": why} if why else {})
    return define(Op(name, "opaque", rule, impl, None, each(gradient) if vjp else None,
                     why=reasons, raises=True, stored=True, ordered=True,
                     begin=start))


def perform_collective(name: str, x: Tensor, **params: Any) -> Tensor:
    """The result of the collective with this name for `x`; `params` as in `_collective`."""
    return apply(OPS[name], (x,), params)


def _same_type(x: TensorType, **params: Any) -> TensorType:
    return TensorType(x.shape, x.dtype)


def _reduced_type(x: TensorType, reduce: str = "sum", **params: Any) -> TensorType:
    kinds = _REDUCTIONS[reduce]
    if dtypes.is_stored(x.dtype) or dtypes.kind(x.dtype) not in kinds:
        raise DTypeError(f"all_reduce: {reduce!r} does not take {x.dtype.name}",
                         "cast it first, as with x.astype(fw.int64) to count")
    return TensorType(x.shape, x.dtype)


def _gathered_type(x: TensorType, axis: int, size: int, **params: Any) -> TensorType:
    return TensorType((*x.shape[:axis], x.shape[axis] * size, *x.shape[axis + 1:]), x.dtype)


def _part(name: str, x: TensorType, axis: int, size: int) -> tuple[Any, ...]:
    if x.shape[axis] % size != 0:
        raise ShapeError(f"{name}: {size} ranks cannot share axis {axis} of the shape {x.shape}",
                         f"pad the axis to a multiple of {size}")
    return (*x.shape[:axis], x.shape[axis] // size, *x.shape[axis + 1:])


def _scattered_type(x: TensorType, axis: int, size: int, **params: Any) -> TensorType:
    return TensorType(_part("reduce_scatter", _reduced_type(x), axis, size), x.dtype)


def _exchanged_type(x: TensorType, split: int, concat: int, size: int, **params: Any
                    ) -> TensorType:
    parts = TensorType(_part("all_to_all", x, split, size), x.dtype)
    return _gathered_type(parts, concat, size)


def _all_reduce_vjp(g: Tensor, out: Tensor, x: Tensor, reduce: str, **params: Any) -> Tensor:
    """The gradient of a replicated result: of all ranks, each has the same g."""
    if reduce == "sum":
        return g
    if reduce == "prod":
        raise GradientError("all_reduce: 'prod' has no gradient here",
                            "sum the logarithms: fw.exp(all_reduce(fw.log(x)))")
    chosen = equal(x, out).astype(g.dtype)  # equal extremes share the gradient, as in fw.max
    return g * chosen / perform_collective("all_reduce", chosen, reduce="sum", **params)


all_reduce_op = _collective("all_reduce", _reduced_type, _all_reduce_vjp)
def _all_gather_vjp(g: Tensor, out: Tensor, x: Tensor, size: int, mean: bool = False,
                    reduce_dtype: Any = None, rank: int | None = None, axis: int = 0,
                    **params: Any) -> Tensor:
    """The sum over the ranks of the gradients of this rank's part, or its mean. With `rank`, the
    result is replicated: each rank has the whole gradient already."""
    if rank is not None:
        length = x.shape[axis]
        begin = rank * length
        return g[(slice(None),) * axis + (slice(begin, begin + length),)]
    wide = g if reduce_dtype is None else cast(g, reduce_dtype)
    total = perform_collective("reduce_scatter", wide, size=size, axis=axis, **params)
    return cast(total / size if mean else total, g.dtype)


all_gather_op = _collective("all_gather", _gathered_type, _all_gather_vjp)
reduce_scatter_op = _collective("reduce_scatter", _scattered_type, lambda g, out, x, **params:
                                perform_collective("all_gather", g, **params))
all_to_all_op = _collective(
    "all_to_all", _exchanged_type, lambda g, out, x, split, concat, **params: perform_collective(
        "all_to_all", g, split=concat, concat=split, **params))
broadcast_op = _collective("broadcast", _same_type, lambda g, out, x, **params: perform_collective(
    "reduce_to", g, **params))
reduce_to_op = _collective(
    "reduce_to", _reduced_type, lambda g, out, x, **params: perform_collective(
        "broadcast", g, **params))
shift_op = _collective("shift", _same_type, lambda g, out, x, by, **params: perform_collective(
    "shift", g, by=-by, **params))
barrier_op = _collective("barrier", _same_type, None, why="a barrier computes no number")

replicate_op = define(Op(
    "replicate", "pointwise", _same_type, lambda k, x, **params: x.view(),
    lambda k, x, **params: x, each(lambda g, out, x, **params: perform_collective(
        "all_reduce", g, reduce="sum", **params)), why={"onnx": _NO_ONNX}))


def all_reduce(x: Tensor, group: Any, site: str) -> Tensor:
    """The sum of `x` over the ranks of a process group, for a layer with the name `site`."""
    return perform_collective("all_reduce", x, group=group.name, size=group.size, site=site,
                              reduce="sum")


def replicate(x: Tensor, group: Any) -> Tensor:
    """`x`, which is equal on all ranks of a process group, for computations that differ."""
    return perform_collective("replicate", x, group=group.name, size=group.size, site="")
