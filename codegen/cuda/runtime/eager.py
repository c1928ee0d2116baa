"""Runs single eager ops on GPU tensors by generated kernels: ops that CuPy lacks or defines
otherwise.

An op is a graph of one node, compiled once for the types of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....capture.graph.graph import Graph, Nodes, param_key
from ....capture.graph.graph_builder import GraphBuilder, as_tensor, build
from ....eager.arrays import devices
from ....eager.arrays.dtypes import int64
from ....eager.arrays.shapes import TensorType
from ....eager.core import on_device
from ....eager.core.op import Op
from ....eager.core.tensor import Tensor
from ....eager.errors import CodegenError
from ....eager.ops import range_checks
from ....eager.ops.declare import cast
from ....eager.ops.reduction.reduce import any as any_
from ...eager_jit.specialization_cache import SpecializationCache
from .device import gpu
from .device_executable import compile_on

CompiledOp = Callable[[list[Any]], list[Any]]

_PROGRAMS = SpecializationCache()


def run_op(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of an op on arrays of the current GPU and numbers; None if the op has no code, or
    comes with too many shapes to compile."""
    number = devices.cupy().cuda.runtime.getDevice()
    operands = [TensorType(x.shape, x.dtype) if isinstance(x, devices.ndarray) else x
                for x in arrays]
    key = (number, op.name, *[x if isinstance(x, TensorType) else param_key(x) for x in operands],
           *[(k, param_key(v)) for k, v in sorted(params.items())])
    call = _PROGRAMS.get(key, op.name, lambda: _compile_op(op, operands, params, number))
    return call([x for x in arrays if isinstance(x, devices.ndarray)])[0] if call else None


def _compile_op(op: Op, operands: Sequence[Any], params: dict[str, Any], number: int
                ) -> CompiledOp | None:
    try:
        return compile_on(graph_of_op(op, operands, params), gpu(number))
    except CodegenError:
        return None


def graph_of_op(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Graph:
    """The graph of one op on values of these types, and on numbers."""
    nodes = Nodes()
    inputs = {i: nodes.input(f"x{i}", t) for i, t in enumerate(operands)
              if isinstance(t, TensorType)}
    arguments = [as_tensor(inputs[i]) if i in inputs else x for i, x in enumerate(operands)]
    out = GraphBuilder(nodes).apply(op, tuple(arguments), params)._data
    return Graph(tuple(inputs.values()), (out.node,))


def in_range(x: Any, size: int, low: int) -> bool:
    """True if every element of an array on a GPU is in low ... size - 1, checked by one kernel."""
    key = x.device.id, "in_range", TensorType(x.shape, x.dtype), size, low
    call = _PROGRAMS.get(key, "in_range", lambda: _compile_range_check(*key))
    return not bool(call([x])[0] if call else ((x < low) | (x >= size)).any())


def _compile_range_check(number: int, name: str, of: TensorType, size: int, low: int) -> CompiledOp:
    def is_outside(x: Tensor) -> Tensor:
        wide = cast(x, int64)
        return any_((wide < low) | (wide >= size))

    nodes = Nodes()
    arguments = nodes.input("x", of)
    outside = build(nodes, is_outside, (arguments,), {}, name)
    return compile_on(Graph((arguments,), (outside,)), gpu(number))


on_device.compiled = run_op
range_checks.on_gpu = in_range
