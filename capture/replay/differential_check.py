"""`check=`: compiled code beside NumPy on the same values; the first op that differs is named.

Each element is compared by itself. How far two right programs may differ there is measured: by a
float64 evaluation and by evaluations in which each result is off by some roundings (`rounding.py`).
An element that none of these explains is a mistake.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...eager.arrays.devices import host
from ...eager.errors import ArgumentError, CheckError
from ..graph.graph import SPECIAL, Graph, Node, Nodes, topological
from ..segments.segment import Backend, Executable
from .rounding import Reference, epsilon, rounds, smallest, units_of, wide

_SLACK = 4  # how many times as far as in a sample compiled code may be off
_UNITS = 2  # how many times the error of one result both sides may be apart without any sample
_SEVERAL = 3  # different values by deciding otherwise from which on there are more than were seen
_FLUSHED = 1e-37  # below the normal numbers of float32, results may be rounded to zero
_CURE = ("this is a bug in fusewire: please report it with the function's .graph() and .code();"
         " FUSEWIRE_COMPILE=0 runs everything eagerly until then")


def interval(check: str | float) -> int:
    """Every how many calls to check: 0 for the first alone."""
    known = {"first": 0, "always": 1}
    if isinstance(check, str) and check in known:
        return known[check]
    if isinstance(check, (int, float)) and not isinstance(check, bool) and 0 < check <= 1:
        return round(1 / check)
    raise ArgumentError(f"check={check!r} is not \"first\", \"always\" or a share of the calls",
                        "check=0.01 checks every hundredth call")


def checking(backend: Backend, check: str | float, name: str) -> Backend:
    """A backend whose programs are compared with NumPy as often as `check` says."""
    every = interval(check)
    return lambda graph: Checked(graph, backend(graph), backend, every, name)


class Checked:
    """A program that is compared with NumPy on its first call, and on every so many."""

    def __init__(self, graph: Graph, executable: Executable, backend: Backend, every: int,
                 name: str) -> None:
        """backend(part) makes programs of parts of the graph, to find what is wrong first."""
        self.graph, self.backend, self.every, self.name = graph, backend, every, name
        self.executable = executable
        self._calls = itertools.count()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The outputs; CheckError, with nothing changed, where NumPy gives others."""
        call = next(self._calls)
        if call if not self.every else call % self.every:
            return self.executable(arrays)
        given = list(arrays)
        for i in {*self.graph.donated.values()}:  # writes over copies that nobody else holds
            arrays[i] = arrays[i].copy()
        found = self.executable(arrays)
        compare(self.graph, given, found, self.backend, self.name)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def compare(graph: Graph, arrays: Sequence[Any], found: Sequence[Any], backend: Backend,
            name: str) -> None:
    """Raises CheckError, by op and line, where `found` is not what the graph gives."""
    first = first_difference(graph, arrays, found, backend)
    if first is not None:
        raise CheckError(f"{name}: compiled code and eager differ: {first}", _CURE)


@dataclass(frozen=True)
class Difference:
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


