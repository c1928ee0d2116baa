"""All steps of a recurrent layer as native programs, eagerly: one for the way there, one back.

A step is so small that eager ops take longer than its numbers. The layer's steps run once on nodes,
and their tape gives the gradients as nodes; what those read of the way there is kept, or computed
again, as in a recording. Programs are made for the sizes of one call; longer sequences go so many
steps at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...capture.autodiff.backward import TapeBuilder, read_in_backward
from ...capture.autodiff.partitioner import decomposed, saved_values
from ...capture.graph.graph import Node, Nodes
from ...capture.graph.graph_builder import as_tensor, building
from ...capture.segments.segment import cone, extract_graph
from ...capture.sizes.symbolic_dim import ShapeEnv
from ...eager import interpreter
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType
from ...eager.autograd.engine import given_up, gradients_between
from ...eager.autograd.function import Part
from ...eager.core.op import Op
from ...eager.core.tape import MODE, Entry, Leaf, set_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import FusewireError, MemoryShortage
from ...eager.nn.functional import recurrence
from ...eager.ops.elementwise import pointwise
from ...eager.ops.layers.recurrent import (
    KINDS,
    Kind,
    State,
    Weights,
    beside,
    of_inputs,
    packed_rows,
    state_rows,
    stepwise,
)
from ...eager.ops.shape.concat import concat_same_dtype
from ...eager.settings import settings
from ..compile import Program, compile_graph
from ..partition.hybrid_executable import call_by_call
from .cache import SpecializationCache

_MOST_STEPS = 64  # of one program
_WORTH = 1 << 22  # products of elements in all steps, from which on there are programs for them
_NAMES = {kind: name for name, kind in KINDS.items()}
_OPS = {kind: Op(name, "opaque", lambda *types: types[0], lambda xp, *arrays: arrays[0],
                 why={"vjp": "its programs have one"}) for kind, name in _NAMES.items()}

Arrays = list[Any]


class RecurrentLayer(NamedTuple):
    """What programs are made for: the layer and the sizes of its call."""

    kind: Kind
    sizes: tuple[int, ...]  # how many sequences go on at each step
    reverse: bool
    types: tuple[TensorType | None, ...]  # of the input, the weights and the first state
    needs: tuple[bool, ...]  # which of these are on the tape

    def apply(self, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """The h of every step, packed, and each sequence's last state, by ops."""
        x, weights, state = _taken_apart(inputs)
        assert x is not None
        given = of_inputs(self.kind, x, weights)
        out, last = stepwise(self.kind, given, self.sizes, state, weights, self.reverse)
        return out, *last


def _taken_apart(inputs: Sequence[Any]) -> tuple[Any, Weights, State]:
    count = len(Weights._fields)
    return inputs[0], Weights(*inputs[1:1 + count]), tuple(inputs[1 + count:])


def run(kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: Weights, reverse: bool
        ) -> tuple[Tensor, State] | None:
    """What `recurrence.run` gives, on no other interpreter than eager's own; None where ops are as
    good."""
    inputs = [t for t in (x, *w, *state) if t is not None]
    work = x.shape[0] * w.w_ih.shape[0] * (x.shape[1] + w.w_hh.shape[1])
    if work < _WORTH or not settings.compile or is_small(x.dtype) \
            or len({t.dtype for t in inputs}) > 1:
        return None
    if len(sizes) <= _MOST_STEPS:
        return _at_once(kind, x, tuple(sizes), state, w, reverse)
    return _in_turns(kind, x, sizes, state, w, reverse)


def _in_turns(kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: Weights, reverse: bool
              ) -> tuple[Tensor, State] | None:
    """The same of so many steps at a time, each with the state that those before have left."""
    pieces = [tuple(sizes[i:i + _MOST_STEPS]) for i in range(0, len(sizes), _MOST_STEPS)]
    parts = packed_rows(x, [0, *accumulate(map(sum, pieces))])
    outputs = []
    for part, own in list(zip(parts, pieces))[::-1 if reverse else 1]:
        found = _at_once(kind, part, own, state_rows(state, 0, own[0]), w, reverse)
        if found is None:
            return None
        out, last = found
        outputs.append(out)
        rows = state[0].shape[0]
        state = last if own[0] == rows else beside(last, state_rows(state, own[0], rows))
    return concat_same_dtype(outputs[::-1 if reverse else 1], 0), state


def _at_once(kind: Kind, x: Tensor, sizes: tuple[int, ...], state: State, w: Weights, reverse: bool
             ) -> tuple[Tensor, State] | None:
    inputs = (x, *w, *state)
    needs = tuple([t is not None and t.edge is not None and MODE.enabled for t in inputs])
    types = tuple([None if t is None else TensorType(t._data.shape, t._data.dtype)
                   for t in inputs])
    what = RecurrentLayer(kind, sizes, reverse, types, needs)
    key = (_NAMES[kind], sizes, reverse, types, needs)
    programs = _PROGRAMS.get(key, key[0], lambda: _made(what))
    return None if programs is None else programs.run(inputs)


_PROGRAMS = SpecializationCache(16)


def _made(what: RecurrentLayer) -> Programs | None:
    try:
        return Programs(what)
    except FusewireError:  # ops have the error, if it is one
        return None


