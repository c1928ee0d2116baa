"""A piece: ops that were put off one after the other, run as one graph.

Two runs of a function that put off the same ops in the same places have the same piece, whatever
arrays and numbers they work on. It is evaluated op by op when it is met first, and compiled when it
is met again: numbers that differ by then are inputs of the program, others are part of it.
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
from ..lazy.array import LazyOp
from ..lazy.op_signature import as_array
from ..runtime.compile_queue import ready
from ..segments.segment import Backend, Executable

TOO_DEEP = "a chain of ops is deeper than Python's stack allows"


class SubgraphTrace:
    """Steps in order with what they work on, each array and each number once.

    `key` is equal for equal structures: of each step its result and the places of its inputs, with
    arrays, numbers and steps counted each by themselves; and which steps are wanted.
    """

    def __init__(self, steps: Sequence[LazyOp], wanted: Sequence[LazyOp]) -> None:
        self.steps, self.wanted = steps, wanted
        self.arrays: list[Any] = []
        self.numbers: list[tuple[Any, Any]] = []  # with the dtype that each becomes
        self.places: list[tuple[tuple[str, int] | None, ...]] = []  # of each step's inputs
        self._array_at: dict[int, tuple[str, int]] = {}
        self._number_at: dict[Any, tuple[str, int]] = {}
        self._step_at = {step: ("step", i) for i, step in enumerate(steps)}
        key: list[Any] = []
        for step in steps:
            slots = step.signature.slots
            places = tuple([self._place(x, slot) for x, slot in zip(step.inputs, slots)])
            self.places.append(places)
            key += (step.signature, places)
        self.key = (*key, *[self._step_at[step][1] for step in wanted])

    def _place(self, x: Any, slot: Any) -> tuple[str, int] | None:
        """Where an input stands; None for a number that is part of its step's result."""
        if type(x) is LazyOp and x.value is None:
            return self._step_at[x]
        if type(x) is LazyOp or hasattr(x, "shape"):
            value = x.value if type(x) is LazyOp else x
            found = self._array_at.get(id(value))
            if found is None:
                found = self._array_at[id(value)] = ("array", len(self.arrays))
                self.arrays.append(value)
            return found
        if slot is None:
            return None
        exact = (x or repr(x), type(x), slot)  # 0.0 is not -0.0
        found = self._number_at.get(exact)
        if found is None:
            found = self._number_at[exact] = ("number", len(self.numbers))
            self.numbers.append((x, slot))
        return found

    def values(self) -> list[Any]:
        """The arrays of the wanted steps, computed op by op as eager does."""
        made: list[Any] = [None] * len(self.steps)
        last = self._last_uses()
        for i, (step, places) in enumerate(zip(self.steps, self.places)):
            made[i] = evaluate(step.signature.op, tuple([
                x if place is None or place[0] == "number" else
                Tensor(made[place[1]] if place[0] == "step" else self.arrays[place[1]])
                for x, place in zip(step.inputs, places)]), step.signature.params)._data
            for done in last[i]:
                made[done] = None
        return [made[self._step_at[step][1]] for step in self.wanted]

    def _last_uses(self) -> list[list[int]]:
        """For each step, the steps whose arrays are not needed after it."""
        last: dict[int, int] = {}
        for i, places in enumerate(self.places):
            for place in places:
                if place is not None and place[0] == "step":
                    last[place[1]] = i
        for step in self.wanted:
            last.pop(self._step_at[step][1], None)
        found: list[list[int]] = [[] for _ in self.steps]
        for used, i in last.items():
            found[i].append(used)
        return found

    def graph(self, varying: Sequence[int]) -> Graph:
        """The same as a graph of the arrays and of the numbers at the places `varying`."""
        nodes = Nodes()
        arrays = [nodes.input(f"x{i}", TensorType(a.shape, a.dtype))
                  for i, a in enumerate(self.arrays)]
        numbers = [nodes.input(f"n{i}", TensorType((), dtype)) if i in varying else
                   nodes.const(*literal(x, dtype)) for i, (x, dtype) in enumerate(self.numbers)]
        made: list[Node] = []
        found = {"array": arrays, "number": numbers, "step": made}
        for step, places in zip(self.steps, self.places):
            result = step.signature
            inputs = [nodes.const(*result.constants[i]) if place is None
                      else found[place[0]][place[1]] for i, place in enumerate(places)]
            made.append(nodes.make(result.op.name, inputs, result.params, result.type, step.site))
        outputs = tuple([made[self._step_at[step][1]] for step in self.wanted])
        return Graph((*arrays, *[numbers[i] for i in varying]), outputs)

    def exact_numbers(self) -> tuple[Any, ...]:
        """The numbers so that equal ones have equal bits."""
        return tuple([x.hex() if type(x) is float else x for x, _ in self.numbers])


class SubgraphCode(NamedTuple):
    """A program, and the numbers by place that are inputs of it, after the arrays."""

    program: Executable
    varying: tuple[int, ...]

    def run(self, trace: SubgraphTrace) -> list[Any]:
        """The arrays of the steps that `trace` wants."""
        numbers = [as_array(*trace.numbers[i]) for i in self.varying]
        return self.program([*trace.arrays, *numbers])


class Subgraph:
    """What is known of one structure: the numbers of its first run, and its code."""

    def __init__(self, numbers: tuple[Any, ...]) -> None:
        self.numbers = numbers
        self.varying: tuple[int, ...] = ()  # places of numbers that differed since
        self.code: SubgraphCode | None = None
        self.why_not = ""  # why there can be no code

    def code_for(self, numbers: tuple[Any, ...]) -> SubgraphCode | None:
        """The code where it is one for these numbers; None where it is to be made."""
        if numbers != self.numbers:
            differ = [i for i, (x, y) in enumerate(zip(numbers, self.numbers)) if x != y]
            if not set(differ) <= set(self.varying):
                # the second time that other numbers differ, all of them may
                self.varying = tuple(differ) if self.code is None else tuple(range(len(numbers)))
                self.code = None
        return self.code

    def compile(self, trace: SubgraphTrace, backend: Backend) -> None:
        """Makes the code, or notes why there can be none."""
        try:
            self.code = SubgraphCode(backend(trace.graph(self.varying)), self.varying)
        except CodegenError as error:
            self.why_not = error.message
        except RecursionError:
            self.why_not = TOO_DEEP

    def look(self) -> None:
        """Takes what another thread has made by now, or notes why there can be no code."""
        if self.code is not None:
            try:
                self.code = self.code._replace(program=ready(self.code.program))
            except CodegenError as error:
                self.code, self.why_not = None, error.message
