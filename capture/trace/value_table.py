"""The nodes of all runs of one function: what is computed again is the same node in each of them.

So two runs that go the same way have the same decisions, and where they part can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ..graph.device_placement import devices_of
from ..graph.graph import Node, Nodes
from ..heap.access_path import Path
from ..scalars.scalar_expr import ScalarExpr
from ..sizes.symbolic_dim import ShapeEnv


class ValueTable:
    """Nodes, and where those that are inputs get their values."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.sizes = ShapeEnv({})  # the symbols among sizes; their values are those of the last run
        self.paths: dict[Node, Path] = {}  # tensors that are read from outside
        self.numbers: dict[Node, ScalarExpr] = {}  # Python numbers, as operands of ops
        self.measures: dict[Node, None] = {}  # whose size only running tells
        self.turned: dict[Any, Any] = {}  # ways back through turns of loops, see `turns.py`
        self.follows_numbers = True  # whether numbers may be symbols: not where types are looked at
        self.rolls_gradients = True  # whether loops may carry what has a gradient
        self.carried: dict[Any, set[Any]] = {}  # what loops change, by the place of the loop
        self.apart: set[Any] = set()  # places of loops whose first turn is recorded by itself
        self.held: dict[int, Any] = {}  # objects that paths begin with, by id
        self._numbered: dict[Any, int] = {}

    def tensor(self, path: Path, type: TensorType, device: str) -> Node:
        """The input that is the tensor at `path`, on this device."""
        node = self.nodes.input(f"x{self._number(path)}", type, device)
        self.paths[node] = path
        return node

    def number(self, formula: ScalarExpr, type: TensorType) -> Node:
        """The input that is a Python number, as an element of a dtype."""
        node = self.nodes.input(f"n{self._number(formula)}", type)
        self.numbers[node] = formula
        return node

    def phi(self, key: Any, like: Node) -> Node:
        """The input that is what a loop carries from turn to turn, of the type of a node."""
        (device,) = devices_of([like])
        return self.nodes.input(f"p{self._number(key)}", like.type, device)

    def phis(self, token: Any, values: Sequence[Node]) -> tuple[Node, ...]:
        """The inputs that are what a place carries, which begins with these values."""
        return tuple([self.phi((token, i), v) for i, v in enumerate(values)])

    def measured(self, op: Op, x: Node, sizes: ShapeEnv, value: int) -> Node:
        """What an op makes of `x` whose size, now `value`, only the values of `x` tell: a size of
        its own for each op and `x`, so that all runs call it the same."""
        size = sizes.measure(f"m{self._number((op.name, x))}", value)
        node = self.nodes.make(op.name, (x,), {"size": size}, op.result(x.type, size=size))
        self.measures[node] = None
        return node

    def _number(self, key: Any) -> int:
        return self._numbered.setdefault(key, len(self._numbered))
