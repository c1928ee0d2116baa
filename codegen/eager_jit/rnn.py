"""Compiles all steps of a recurrent layer in eager mode: one forward and one backward program.

A step is so small that the overhead of eager ops exceeds its arithmetic. The layer's steps are
traced once on nodes, and their tape gives the gradients as nodes; values that the backward reads
are saved or recomputed, as for a compiled function. Programs have the sizes of one call; longer
sequences run in chunks of steps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...capture.autodiff.partition import BackwardGraph, partition
from ...capture.runtime.specialization_cache import Specializations
from ...eager import interpreter
from ...eager.arrays.dtypes import is_small
from ...eager.arrays.shapes import TensorType
from ...eager.autograd.engine import freed_tape_error, gradients_between
from ...eager.autograd.function import ResultEntry
from ...eager.core.op import Op
from ...eager.core.tape import MODE, Entry, set_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import MemoryShortage
from ...eager.fork_safety import held_while_forking
from ...eager.ops.elementwise import pointwise
from ...eager.ops.layers.recurrent import (
    KINDS,
    Kind,
    RecurrentWeights,
    State,
    beside,
    of_inputs,
    packed_rows,
    state_rows,
    stepwise,
)
from ...eager.ops.shape.concat import concat_same_dtype
from ...eager.settings import settings
from ..compile import Program, compile_graph
from ..partition.hybrid_executable import op_by_op
from .op_call import program_for

_MAX_STEPS_PER_PROGRAM = 64  # of one program
_NANOSECONDS_PER_STEP = 1e5  # without a program
_MIN_MULTIPLICATIONS = 1 << 22  # of all steps together; smaller layers run op by op
_NAMES = {kind: name for name, kind in KINDS.items()}
_OPS = {kind: Op(name, "opaque", lambda *types: types[0], lambda xp, *arrays: arrays[0],
                 why={"vjp": "its programs have one"}) for kind, name in _NAMES.items()}

Arrays = list[Any]
BackwardProgram = tuple[Program, BackwardGraph]


class RecurrentLayer(NamedTuple):
    """The key of a program: the layer and the sizes of its call."""

    kind: Kind
    sizes: tuple[int, ...]  # how many sequences go on at each step
    reverse: bool
    types: tuple[TensorType | None, ...]  # of the input, the weights and the first state
    needs: tuple[bool, ...]  # which of these are on the tape

    def apply(self, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """The h of every step, packed, and each sequence's last state, by eager ops."""
        x, weights, state = _unpack(inputs)
        assert x is not None
        projected = of_inputs(self.kind, x, weights)
        out, last = stepwise(self.kind, projected, self.sizes, state, weights, self.reverse)
        return out, *last


def _unpack(inputs: Sequence[Any]) -> tuple[Any, RecurrentWeights, State]:
    count = len(RecurrentWeights._fields)
    return inputs[0], RecurrentWeights(*inputs[1:1 + count]), tuple(inputs[1 + count:])


def run(kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: RecurrentWeights,
        reverse: bool
        ) -> tuple[Tensor, State] | None:
    """The result of `recurrence.run`; None if eager ops are as fast."""
    inputs = [t for t in (x, *w, *state) if t is not None]
    work = x.shape[0] * w.w_ih.shape[0] * (x.shape[1] + w.w_hh.shape[1])
    if work < _MIN_MULTIPLICATIONS or not settings.compile or is_small(x.dtype) \
            or len({t.dtype for t in inputs}) > 1:
        return None
    if len(sizes) <= _MAX_STEPS_PER_PROGRAM:
        return _run_chunk(kind, x, tuple(sizes), state, w, reverse)
    return _run_in_chunks(kind, x, sizes, state, w, reverse)


def _run_in_chunks(kind: Kind, x: Tensor, sizes: Sequence[int], state: State, w: RecurrentWeights,
                   reverse: bool) -> tuple[Tensor, State] | None:
    """Runs the steps in chunks; each starts with the state that the previous one left."""
    chunks = [tuple(sizes[i:i + _MAX_STEPS_PER_PROGRAM]) for i in range(0, len(sizes),
                                                                        _MAX_STEPS_PER_PROGRAM)]
    parts = packed_rows(x, [0, *accumulate(map(sum, chunks))])
    outputs = []
    for part, chunk_sizes in list(zip(parts, chunks))[::-1 if reverse else 1]:
        chunk_result = _run_chunk(kind, part, chunk_sizes, state_rows(state, 0, chunk_sizes[0]), w,
                                  reverse)
        if chunk_result is None:
            return None
        out, last = chunk_result
        outputs.append(out)
        rows = state[0].shape[0]
        state = last if chunk_sizes[0] == rows else beside(last,
                                                           state_rows(state, chunk_sizes[0], rows))
    return concat_same_dtype(outputs[::-1 if reverse else 1], 0), state


