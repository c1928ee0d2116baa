"""Data-dependent sizes, such as the number of elements that a mask selects.

Such a size is a symbol of the trace, like the size of a dynamic axis. Questions about it are
decisions of the path, since its value is known only during the run. A replay computes the op in a
graph of its own and reads the size from the shape of the result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.errors import FusewireError
from ..graph.graph import Node
from ..scalars.symbolic_scalar import plain_value
from ..sizes.symbolic_dim import Dim


class DataDependentSize(NamedTuple):
    """An element of a path: a node is computed whose size is data-dependent."""

    node: Node
    site: str

    @property
    def name(self) -> str:
        """The name of its size."""
        return str(self.node.params["size"].expr)


def decide_failure(tracer: Any, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
    """Makes the failure of an op depend on data-dependent sizes, since other sizes may succeed.
    Either the shape rule of the op asks about the sizes and fails, or their exact values become
    decisions of the run."""
    sizes = tracer.sizes
    if not sizes.values:
        return
    types = [tracer.node_of(x).type if isinstance(x, Tensor) else plain_value(x) for x in inputs]
    try:
        op.result(*types, **params)
    except FusewireError:
        return
    for n in (n for kind in types if isinstance(kind, TensorType) for n in kind.shape):
        if type(n) is Dim and sizes.is_measured(n.expr):
            sizes.leak(n, "an op that fails")
