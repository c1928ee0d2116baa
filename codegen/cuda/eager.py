"""Ops on tensors of a GPU as kernels of their own: what CuPy has not, or has otherwise than NumPy.

An op is a graph of one node, compiled once for the types of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...capture.builder import Builder, as_tensor
from ...capture.graph import Graph, Nodes, param_key
from ...eager import devices, on_device
from ...eager.errors import CodegenError
from ...eager.op import Op
from ...eager.shapes import TensorType
from ..variants import Variants
from .device import gpu
from .executable import compile_on

Call = Callable[[list[Any]], list[Any]]

_PROGRAMS = Variants()


def run(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of an op on arrays of the current GPU and numbers; None where there is no code for
    it, or where it comes with too many shapes for a program each."""
    number = devices.cupy().cuda.runtime.getDevice()
    operands = [TensorType(x.shape, x.dtype) if isinstance(x, devices.ndarray) else x
                for x in arrays]
    key = (number, op.name, *[x if isinstance(x, TensorType) else param_key(x) for x in operands],
           *[(k, param_key(v)) for k, v in sorted(params.items())])
    call = _PROGRAMS.get(key, op.name, lambda: _compiled(op, operands, params, number))
    return call([x for x in arrays if isinstance(x, devices.ndarray)])[0] if call else None


def _compiled(op: Op, operands: Sequence[Any], params: dict[str, Any], number: int
              ) -> Call | None:
    try:
        return compile_on(graph_of(op, operands, params), gpu(number))
    except CodegenError:
        return None


def graph_of(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Graph:
    """The graph of one op on values of these types, and on numbers."""
    nodes = Nodes()
    inputs = {i: nodes.input(f"x{i}", t) for i, t in enumerate(operands)
              if isinstance(t, TensorType)}
    given = [as_tensor(inputs[i]) if i in inputs else x for i, x in enumerate(operands)]
    out = Builder(nodes).apply(op, tuple(given), params)._data
    return Graph(tuple(inputs.values()), (out.node,))


on_device.compiled = run
