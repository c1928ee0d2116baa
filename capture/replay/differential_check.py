"""Implements `check=`: compares compiled code with NumPy and names the first op that differs.

Each element is compared by itself. Two correct programs may differ by rounding. The allowed
difference is measured by a float64 evaluation and by evaluations with perturbed results
(`rounding.py`). An element that no evaluation explains is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...eager.arrays.devices import host
from ...eager.errors import ArgumentError, CheckError
from ...eager.ordered_calls import one_program
from ..graph.graph import SPECIAL, Graph, Node, Nodes, topological
from ..segments.segment import Backend, Executable
from .rounding import Reference, epsilon, rounds, smallest, units_of, wide

_SAMPLE_FACTOR = 4  # the allowed error of compiled code, as a multiple of the error of a sample
_ROUNDING_FACTOR = 2  # the allowed difference without a sample, as a multiple of one rounding error
_MIN_JUMP_VALUES = 3  # distinct values of jumps from which unseen combinations are assumed
_FLUSH_THRESHOLD = 1e-37  # smaller results may be flushed to zero: they are subnormal in float32
_HELP = ("this is a bug in fusewire: please report it with the function's .graph() and .code();"
         " FUSEWIRE_COMPILE=0 runs everything eagerly until then")


def interval(check: str | float) -> int:
    """The number of calls per check; 0 to check only the first call."""
    intervals = {"first": 0, "always": 1}
    if isinstance(check, str) and check in intervals:
        return intervals[check]
    if isinstance(check, (int, float)) and not isinstance(check, bool) and 0 < check <= 1:
        return round(1 / check)
    raise ArgumentError(f"check={check!r} is not \"first\", \"always\" or a share of the calls",
                        "check=0.01 checks every hundredth call")


def checking(backend: Backend, check: str | float, name: str) -> Backend:
    """A backend whose programs are compared with NumPy as often as `check` says."""
    every = interval(check)
    return lambda graph: CheckedProgram(graph, backend(graph), backend, every, name)


class CheckedProgram:
    """A program that is compared with NumPy on its first call or on every n-th call."""

    def __init__(self, graph: Graph, executable: Executable, backend: Backend, every: int,
                 name: str) -> None:
        """`backend` compiles parts of the graph, to find the first wrong op."""
        self.graph, self.backend, self.every, self.name = graph, backend, every, name
        self.executable = executable
        self._calls = itertools.count()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Returns the outputs. Raises CheckError, without effects, if NumPy's outputs differ."""
        call = next(self._calls)
        if call if not self.every else call % self.every:
            return self.executable(arrays)
        inputs = list(arrays)
        for i in {*self.graph.donated.values()}:  # the program overwrites copies
            arrays[i] = arrays[i].copy()
        with one_program():
            outputs = self.executable(arrays)
            compare(self.graph, inputs, outputs, self.backend, self.name)
        return outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def compare(graph: Graph, arrays: Sequence[Any], outputs: Sequence[Any], backend: Backend,
            name: str) -> None:
    """Raises CheckError with the op and line of the first wrong value in the outputs `outputs`."""
    first = first_difference(graph, arrays, outputs, backend)
    if first is not None:
        raise CheckError(f"{name}: compiled code and eager differ: {first}", _HELP)


@dataclass(frozen=True)
class Mismatch:
    """A node whose compiled value is wrong: both values, at the element that is off the most."""

    node: Node
    index: tuple[int, ...]
    compiled: Any
    eager: Any
    count: int
    allowed: float = 0.0  # how far apart rounding can bring the two values

    def __str__(self) -> str:
        at = f" at {list(self.index)}" if self.index else ""
        where = f" at {self.node.site}" if self.node.site else ""
        few = f" (rounding explains {self.allowed:.1e})" if self.allowed else ""
        return (f"{self.node.op}{where} gives {self.compiled} instead of {self.eager}{at}{few}, "
                f"and {self.count} of {self.node.type.size} elements of {self.node.type} are wrong")


