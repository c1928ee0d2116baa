"""The nodes of all runs of one function: what is computed again is the same node in each of them.

So two runs that go the same way have the same decisions, and where they part can be seen.
"""

from __future__ import annotations

from typing import Any

from ..eager.shapes import TensorType
from .dims import Sizes
from .graph import Node, Nodes
from .numbers import Formula
from .paths import Path


class Names:
    """Nodes, and where those that are inputs get their values."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.sizes = Sizes({})  # the symbols among sizes; their values are those of the last run
        self.paths: dict[Node, Path] = {}  # tensors that are read from outside
        self.numbers: dict[Node, Formula] = {}  # Python numbers, as operands of ops
        self.turned: dict[Any, Any] = {}  # ways back through turns of loops, see `turns.py`
        self.rolls_gradients = True  # whether loops may carry what has a gradient
        self.held: dict[int, Any] = {}  # objects that paths begin with, by id
        self._numbered: dict[Any, int] = {}

    def tensor(self, path: Path, type: TensorType) -> Node:
        """The input that is the tensor at `path`."""
        node = self.nodes.input(f"x{self._number(path)}", type)
        self.paths[node] = path
        return node

    def number(self, formula: Formula, type: TensorType) -> Node:
        """The input that is a Python number, as an element of a dtype."""
        node = self.nodes.input(f"n{self._number(formula)}", type)
        self.numbers[node] = formula
        return node

    def phi(self, key: Any, type: TensorType) -> Node:
        """The input that is what a loop carries from turn to turn."""
        return self.nodes.input(f"p{self._number(key)}", type)

    def _number(self, key: Any) -> int:
        return self._numbered.setdefault(key, len(self._numbered))
