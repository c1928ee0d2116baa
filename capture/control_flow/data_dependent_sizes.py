"""Sizes that are found while a function runs: how many elements a mask chooses.

Such a size is a symbol of the recording, like that of an axis which varies, but its questions are
decisions of the way that a run takes: the answers are known only once it has come there. A replay
computes the op by itself, and the shape of what it gives tells the size to all that follows.
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
    """An element of a recorded path: a node is computed whose size was not known before."""

    node: Node
    site: str

    @property
    def name(self) -> str:
        """The name of its size."""
        return str(self.node.params["size"].expr)


def decide_failure(recorder: Any, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
    """An op has failed: for other sizes it might not. So what its rule asks of them is part of the
    run, or, where that finds nothing wrong, the measured sizes themselves are."""
    sizes = recorder.sizes
    if not sizes.values:
        return
    types = [recorder.node_of(x).type if isinstance(x, Tensor) else plain_value(x) for x in inputs]
    try:
        op.result(*types, **params)
    except FusewireError:
        return
    for n in (n for kind in types if isinstance(kind, TensorType) for n in kind.shape):
        if type(n) is Dim and sizes.is_measured(n.expr):
            sizes.leak(n, "an op that fails")
