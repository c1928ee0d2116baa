"""Runs a sequence of deferred ops as one graph, a subgraph.

Two runs with the same ops and the same data flow share a subgraph. Their arrays and numbers may
differ. A subgraph is evaluated op by op on its first run and compiled on its second. Numbers that
differed between these runs become inputs of the program. Other numbers become constants in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...eager.arrays.shapes import TensorType
from ...eager.core.dispatch import evaluate
from ...eager.core.tensor import Tensor
from ...eager.errors import CodegenError
from ..graph.graph import Graph, Node, Nodes
from ..graph.graph_builder import literal
from ..lazy.lazy_array import LazyOp
from ..lazy.op_signature import as_array
from ..runtime.compile_queue import ready
from ..segments.segment import Backend, Executable

TOO_DEEP = "a chain of ops is deeper than Python's stack allows"


class SubgraphTrace:
    """The steps of a subgraph in order, with their distinct input arrays and numbers.

    `key` is equal for subgraphs of equal structure. It holds the signature of each step, the
    indices of its inputs, and the indices of the `outputs`. Arrays, numbers and steps are
    counted separately. `operands` holds the kind and index of each input of each step.
    """

    def __init__(self, steps: Sequence[LazyOp], outputs: Sequence[LazyOp]) -> None:
        self.steps, self.outputs = steps, outputs
        self.arrays: list[Any] = []
        self.numbers: list[tuple[Any, Any]] = []  # each with its dtype in the graph
        self.operands: list[tuple[tuple[str, int] | None, ...]] = []  # of inputs
        self._array_at: dict[int, tuple[str, int]] = {}
        self._number_at: dict[Any, tuple[str, int]] = {}
        self._step_at = {step: ("step", i) for i, step in enumerate(steps)}
        key: list[Any] = []
        for step in steps:
            slots = step.signature.slots
            operands = tuple([self._operand(x, slot) for x, slot in zip(step.inputs, slots)])
            self.operands.append(operands)
            key += (step.signature, operands)
        self.key = (*key, *[self._step_at[step][1] for step in outputs])

    def _operand(self, x: Any, slot: Any) -> tuple[str, int] | None:
        """The kind and index of an input; None for a number that its step's signature holds."""
        if type(x) is LazyOp and x.value is None:
            return self._step_at[x]
        if type(x) is LazyOp or hasattr(x, "shape"):
            value = x.value if type(x) is LazyOp else x
            operand = self._array_at.get(id(value))
            if operand is None:
                operand = self._array_at[id(value)] = ("array", len(self.arrays))
                self.arrays.append(value)
            return operand
        if slot is None:
            return None
        exact = (x or repr(x), type(x), slot)  # 0.0 is not -0.0
        operand = self._number_at.get(exact)
        if operand is None:
            operand = self._number_at[exact] = ("number", len(self.numbers))
            self.numbers.append((x, slot))
        return operand

    def values(self) -> list[Any]:
        """The arrays of the wanted steps, computed op by op as eager does."""
        arrays: list[Any] = [None] * len(self.steps)
        last_uses = self._last_uses()
        for i, (step, operands) in enumerate(zip(self.steps, self.operands)):
            arrays[i] = evaluate(step.signature.op, tuple([
                x if operand is None or operand[0] == "number" else
                Tensor(arrays[operand[1]] if operand[0] == "step" else self.arrays[operand[1]])
                for x, operand in zip(step.inputs, operands)]), step.signature.params)._data
            for dead in last_uses[i]:
                arrays[dead] = None
        return [arrays[self._step_at[step][1]] for step in self.outputs]

    def _last_uses(self) -> list[list[int]]:
        """For each step, the steps whose arrays are not needed after it."""
        last: dict[int, int] = {}
        for i, operands in enumerate(self.operands):
            for operand in operands:
                if operand is not None and operand[0] == "step":
                    last[operand[1]] = i
        for step in self.outputs:
            last.pop(self._step_at[step][1], None)
        dead_after: list[list[int]] = [[] for _ in self.steps]
        for used, i in last.items():
            dead_after[i].append(used)
        return dead_after

    def graph(self, varying: Sequence[int]) -> Graph:
        """The steps as a graph. Its inputs are the arrays and the numbers at indices `varying`."""
        nodes = Nodes()
        arrays = [nodes.input(f"x{i}", TensorType(a.shape, a.dtype))
                  for i, a in enumerate(self.arrays)]
        numbers = [nodes.input(f"n{i}", TensorType((), dtype)) if i in varying else
                   nodes.const(*literal(x, dtype)) for i, (x, dtype) in enumerate(self.numbers)]
        step_nodes: list[Node] = []
        nodes_by_kind = {"array": arrays, "number": numbers, "step": step_nodes}
        for step, operands in zip(self.steps, self.operands):
            signature = step.signature
            inputs = [nodes.const(*signature.constants[i]) if operand is None
                      else nodes_by_kind[operand[0]][operand[1]]
                      for i, operand in enumerate(operands)]
            step_nodes.append(nodes.make(signature.op.name, inputs, signature.params,
                                         signature.type, step.site))
        outputs = tuple([step_nodes[self._step_at[step][1]] for step in self.outputs])
        return Graph((*arrays, *[numbers[i] for i in varying]), outputs)

    def exact_numbers(self) -> tuple[Any, ...]:
        """The numbers in a form in which equality means equal bits."""
        return tuple([x.hex() if type(x) is float else x for x, _ in self.numbers])


class SubgraphCode(NamedTuple):
    """A program with its graph, and the indices of the numbers that it takes after the arrays."""

    graph: Graph
    program: Executable
    varying: tuple[int, ...]

    def run(self, trace: SubgraphTrace) -> list[Any]:
        """The arrays of the steps that `trace` wants."""
        numbers = [as_array(*trace.numbers[i]) for i in self.varying]
        return self.program([*trace.arrays, *numbers])


class Subgraph:
    """The state of one subgraph structure: the numbers of its first run, and its code."""

    def __init__(self, numbers: tuple[Any, ...]) -> None:
        self.numbers = numbers
        self.varying: tuple[int, ...] = ()  # indices of numbers that have differed since
        self.code: SubgraphCode | None = None
        self.why_not = ""  # the reason that prevents compilation

    def code_for(self, numbers: tuple[Any, ...]) -> SubgraphCode | None:
        """The code if it is valid for these numbers; None if it must be compiled."""
        if numbers != self.numbers:
            differing = [i for i, (x, y) in enumerate(zip(numbers, self.numbers)) if x != y]
            if not set(differing) <= set(self.varying):
                # When other numbers differ a second time, all of them become inputs.
                self.varying = tuple(differing) if self.code is None else tuple(range(len(numbers)))
                self.code = None
        return self.code

    def compile(self, trace: SubgraphTrace, backend: Backend) -> None:
        """Compiles the subgraph, or stores the reason of the failure in `why_not`."""
        try:
            graph = trace.graph(self.varying)
            self.code = SubgraphCode(graph, backend(graph), self.varying)
        except CodegenError as error:
            self.why_not = error.message
        except RecursionError:
            self.why_not = TOO_DEEP

    def look(self) -> None:
        """Takes over code that the background thread has finished, or the reason of its failure."""
        if self.code is not None:
            try:
                self.code = self.code._replace(program=ready(self.code.program))
            except CodegenError as error:
                self.code, self.why_not = None, error.message
