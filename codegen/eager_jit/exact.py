"""Compiles eager ops for exactly their shapes: ops without rows, and ops of several kernels.

Products and convolutions are compiled if NumPy takes long for them. Only their sizes decide this,
so equal calls have equal bits. Factors of a product are read in their memory order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...capture.graph.call_key import call_key
from ...capture.graph.graph import Graph, Nodes
from ...capture.heap.code_tracker import observing
from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.ops.products.contract import parts
from ...eager.settings import settings
from .op_call import Call, OpCall, numpy_nanoseconds, program_for, run_of_graph

MIN_NUMPY_NANOSECONDS = 1 << 15  # shorter calls of ops that estimate their time stay in NumPy


def is_long(op: Op, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """True if NumPy takes long for an op that estimates its time."""
    return op.work is not None and op.work(*types, **params) >= MIN_NUMPY_NANOSECONDS


def call_for_shapes(op: Op, types: Sequence[Any], params: dict[str, Any],
                    programs: Specializations[Any]) -> Call | None:
    """A function from arrays of these types to the op's result; None if it has no code."""
    if op.kind == "contract":
        return _product(op, types, params, programs)
    return _cached_call(op, types, params, programs)


def _cached_call(op: Op, types: Sequence[Any], params: dict[str, Any],
                 programs: Specializations[Any]) -> Call | None:
    key = call_key((op.name, settings.winograd, settings.winograd_training), types, params)
    if op.work is not None and observing() and key not in programs:
        return None  # a recorded function gets code as a whole
    call: Call | None = program_for(programs, key, op.name, lambda: _compiled(op, types, params),
                                    numpy_nanoseconds(op, types, params))
    return call


def _compiled(op: Op, types: Sequence[TensorType], params: dict[str, Any]) -> Call:
    nodes = Nodes()
    inputs = tuple([nodes.input(f"x{i}", t) for i, t in enumerate(types)])
    return OpCall(run_of_graph(Graph(inputs, (nodes.apply(op.name, inputs, params),)))).run


# ---- products
def _product(op: Op, types: Sequence[TensorType], params: dict[str, Any],
             programs: Specializations[Any]) -> Call:
    """The function of a product, with one program for each memory order of its factors."""
    calls: dict[Any, Call] = {}

    def run(arrays: Sequence[Any]) -> list[Any] | None:
        orders = tuple([None if x.flags.c_contiguous else memory_order(x) for x in arrays])
        call = calls.get(orders)
        if call is None:
            transposed_params = {"spec": _permuted_spec(params["spec"], orders)}
            view_types = [TensorType(_view(x, order).shape, x.dtype)
                          for x, order in zip(arrays, orders)]
            call = _cached_call(op, view_types, transposed_params, programs)
            if call is None:
                return None
            calls[orders] = call
        return call([_view(x, order) for x, order in zip(arrays, orders)])

    return run


def memory_order(x: Any) -> tuple[int, ...] | None:
    """The order of axes in which the elements of `x` are contiguous; None if there is none."""
    order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
    return tuple(order) if x.transpose(order).flags.c_contiguous else None


def _view(x: Any, order: tuple[int, ...] | None) -> Any:
    return x if order is None else x.transpose(order)


def _permuted_spec(spec: str, orders: Sequence[tuple[int, ...] | None]) -> str:
    left_axes, right_axes, out = parts(spec)
    factors = [side if order is None else "".join([side[i] for i in order])
               for side, order in zip((left_axes, right_axes), orders)]
    return f"{factors[0]},{factors[1]}->{out}"
