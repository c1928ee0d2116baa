"""Sizes that are found while a function runs: how many elements a mask chooses.

Such a size is a symbol of the recording, like that of an axis which varies, but its questions are
decisions of the way that a run takes: the answers are known only once it has come there. A replay
computes the op by itself, and the shape of what it gives tells the size to all that follows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..eager.tensor import Tensor
from .graph import Node


class Measure(NamedTuple):
    """An element of a recorded path: a node is computed whose size was not known before."""

    node: Node
    site: str

    @property
    def name(self) -> str:
        """The name of its size."""
        return str(self.node.params["size"].expr)


def fixed_by_error(recorder: Any, inputs: tuple[Any, ...]) -> None:
    """An op has failed: for other measured sizes it might not, so these sizes are decisions."""
    sizes = recorder.sizes
    for x in inputs if sizes.measured else ():
        for n in recorder.node_of(x).type.shape if isinstance(x, Tensor) else ():
            if type(n) is not int and sizes.is_measured(n.expr):
                recorder._asked("value", n.expr, n.value)