def differences(graph: Graph, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Mismatch]:
    """The outputs that differ by more than rounding explains."""
    reference = Reference(graph, list(map(host, arrays)))
    doubts = [Doubt(node, np.asarray(host(value)), exact)
              for node, value, exact in zip(graph.outputs, outputs, reference.outputs)]
    drawn = reference.samples()
    while any(d.is_open for d in doubts):
        sample = next(drawn, None)
        if sample is None:
            break
        for doubt, value in zip(doubts, sample.outputs):
            doubt.explain(value, sample.smooth)
    return [d.difference() for d in doubts if d.is_wrong]


class Doubt:
    """The elements of one output that no sample has explained so far."""

    def __init__(self, node: Node, compiled: Any, exact: Any) -> None:
        """`compiled` is the value of compiled code for a node, and `exact` that of NumPy."""
        self.node, self.compiled, self.exact = node, compiled, exact
        self.fits = compiled.shape == exact.shape and compiled.dtype == exact.dtype
        self._indices = np.zeros(0, np.int64)  # flat indices of the elements in doubt
        self._jumps: list[Any] = []  # their values in samples with jumps
        if self.fits:
            self._indices = np.arange(exact.size)
            self._allowed = self._rounding_error(exact.reshape(-1))
            self._restrict(~(self._errors(self._indices) <= self._allowed))

    @property
    def is_open(self) -> bool:
        """True if unexplained elements are left that a sample may explain."""
        return bool(self._indices.size)

    @property
    def is_wrong(self) -> bool:
        """True if an element is unexplained, or the shape or dtype differs."""
        return not self.fits or self.is_open

    def explain(self, sample: Any, smooth: bool) -> None:
        """Drops the elements whose error a sample explains."""
        if not self.is_open:
            return
        sample, exact, compiled = (wide(v.reshape(-1)[self._indices])
                                   for v in (sample, self.exact, self.compiled))
        with np.errstate(all="ignore"):
            apart = np.abs(sample - exact)
            explained = ~_same_class(sample, exact) & (
                _same_class(compiled, sample) & ~np.isfinite(compiled)
                | ~np.isfinite(exact) & np.isfinite(compiled))
            if smooth:
                self._allowed = np.maximum(
                    self._allowed, np.where(np.isfinite(apart), _SAMPLE_FACTOR * apart, 0))
            else:
                self._jumps.append(sample)
            explained |= (self._errors(self._indices) <= self._allowed) \
                | self._is_jump(compiled, exact)
        self._restrict(~explained)

    def _is_jump(self, compiled: Any, exact: Any) -> Any:
        """A mask of the elements that a jump explains.

        Such an element equals its value in a sample with jumps. If an element has many such values,
        jumps combine. Any value within their distance is then allowed.
        """
        if not self._jumps:
            return np.zeros(compiled.shape, bool)
        values = np.array(self._jumps)
        near = (np.abs(values - compiled) <= self._allowed).any(axis=0)
        distances = np.sort(np.nan_to_num(np.abs(values - exact), nan=0, posinf=0), axis=0)
        several = np.count_nonzero(np.diff(distances, axis=0) > self._allowed, axis=0) \
            >= _MIN_JUMP_VALUES
        return near | several & (np.abs(compiled - exact) <= _SAMPLE_FACTOR * distances[-1])

    def _restrict(self, wrong: Any) -> None:
        """Restricts the elements in doubt to a mask."""
        self._indices, self._allowed = self._indices[wrong], self._allowed[wrong]
        self._jumps = [values[wrong] for values in self._jumps]

    def difference(self) -> Mismatch:
        """The difference at the element with the largest error relative to its allowed error."""
        node, compiled, exact = self.node, self.compiled, self.exact
        if not self.fits:
            return Mismatch(node, (), _type(compiled), _type(exact), node.type.size)
        off = self._errors(self._indices)
        worst = int(np.argmax(
            np.where(np.isnan(off), np.inf, off) / (self._allowed + _FLUSH_THRESHOLD)))
        index = tuple(map(int, np.unravel_index(self._indices[worst], exact.shape)))
        return Mismatch(node, index, compiled[index], exact[index], self._indices.size,
                        float(self._allowed[worst]))

    def _rounding_error(self, exact: Any) -> Any:
        """The allowed differences of results that are rounded once."""
        if not rounds(exact.dtype):
            return np.zeros(exact.shape)
        flushed = smallest(exact.dtype) * 4 if exact.dtype == np.float16 else _FLUSH_THRESHOLD
        with np.errstate(all="ignore"):
            size = np.nan_to_num(np.abs(wide(exact)), nan=0.0, posinf=0.0)
        return _ROUNDING_FACTOR * units_of(exact.dtype) * epsilon(exact.dtype) * size + flushed

    def _errors(self, indices: Any) -> Any:
        """The errors of elements; nan if one of the values is nan or infinite."""
        compiled, exact = (v.reshape(-1)[indices] for v in (self.compiled, self.exact))
        with np.errstate(all="ignore"):
            off = np.abs(wide(compiled) - wide(exact))
            same = (compiled == exact) | (np.isnan(wide(compiled)) & np.isnan(wide(exact)))
        if not rounds(exact.dtype):
            off = np.maximum(off, 1)  # large integers may be equal in float64
        return np.where(same, 0, off)


