"""Results as templates: how to put together what a call returns from the program's outputs."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..eager.tensor import Tensor
from .graph import Node
from .numbers import Formula, Number
from .reading import Reader
from .recorder import Recorder
from .state import FIXED, is_plain

Read = Reader
Make = Callable[[list[Any], Read], Any]  # (the tensors of this call, reader of paths) -> the object


class Outputs:
    """The values that templates refer to: distinct nodes, and tensors made over them."""

    def __init__(self, recorder: Recorder) -> None:
        self.nodes: list[Node] = []
        self.formulas: list[Formula] = []  # of Python numbers that are computed in each call
        self.tensors: list[tuple[int, Tensor]] = []  # (which node, the tensor of the recorded run)
        self._of_node: dict[Node, int] = {}
        self._of_tensor: dict[int, int] = {}
        self._recorder = recorder

    def node(self, tensor: Tensor) -> int:
        """The number of the node that holds a tensor's value."""
        node = self._recorder.node_of(tensor)
        if node not in self._of_node:
            self._of_node[node] = len(self.nodes)
            self.nodes.append(node)
        return self._of_node[node]

    def tensor(self, tensor: Tensor) -> int:
        """The number of a tensor that leaves the run; the same tensor twice is one."""
        if id(tensor) not in self._of_tensor:
            self._of_tensor[id(tensor)] = len(self.tensors)
            self.tensors.append((self.node(tensor), tensor))
        return self._of_tensor[id(tensor)]

    def template(self, value: Any) -> Make:
        """How to make `value` again. A value that cannot be made again refuses the recording."""
        kind = type(value)
        if kind is Number:
            formula = value.formula
            self.formulas.append(formula)
            return lambda tensors, read: read.number(formula)
        if is_plain(value) or isinstance(value, FIXED):
            return lambda tensors, read: value
        path = self._recorder.state.paths.get(id(value))
        if path is not None:
            return lambda tensors, read: read(path)
        if isinstance(value, Tensor):
            i = self.tensor(value)
            return lambda tensors, read: tensors[i]
        if kind in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return self._sequence(value, kind)
        if kind is dict:
            pairs = [(k, self.template(v)) for k, v in value.items()]
            return lambda tensors, read: {k: make(tensors, read) for k, make in pairs}
        if kind is types.FunctionType and not (value.__closure__ or value.__defaults__):
            return lambda tensors, read: value
        self._recorder.refuse(f"an object of class {kind.__name__} is made that outlives the call")
        return lambda tensors, read: value

    def _sequence(self, value: Any, kind: type) -> Make:
        parts = [self.template(v) for v in value]
        named = hasattr(value, "_fields")

        def make(tensors: list[Any], read: Read) -> Any:
            made = [part(tensors, read) for part in parts]
            return kind(*made) if named else kind(made)

        return make
