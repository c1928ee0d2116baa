"""Ops as native code for exactly their sizes: what has no rows, or takes several kernels.

Products and convolutions come to this where NumPy takes long for them, which their sizes tell: so
equal calls have equal bits. Factors of a product are read in the order in which they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capture.graph.graph import Graph, Nodes, param_key
from ...capture.heap.code_tracker import observing
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.errors import CodegenError
from ...eager.ops.products.contract import parts
from ...eager.settings import settings
from ..compile import compile_native
from ..program.native_call import ProgramCall, contiguous
from .cache import SpecializationCache

Call = Callable[[Sequence[Any]], Any]

WORTH = 1 << 15  # nanoseconds that NumPy takes, from which on an op that tells has its own code


def is_long(op: Op, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether NumPy takes long for an op that tells how long."""
    return op.work is not None and op.work(*types, **params) >= WORTH


def call_at_once(op: Op, types: Sequence[Any], params: dict[str, Any], programs: SpecializationCache
                 ) -> Call | None:
    """A function of arrays of these types to the op's result; None where there is no code."""
    if op.kind == "contract":
        return _product(op, types, params, programs)
    return _made(op, types, params, programs)


def _made(op: Op, types: Sequence[Any], params: dict[str, Any],
          programs: SpecializationCache) -> Call | None:
    key = (op.name, settings.winograd, settings.winograd_training, *types,
           *[(k, param_key(v)) for k, v in params.items()])
    if op.work is not None and observing() and key not in programs.made:
        return None  # what is recorded gets code as a whole
    found: Call | None = programs.get(key, op.name, lambda: _compiled(op, types, params))
    return found


def _compiled(op: Op, types: Sequence[TensorType], params: dict[str, Any]) -> Call | None:
    nodes = Nodes()
    inputs = tuple([nodes.input(f"x{i}", t) for i, t in enumerate(types)])
    out = nodes.apply(op.name, inputs, params)
    try:
        made = compile_native(Graph(inputs, (out,)))
    except CodegenError:
        return None
    if not made.is_plain:
        return lambda arrays: made([np.ascontiguousarray(x) for x in arrays])[0]
    constants = made.interface.constants
    return contiguous(ProgramCall(made.program, len(inputs), [out.type], constants,
                                  arena=made.arena))


# ---- products
def _product(op: Op, types: Sequence[TensorType], params: dict[str, Any],
             programs: SpecializationCache
             ) -> Call | None:
    """The same of a product, by a program for each order of axes that its factors come in."""
    calls: dict[Any, Call] = {}

    def run(arrays: Sequence[Any]) -> Any:
        orders = tuple([None if x.flags.c_contiguous else order_of(x) for x in arrays])
        call = calls.get(orders)
        if call is None:
            turned = {"spec": _turned(params["spec"], orders)}
            kinds = [TensorType(_view(x, order).shape, x.dtype) for x, order in zip(arrays, orders)]
            call = _made(op, kinds, turned, programs)
            if call is None:
                return None
            calls[orders] = call
        return call([_view(x, order) for x, order in zip(arrays, orders)])

    return run


def order_of(x: Any) -> tuple[int, ...] | None:
    """The order of axes in which the elements of `x` lie side by side; None if there is none."""
    order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
    return tuple(order) if x.transpose(order).flags.c_contiguous else None


def _view(x: Any, order: tuple[int, ...] | None) -> Any:
    return x if order is None else x.transpose(order)


def _turned(spec: str, orders: Sequence[tuple[int, ...] | None]) -> str:
    left, right, out = parts(spec)
    factors = [side if order is None else "".join([side[i] for i in order])
               for side, order in zip((left, right), orders)]
    return f"{factors[0]},{factors[1]}->{out}"