def _same_class(a: Any, b: Any) -> Any:
    """A mask of elements that are both finite, the same infinity, or both nan."""
    a, b = wide(a), wide(b)
    return (np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b))


def _type(value: Any) -> str:
    return f"{value.dtype.name}{list(value.shape)}"


# ---- the first wrong node

def first_difference(graph: Graph, arrays: Sequence[Any], outputs: Sequence[Any], backend: Backend
                     ) -> Mismatch | None:
    """The first wrong node on the path to the outputs `outputs`; None if all outputs are right.

    `backend` compiles parts of the graph.
    """
    wrong = differences(graph, arrays, outputs)
    if not wrong:
        return None
    alone = next(_wrong_nodes(wrong[0].node, graph, arrays, backend), None)
    return alone or _deepest_wrong_node(wrong[0], graph, arrays, backend)


def _wrong_nodes(root: Node, graph: Graph, arrays: Sequence[Any], backend: Backend
                 ) -> Iterator[Mismatch]:
    """The nodes below `root` that differ from NumPy on their own compiled inputs.

    One program returns all nodes. Inputs come before their users.
    """
    nodes = [n for n in topological((root,)) if n.op not in SPECIAL]
    outputs = backend(Graph(graph.inputs, tuple(nodes)))(list(arrays))
    values = dict(zip((*graph.inputs, *nodes), (*arrays, *outputs)))
    for node in nodes:
        inputs = list(dict.fromkeys(i for i in node.inputs if i.op != "const"))
        own = differences(_single_node_graph(node, inputs), [values[i] for i in inputs],
                          [values[node]])
        for difference in own:
            yield replace(difference, node=node)


def _single_node_graph(node: Node, operands: Sequence[Node]) -> Graph:
    """A graph of one node. Its inputs are graph inputs, except for literals."""
    nodes = Nodes()
    new = {n: nodes.input(f"i{i}", n.type) for i, n in enumerate(operands)}
    inputs = tuple([new.get(i, i) for i in node.inputs])
    return Graph(tuple(new.values()), (nodes.with_inputs(node, inputs),))


def _deepest_wrong_node(wrong: Mismatch, graph: Graph, arrays: Sequence[Any], backend: Backend
                        ) -> Mismatch:
    """The deepest wrong node whose inputs are right when each is compiled in its own program.

    An error that occurs only in the larger graph stays at the node that showed it.
    """
    right: set[Node] = set()

    def compiled(node: Node) -> Mismatch | None:
        if node.op in SPECIAL or node in right:
            return None
        subgraph = Graph(graph.inputs, (node,))
        wrong_outputs = differences(subgraph, arrays, backend(subgraph)(list(arrays)))
        right.update(() if wrong_outputs else (node,))
        return wrong_outputs[0] if wrong_outputs else None

    while True:
        wrong_input = next(filter(None, map(compiled, wrong.node.inputs)), None)
        if wrong_input is None:
            return wrong
        wrong = wrong_input