class Programs:
    """The programs of a layer for calls of one kind."""

    def __init__(self, what: RecurrentLayer) -> None:
        self.what = what
        self._places = [i for i, t in enumerate(what.types) if t is not None]
        self._ways: dict[Any, tuple[Program, list[int]]] = {}
        self._trace = trace = _Trace(what)
        self.kept: list[Node] = []
        if any(what.needs):
            back = trace.gradients(tuple(range(len(trace.results))), what.needs)
            demanded = read_in_backward(back.gradients, set(back.given))
            self.kept = saved_values(demanded, set(trace.nodes), {})
        wanted = [*trace.nodes, *self.kept]
        self._there = compile_graph(extract_graph(cone(wanted, trace.inputs), wanted, trace.inputs))

    def run(self, inputs: Sequence[Tensor | None]) -> tuple[Tensor, State]:
        """The h of every step, and the last state."""
        arrays = [inputs[i]._data for i in self._places]  # type: ignore[union-attr]
        found = self._there(list(arrays))
        count = len(self._trace.nodes)
        made = [Tensor(a) for a in found[:count]]
        if any(self.what.needs):
            edges = tuple([t.edge if t is not None and need else None
                           for t, need in zip(inputs, self.what.needs)])
            entry = _Steps(_OPS[self.what.kind], {}, (*arrays, *found[count:]), edges, None)
            entry.programs = self
            for i, tensor in enumerate(made):
                tensor.edge = Part(entry, i, tensor._data)
        return made[0], tuple(made[1:])

    def back(self, arrays: Arrays, gradients: dict[int, Tensor], wanted: tuple[bool, ...]
             ) -> Iterator[tuple[int, Tensor]]:
        """(which input, its gradient) by arrays that a call kept and gradients of its results."""
        numbers = tuple(sorted(gradients))
        found = self._ways.get((numbers, wanted))
        if found is None:
            found = self._ways[numbers, wanted] = self._way(numbers, wanted)
        program, places = found
        made = program([*arrays, *[gradients[i]._data for i in numbers]])
        return zip(places, map(Tensor, made))

    def _way(self, numbers: tuple[int, ...], wanted: tuple[bool, ...]
             ) -> tuple[Program, list[int]]:
        """The program that goes back from these results, and to which inputs."""
        back = self._trace.gradients(numbers, wanted)
        known = [*self._trace.inputs, *self.kept]
        graph = extract_graph(cone(back.gradients, known), back.gradients, [*known, *back.given])
        try:
            return compile_graph(graph), back.places
        except MemoryShortage:
            return call_by_call(graph), back.places

    def by_ops(self, arrays: Arrays, edges: Sequence[Any], gradients: dict[int, Tensor]
               ) -> Iterator[tuple[Any, Tensor]]:
        """(edge, its gradient) as ops of their own, which can be differentiated again."""
        inputs: list[Tensor | None] = [None] * len(edges)
        for i, array in zip(self._places, arrays):
            inputs[i] = Tensor(array, edges[i])
        with set_grad_enabled(True):
            results = self.what.apply(inputs)
        ends = list(dict.fromkeys([e for e in edges if e is not None]))
        found = gradients_between([results[i] for i in gradients], list(gradients.values()), ends,
                                  MODE.enabled)
        return ((e, g) for e, g in zip(ends, found) if g is not None)


class _Steps(Entry):
    """One call of a layer on the tape: collects the gradients of its results."""

    __slots__ = ("programs",)
    programs: Programs

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Any) -> None:
        if self.arrays is None:
            raise given_up(self)
        for edge, gx in self._found(g, useful):
            before = sums.get(edge)
            sums[edge] = gx if before is None else pointwise.add(before, gx)
        if not keep:
            self.arrays = None  # type: ignore[assignment]

    def _found(self, g: dict[int, Tensor], useful: Any) -> Iterator[tuple[Any, Tensor]]:
        arrays = list(self.arrays)
        if MODE.enabled or interpreter.STATE.active is not None:
            return self.programs.by_ops(arrays, self.edges, g)
        wanted = tuple([e is not None and (useful is None or e in useful) for e in self.edges])
        return ((self.edges[i], gx) for i, gx in self.programs.back(arrays, g, wanted))


class _Gradients(NamedTuple):
    """The gradients of some inputs, as nodes, from those given of some results."""

    places: list[int]
    gradients: list[Node]
    given: list[Node]


class _Trace:
    """A layer's steps on nodes, with their tape."""

    def __init__(self, what: RecurrentLayer) -> None:
        self._nodes, self._sizes = Nodes(), ShapeEnv({})
        self._opened: dict[Node, Node] = {}
        tensors = [None if t is None else as_tensor(self._nodes.input(f"x{i}", t))
                   for i, t in enumerate(what.types)]
        self.inputs = [t._data.node for t in tensors if t is not None]
        for t, need in zip(tensors, what.needs):
            if t is not None and need:
                t.edge = Leaf(t)
        self._edges = [None if t is None else t.edge for t in tensors]
        with building(TapeBuilder(self._nodes, self._sizes)), set_grad_enabled(any(what.needs)):
            self.results = what.apply(tensors)
        self.nodes = self._open([t._data.node for t in self.results])

    def _open(self, nodes: list[Node]) -> list[Node]:
        return decomposed(self._nodes, nodes, self._opened)

    def gradients(self, numbers: tuple[int, ...], wanted: tuple[bool, ...]) -> _Gradients:
        """Those of the inputs that are wanted, from those of the results of these numbers."""
        results = [self.results[i] for i in numbers]
        given = [self._nodes.input(f"g{i}", self.nodes[i].type) for i in numbers]
        places = [i for i, (edge, want) in enumerate(zip(self._edges, wanted))
                  if want and edge is not None]
        with building(TapeBuilder(self._nodes, self._sizes)):
            found = gradients_between(results, [as_tensor(n) for n in given],
                                      [self._edges[i] for i in places], False)
        made = [(i, g._data.node) for i, g in zip(places, found) if g is not None]
        return _Gradients([i for i, _ in made], self._open([n for _, n in made]), given)


recurrence.together = run