def _run_chunk(kind: Kind, x: Tensor, sizes: tuple[int, ...], state: State, w: RecurrentWeights,
               reverse: bool) -> tuple[Tensor, State] | None:
    inputs = (x, *w, *state)
    needs = tuple([t is not None and t.edge is not None and MODE.enabled for t in inputs])
    types = tuple([None if t is None else TensorType(t._data.shape, t._data.dtype)
                   for t in inputs])
    layer = RecurrentLayer(kind, sizes, reverse, types, needs)
    key = (_NAMES[kind], sizes, reverse, types, needs)
    programs = program_for(_PROGRAMS, key, key[0], lambda: LayerPrograms(layer),
                           _NANOSECONDS_PER_STEP * len(sizes))
    return None if programs is None else programs.run(inputs)


_PROGRAMS: Specializations[Any] = Specializations("recurrent layers",
                                                  held_while_forking(threading.RLock()))


class LayerPrograms:
    """The forward and backward programs of a layer for one kind of call."""

    def __init__(self, layer: RecurrentLayer) -> None:
        self.layer = layer
        self._input_numbers = [i for i, t in enumerate(layer.types) if t is not None]
        self._partition = partition(self._apply, [t for t in layer.types if t is not None],
                                    [layer.needs[i] for i in self._input_numbers])
        self._forward = compile_graph(self._partition.forward)
        self._backward_programs: Specializations[BackwardProgram] = \
            Specializations("backward variants")

    def _apply(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results of the layer, by ops, for the inputs that are there."""
        inputs: list[Tensor | None] = [None] * len(self.layer.types)
        for i, t in zip(self._input_numbers, tensors):
            inputs[i] = t
        return self.layer.apply(inputs)

    def run(self, inputs: Sequence[Tensor | None]) -> tuple[Tensor, State]:
        """The h of every step, and the last state."""
        arrays = [inputs[i]._data for i in self._input_numbers]  # type: ignore[union-attr]
        arrays_out = self._forward(list(arrays))
        count = len(arrays_out) - len(self._partition.saved)
        tensors = [Tensor(a) for a in arrays_out[:count]]
        if any(self.layer.needs):
            edges = tuple([t.edge if t is not None and need else None
                           for t, need in zip(inputs, self.layer.needs)])
            entry = _LayerEntry(_OPS[self.layer.kind], {}, (*arrays, *arrays_out[count:]), edges,
                                None)
            entry.programs = self
            for i, tensor in enumerate(tensors):
                tensor.edge = ResultEntry(entry, i, tensor._data)
        return tensors[0], tuple(tensors[1:])

    def backward(self, arrays: Arrays, gradients: dict[int, Tensor], needed: tuple[bool, ...]
                 ) -> Iterator[tuple[int, Tensor]]:
        """(input number, its gradient), from the arrays that a call saved and the gradients of its
        results."""
        key = tuple(sorted(gradients)), needed
        program, graph = self._backward_programs.get(key, lambda: self._compile_backward(*key))
        input_gradients = program([*[arrays[i] for i in graph.reads],
                                   *[gradients[i]._data for i in key[0]]])
        return zip([self._input_numbers[i] for i in graph.ends], map(Tensor, input_gradients))

    def _compile_backward(self, numbers: tuple[int, ...], needed: tuple[bool, ...]
                          ) -> BackwardProgram:
        """The backward program from these results to the needed inputs."""
        ends = [i for i, n in enumerate(self._input_numbers) if needed[n]]
        backward = self._partition.backward(numbers, ends)
        try:
            return compile_graph(backward.graph), backward
        except MemoryShortage:
            return op_by_op(backward.graph), backward

    def backward_by_ops(self, arrays: Arrays, edges: Sequence[Any], gradients: dict[int, Tensor]
                        ) -> Iterator[tuple[Any, Tensor]]:
        """(edge, its gradient) by eager ops, which can be differentiated again."""
        inputs = [Tensor(array, edges[i]) for i, array in zip(self._input_numbers, arrays)]
        with set_grad_enabled(True):
            results = self._apply(inputs)
        ends = list(dict.fromkeys([e for e in edges if e is not None]))
        edge_gradients = gradients_between([results[i] for i in gradients],
                                           list(gradients.values()), ends,
                                           MODE.enabled)
        return ((e, g) for e, g in zip(ends, edge_gradients) if g is not None)


class _LayerEntry(Entry):
    """One call of a layer on the tape; it collects the gradients of its results."""

    __slots__ = ("programs",)
    programs: LayerPrograms

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Any) -> None:
        if self.arrays is None:
            raise freed_tape_error(self)
        for edge, gx in self._input_gradients(g, useful):
            before = sums.get(edge)
            sums[edge] = gx if before is None else pointwise.add(before, gx)
        if not keep:
            self.arrays = None  # type: ignore[assignment]

    def _input_gradients(self, g: dict[int, Tensor], useful: Any) -> Iterator[tuple[Any, Tensor]]:
        arrays = list(self.arrays)
        if MODE.enabled or interpreter.STATE.active is not None:
            return self.programs.backward_by_ops(arrays, self.edges, g)
        needed = tuple([e is not None and (useful is None or e in useful) for e in self.edges])
        return ((self.edges[i], gx) for i, gx in self.programs.backward(arrays, g, needed))


