"""Runs functions of tensors on graph nodes: each op that the function calls becomes a node.

Passes use this to expand decompositions and vjps. The tensors have a type and no values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...eager import interpreter
from ...eager.arrays.shapes import TensorType
from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.errors import CaptureError
from ...eager.ops.declare import dtype_of_operands
from ..sizes.symbolic_dim import Dim
from .device_placement import devices_of
from .graph import Node, Nodes


class _BuiltValue(TensorType):
    """The data of a tensor without values: its type and its node."""

    node: Node

    def device_name(self) -> str:
        """The name of the device that the node is on."""
        return devices_of([self.node])[0]


def as_tensor(node: Node) -> Tensor:
    """A tensor without values that represents `node`."""
    value = _BuiltValue(node.type.shape, node.type.dtype)
    object.__setattr__(value, "node", node)
    return Tensor(value)


class GraphBuilder:
    """An interpreter that records each op as a node."""

    can_read_values = False
    keeps_layers = False

    def __init__(self, nodes: Nodes, site: str = "") -> None:
        self.nodes, self.site = nodes, site
        self.ordered: list[Node] = []  # nodes of ordered ops, each of which reads the one before
        self.after: list[Node] = []  # the node that the first of them reads, if any

    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        operands, params = self.in_order(op, inputs, params)
        return self.noted(op, self.nodes.apply(op.name, operands, params, self.site))

    def in_order(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]
                 ) -> tuple[list[Node], dict[str, Any]]:
        """The nodes of operands, and the params: an ordered op also reads the one before and gets
        a number below 0, which no traced op has."""
        operands = self.operands(inputs)
        if not op.ordered:
            return operands, params
        turn = -1 - len(self.ordered)
        return operands + (self.ordered[-1:] or self.after), {**params, "turn": turn}

    def noted(self, op: Op, node: Node) -> Tensor:
        """The tensor of a node that has been made for `op`."""
        if op.ordered:
            self.ordered.append(node)
        return as_tensor(node)

    def operands(self, inputs: tuple[Any, ...]) -> list[Node]:
        """The nodes of operands: a number becomes a constant of the dtype it adapts to."""
        types = [x._data if isinstance(x, Tensor) else x for x in inputs]
        return [x._data.node if isinstance(x, Tensor) else
                self.nodes.const(*literal(x, dtype_of_operands(tuple(types)))) for x in inputs]

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        return tensor._data.shape  # type: ignore[no-any-return]

    def note_constant(self, tensor: Tensor) -> None:
        array = tensor._data
        tensor._data = as_tensor(constant(self.nodes, array))._data

    def changed(self, tensor: Tensor) -> None:
        pass

    def reads_grad(self, tensor: Tensor) -> None:
        pass

    def sets_grad(self, tensor: Tensor) -> None:
        pass

    def reads_values(self, tensor: Tensor, how: str) -> None:
        raise CaptureError(f"{how} of a tensor that has no values while a graph is being built")

    def item(self, tensor: Tensor, value: Any) -> Any:
        return value

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        return None


def literal(x: Any, dtype: Any) -> tuple[Any, Any]:
    """A number converted to `dtype`, and `dtype`. A symbolic size stays symbolic."""
    if type(x) is Dim:
        return x, dtype
    with np.errstate(over="ignore"):  # 1e10 as float16 is inf
        return dtype.type(x).item(), dtype


def on_tape(x: Any, node: Node) -> Any:
    """An operand for a tape of nodes: a plain number itself, or the data that represents `node`."""
    plain = node.op == "const" and not hasattr(x, "shape") and type(node.params["value"]) is not Dim
    return x if plain else as_tensor(node)._data


def constant(nodes: Nodes, array: Any) -> Node:
    """The constant node of a small array."""
    flat = array.reshape(-1).tolist()
    return nodes.const(tuple(flat) if array.shape else flat[0], np.dtype(array.dtype), array.shape)


@contextlib.contextmanager
def building(builder: GraphBuilder) -> Iterator[None]:
    """A context in which ops go to `builder`."""
    before, casting = interpreter.STATE.active, interpreter.STATE.casting
    try:
        interpreter.STATE.active = builder
        interpreter.set_casting(None)  # the rewritten ops have their dtypes already
        yield
    finally:
        interpreter.STATE.active = before
        interpreter.set_casting(casting)


def build(nodes: Nodes, fn: Callable[..., Tensor], inputs: tuple[Node, ...],
          params: dict[str, Any], site: str = "") -> Node:
    """The node of fn(*inputs, **params), whose ops become nodes of `nodes`."""
    with building(GraphBuilder(nodes, site)):
        out = fn(*[as_tensor(n) for n in inputs], **params)
        return out._data.node  # type: ignore[no-any-return]