def differences(graph: Graph, arrays: Sequence[Any], found: Sequence[Any]) -> list[Difference]:
    """The outputs that are further off than rounding can be."""
    reference = Reference(graph, list(map(host, arrays)))
    doubts = [Doubt(node, np.asarray(host(value)), exact)
              for node, value, exact in zip(graph.outputs, found, reference.outputs)]
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

    def __init__(self, node: Node, found: Any, exact: Any) -> None:
        """found: what compiled code gives for a node; exact: what NumPy gives."""
        self.node, self.found, self.exact = node, found, exact
        self.fits = found.shape == exact.shape and found.dtype == exact.dtype
        self._places = np.zeros(0, np.int64)  # of the elements in doubt
        self._jumps: list[Any] = []  # what they are where rounding decides otherwise
        if self.fits:
            self._places = np.arange(exact.size)
            self._allowed = self._least(exact.reshape(-1))
            self._leave(~(self._off(self._places) <= self._allowed))

    @property
    def is_open(self) -> bool:
        """Whether a sample may explain something."""
        return bool(self._places.size)

    @property
    def is_wrong(self) -> bool:
        """Whether something is left that nothing explains."""
        return not self.fits or self.is_open

    def explain(self, sample: Any, smooth: bool) -> None:
        """Drops the elements whose error is explained by what a sample has in their place."""
        if not self.is_open:
            return
        sample, exact, found = (wide(v.reshape(-1)[self._places])
                                for v in (sample, self.exact, self.found))
        with np.errstate(all="ignore"):
            apart = np.abs(sample - exact)
            explained = ~_alike(sample, exact) & (_alike(found, sample) & ~np.isfinite(found)
                                                  | ~np.isfinite(exact) & np.isfinite(found))
            if smooth:
                self._allowed = np.maximum(
                    self._allowed, np.where(np.isfinite(apart), _SLACK * apart, 0))
            else:
                self._jumps.append(sample)
            explained |= (self._off(self._places) <= self._allowed) | self._is_jump(found, exact)
        self._leave(~explained)

    def _is_jump(self, found: Any, exact: Any) -> Any:
        """Where a value is one of those that come by deciding otherwise; where there are many of
        them, which combine, it may be any that is not further away."""
        if not self._jumps:
            return np.zeros(found.shape, bool)
        values = np.array(self._jumps)
        near = (np.abs(values - found) <= self._allowed).any(axis=0)
        far = np.sort(np.nan_to_num(np.abs(values - exact), nan=0, posinf=0), axis=0)
        several = np.count_nonzero(np.diff(far, axis=0) > self._allowed, axis=0) >= _SEVERAL
        return near | several & (np.abs(found - exact) <= _SLACK * far[-1])

    def _leave(self, wrong: Any) -> None:
        """Leaves these of the elements in doubt."""
        self._places, self._allowed = self._places[wrong], self._allowed[wrong]
        self._jumps = [values[wrong] for values in self._jumps]

    def difference(self) -> Difference:
        """What is wrong, at the element that is furthest off beside what rounding explains."""
        node, found, exact = self.node, self.found, self.exact
        if not self.fits:
            return Difference(node, (), _type(found), _type(exact), node.type.size)
        off = self._off(self._places)
        worst = int(np.argmax(np.where(np.isnan(off), np.inf, off) / (self._allowed + _FLUSHED)))
        index = tuple(map(int, np.unravel_index(self._places[worst], exact.shape)))
        return Difference(node, index, found[index], exact[index], self._places.size,
                          float(self._allowed[worst]))

    def _least(self, exact: Any) -> Any:
        """How far apart results may be that are rounded once."""
        if not rounds(exact.dtype):
            return np.zeros(exact.shape)
        flushed = smallest(exact.dtype) * 4 if exact.dtype == np.float16 else _FLUSHED
        with np.errstate(all="ignore"):
            size = np.nan_to_num(np.abs(wide(exact)), nan=0.0, posinf=0.0)
        return _UNITS * units_of(exact.dtype) * epsilon(exact.dtype) * size + flushed

    def _off(self, places: Any) -> Any:
        """How far off elements are: nan where one of the values is no number, or infinite."""
        found, exact = (v.reshape(-1)[places] for v in (self.found, self.exact))
        with np.errstate(all="ignore"):
            off = np.abs(wide(found) - wide(exact))
            same = (found == exact) | (np.isnan(wide(found)) & np.isnan(wide(exact)))
        if not rounds(exact.dtype):
            off = np.maximum(off, 1)  # large integers may be one number in float64
        return np.where(same, 0, off)


def _alike(a: Any, b: Any) -> Any:
    """Where both are finite, the same infinity, or no number."""
    a, b = wide(a), wide(b)
    return (np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b))


def _type(value: Any) -> str:
    return f"{value.dtype.name}{list(value.shape)}"


# ---- what is wrong first

def first_difference(graph: Graph, arrays: Sequence[Any], found: Sequence[Any], backend: Backend
                     ) -> Difference | None:
    """What is wrong first on the way to the outputs `found`; None where all of them are right.
    backend(part) makes programs of parts of the graph."""
    wrong = differences(graph, arrays, found)
    if not wrong:
        return None
    alone = next(_wrong_alone(wrong[0].node, graph, arrays, backend), None)
    return alone or _wrong_together(wrong[0], graph, arrays, backend)


def _wrong_alone(root: Node, graph: Graph, arrays: Sequence[Any], backend: Backend
                 ) -> Iterator[Difference]:
    """The nodes on the way to `root` that are wrong beside NumPy on their own compiled inputs, in
    a program that gives each of them, inputs before users."""
    nodes = [n for n in topological((root,)) if n.op not in SPECIAL]
    found = backend(Graph(graph.inputs, tuple(nodes)))(list(arrays))
    values = dict(zip((*graph.inputs, *nodes), (*arrays, *found)))
    for node in nodes:
        given = list(dict.fromkeys(i for i in node.inputs if i.op != "const"))
        own = differences(_alone(node, given), [values[i] for i in given], [values[node]])
        for difference in own:
            yield replace(difference, node=node)


def _alone(node: Node, given: Sequence[Node]) -> Graph:
    """The graph of one node, whose inputs but for literals are given."""
    nodes = Nodes()
    new = {n: nodes.input(f"i{i}", n.type) for i, n in enumerate(given)}
    inputs = tuple([new.get(i, i) for i in node.inputs])
    return Graph(tuple(new.values()), (nodes.with_inputs(node, inputs),))


def _wrong_together(wrong: Difference, graph: Graph, arrays: Sequence[Any], backend: Backend
                    ) -> Difference:
    """A node that is wrong while its inputs, each compiled with all that it needs, are right: a
    mistake that needs its surroundings is left where it was seen."""
    right: set[Node] = set()

    def compiled(node: Node) -> Difference | None:
        if node.op in SPECIAL or node in right:
            return None
        part = Graph(graph.inputs, (node,))
        found = differences(part, arrays, backend(part)(list(arrays)))
        right.update(() if found else (node,))
        return found[0] if found else None

    while True:
        below = next(filter(None, map(compiled, wrong.node.inputs)), None)
        if below is None:
            return wrong
        wrong = below
