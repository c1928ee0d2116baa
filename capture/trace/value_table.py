"""Numbers the values of all traces of one function: equal computations are the same node.

So two runs on one path have equal decisions, and the decision at which their paths part is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...eager.arrays import dtypes
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ..graph.device_placement import devices_of
from ..graph.graph import Node, Nodes
from ..heap.access_path import Path
from ..scalars.scalar_expr import ScalarExpr
from ..sizes.symbolic_dim import ShapeEnv


class ValueTable:
    """The nodes of a function, and the sources of those that are inputs."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.sizes = ShapeEnv({})  # symbolic sizes, with the values of the last run
        self.paths: dict[Node, Path] = {}  # tensors read from outside
        self.numbers: dict[Node, ScalarExpr] = {}  # Python numbers, as operands of ops
        self.data_dependent: dict[Node, None] = {}  # nodes with a data-dependent size
        self.iteration_vjps: dict[Any, Any] = {}  # by back edge and slots
        self.symbolic_scalars = True  # False where code looks at types
        self.compares_views = False  # states of loops include which tensors are views of which
        self.rolls_sizes = True  # loops over dynamic sizes are traced as loops
        self.may_import = True  # a call that imports a module may be followed by another trace
        self.rolls_gradients = True  # loops may carry tensors that require gradients
        self.carried: dict[Any, set[Any]] = {}  # carried values by location of the loop
        self.row_types: dict[Any, dict[str, Any]] = {}  # of lists that loops fill, by location
        self.changed_row_types = 0
        self.peeled_loops: set[Any] = set()  # locations; see `LoopDetector.count`
        self.merged_inputs: list[Path] = []  # that a variable names on some of the merged paths
        self.held: dict[int, Any] = {}  # roots of access paths, by id
        self._numbers_by_key: dict[Any, int] = {}

    @property
    def rules(self) -> tuple[bool, ...]:
        """The rules by which runs are traced now. Runs that follow others can have another path."""
        return self.symbolic_scalars, self.compares_views, self.rolls_sizes, self.rolls_gradients

    def tensor(self, path: Path, type: TensorType, device: str) -> Node:
        """The input node for the tensor at `path`, on this device."""
        node = self.nodes.input(f"x{self._number(path)}", type, device)
        self.paths[node] = path
        return node

    def number(self, formula: ScalarExpr, type: TensorType) -> Node:
        """The input node for a Python number, as an element of a dtype."""
        node = self.nodes.input(f"n{self._number(formula)}", type)
        self.numbers[node] = formula
        return node

    def phi(self, key: Any, like: Node) -> Node:
        """The input node for a phi of a loop header or merge point, with the type of `like`."""
        (device,) = devices_of([like])
        return self.nodes.input(f"p{self._number(key)}", like.type, device)

    def phis(self, token: Any, values: Sequence[Node]) -> tuple[Node, ...]:
        """The input nodes for the phis with these incoming values."""
        return tuple([self.phi((token, i), v) for i, v in enumerate(values)])

    def measured(self, op: Op, x: Node, sizes: ShapeEnv, value: int) -> Node:
        """The result of an op with a data-dependent size, which is `value` in this run. The symbol
        of the size depends on the op and `x` only, so that all runs use the same one."""
        size = sizes.measure(f"m{self._number((op.name, x))}", value)
        node = self.nodes.make(op.name, (x,), {"size": size}, op.result(x.type, size=size))
        self.data_dependent[node] = None
        return node

    def size_of_number(self, formula: ScalarExpr, sizes: ShapeEnv, value: int) -> tuple[Any, Node]:
        """The size that a number is, which is `value` in this run, and a node of this size."""
        name = f"m{self._number(('size', formula))}"
        size = sizes.measure(name, value)
        node = self.nodes.input(name, TensorType((size,), dtypes.bool))
        self.data_dependent[node] = None
        return size, node

    def _number(self, key: Any) -> int:
        return self._numbers_by_key.setdefault(key, len(self._numbers_by_key))
