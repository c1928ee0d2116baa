"""Runs single eager ops on tensors of a device by generated kernels: ops that the device's library
lacks or defines otherwise.

An op is a graph of one node, compiled once for the types of its operands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...capture.graph.call_key import call_key
from ...capture.graph.graph import Graph, Nodes
from ...capture.graph.graph_builder import GraphBuilder, as_tensor, build
from ...capture.runtime.specialization_cache import Specializations
from ...eager.arrays import devices
from ...eager.arrays.dtypes import int64
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.fork_safety import held_while_forking
from ...eager.ops.declare import cast
from ...eager.ops.reduction.reduce import any as any_
from ..compile import compile_on
from .op_call import numpy_nanoseconds, program_for

CompiledOp = Callable[[list[Any]], list[Any]]

_PROGRAMS: Specializations[Any] = Specializations("eager GPU programs",
                                                  held_while_forking(threading.RLock()))


def run_op(op: Op, arrays: Sequence[Any], params: dict[str, Any], device: str) -> Any:
    """The result of an op on arrays of a device and numbers; None if the op has no code, or comes
    with too many shapes to compile."""
    operands = [TensorType(x.shape, x.dtype) if devices.is_elsewhere(x) else x for x in arrays]
    key = call_key((device, op.name), operands, params)
    call = program_for(_PROGRAMS, key, op.name, lambda: compile_on(
        device, graph_of_op(op, operands, params)), numpy_nanoseconds(op, operands, params))
    return call([x for x in arrays if devices.is_elsewhere(x)])[0] if call else None


def graph_of_op(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Graph:
    """The graph of one op on values of these types, and on numbers."""
    nodes = Nodes()
    inputs = {i: nodes.input(f"x{i}", t) for i, t in enumerate(operands)
              if isinstance(t, TensorType)}
    arguments = [as_tensor(inputs[i]) if i in inputs else x for i, x in enumerate(operands)]
    out = GraphBuilder(nodes).apply(op, tuple(arguments), params)._data
    return Graph(tuple(inputs.values()), (out.node,))


def in_range(x: Any, size: int, low: int) -> bool | None:
    """True if every element of an array on a device is in low ... size - 1, checked by one kernel;
    None without code for it."""
    key = devices.of(x), "in_range", TensorType(x.shape, x.dtype), size, low
    call = program_for(_PROGRAMS, key, "in_range", lambda: _compile_range_check(*key),
                       x.size)
    return not bool(call([x])[0]) if call else None


def _compile_range_check(device: str, name: str, of: TensorType, size: int, low: int) -> CompiledOp:
    def is_outside(x: Tensor) -> Tensor:
        wide = cast(x, int64)
        return any_((wide < low) | (wide >= size))

    nodes = Nodes()
    arguments = nodes.input("x", of)
    outside = build(nodes, is_outside, (arguments,), {}, name)
    made: CompiledOp = compile_on(device, Graph((arguments,), (outside,)))
    return made
