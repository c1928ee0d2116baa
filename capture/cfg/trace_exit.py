"""Defines the exit of a traced path: outputs, side effects, backward and remaining guards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ...eager.core.tensor import with_class
from ..autodiff.backward_plan import BackwardPlan
from ..autodiff.suspended_backward import SuspendedBackward
from ..graph.graph import Node
from ..guards.gather_paths import Gather, compile_gather
from ..guards.guards import Guard, PathCodegen, compile_check
from ..heap.access_path import Path
from ..heap.object_recipes import Recipe, same_recipe
from ..heap.path_reader import PathReader
from ..segments.segment import Backend, Segment, find_size_inputs, segment_of
from ..trace.output_spec import OutputTensor, TraceOutputs
from ..trace.side_effects import SideEffect
from ..trace.value_table import ValueTable


class TraceExit:
    """The outputs and side effects of one path.

    `guards` are all conditions of the path. `exit_guards` are those that are not checked on entry.
    """

    def __init__(self, guards: list[Guard], effects: list[SideEffect], result: Recipe,
                 leaving: TraceOutputs, sources: Iterable[Node] = (),
                 backward: BackwardPlan | SuspendedBackward | None = None,
                 checks: Sequence[Sequence[Node]] = ((),)) -> None:
        """sources: the inputs that the traced call has read. checks: nodes to compute only for
        their errors, before each element of the path and after the last one."""
        self.guards, self.effects, self.result = guards, effects, result
        self.sources = list(sources)
        self.backward = backward  # None if no result needs a gradient
        self.checks = checks[:-1]
        self._computed = [*leaving.nodes, *checks[-1]]
        self.outputs: list[Node] = [*self._computed, *(backward.saved if backward else ())]
        self.formulas, self.tensors = leaving.formulas, leaving.tensors
        self.donated = leaving.donated
        self.exit_guards: list[Guard] = []
        self.check: Callable[[Any, Any], int] = lambda args, kwargs: -1
        # The segment and the targets of effects: set together, as other threads may replay.
        self._plan: tuple[Segment, Gather] | None = None
        self._available: frozenset[Node] = frozenset()  # nodes computed before the segment
        self.uses = 0

    @property
    def segment(self) -> Segment | None:
        """The segment that computes the outputs; None until it is planned."""
        return None if self._plan is None else self._plan[0]

    def fits(self, call: Any) -> bool:
        """True if an activation that has reached this exit satisfies its guards, and if the
        backward of its path has a trace."""
        return self._plan is not None and self.check(call.args, call.kwargs) < 0 and (
            self.backward is None or self.backward.covers(call))

    def same_outputs(self, other: TraceExit) -> bool:
        """True if another trace computes the same values, makes the same objects of them, and has
        the same effects."""
        return self._computed == other._computed and self.formulas == other.formulas \
            and same_recipe(self.result, other.result) \
            and [(e.target, e.assign, e.node) for e in self.effects] \
            == [(e.target, e.assign, e.node) for e in other.effects] \
            and all(same_recipe(a.value, b.value) for a, b in zip(self.effects, other.effects))

    def same_backward(self, other: TraceExit) -> bool:
        """True if another trace gives gradients of the same results to the same tensors."""
        if isinstance(self.backward, SuspendedBackward):
            return self.backward.same(other.backward)
        return self.outputs == other.outputs and not other.is_suspended

    @property
    def is_suspended(self) -> bool:
        """True if the backward of a call resumes the call."""
        return isinstance(self.backward, SuspendedBackward)

    def absorb(self, other: TraceExit) -> None:
        """Also saves what the backward of another trace reads, which ends at this exit."""
        if isinstance(self.backward, SuspendedBackward) \
                and isinstance(other.backward, SuspendedBackward):
            self.backward.absorb(other.backward)
            self.outputs = [*self._computed, *self.backward.saved]
            self._plan = None

    def set_guards(self, exit_guards: list[Guard], source: PathCodegen) -> None:
        """Sets the guards that are checked when a call reaches this exit."""
        self.exit_guards = exit_guards
        self.check = compile_check(exit_guards, source)

    def set_segment(self, segment: Segment, source: PathCodegen) -> None:
        """Sets the segment, and compiles the reads of the targets of effects."""
        targets = [e.target for e in self.effects]
        self._plan = segment, compile_gather(segment.paths, targets, source)

    def prepare(self, names: ValueTable, fn: Any, available: frozenset[Node], backend: Backend,
                changed: Collection[Path] = ()) -> None:
        """Sets the segment, given the nodes `available` before it.

        `changed` are the paths of tensors that calls change on any path.
        """
        if self._plan is not None and self._available == available:
            return
        segment = segment_of(names, fn, self.outputs, available,
                             find_size_inputs(names, self.outputs, available, self.sources),
                             backend)
        position = {n: i for i, n in enumerate(segment.inputs.tensors)}
        targets = [e.target for e in self.effects]
        # Optimizers change tensors with gradients between calls.
        trained = () if self.backward is None else self.backward.paths
        donated = {j: position[n] for j, n in self.donated.items() if n in position}
        segment.note_changes({*targets, *changed, *trained}, donated)
        if self.backward is not None:
            self.backward.prepare(fn, backend)
        self._available = available
        self.set_segment(segment, PathCodegen(fn, names.held))

    def replay(self, call: Any) -> tuple[Any, Callable[[], None]]:
        """The result, and a function that performs the side effects. `call` is the activation that
        has reached this exit."""
        assert self._plan is not None
        segment, gather = self._plan
        for formula in self.formulas:
            call.read.number(formula)  # before the segment overwrites donated inputs
        begun = None if self.backward is None else self.backward.begin(call)
        sources, targets = gather(call.args, call.kwargs)
        call.note_sources(segment, sources)
        arrays = segment.run(sources, call.registers, call.origins)
        if self.backward is not None:
            self.backward.save(begun, segment.outputs, arrays)
        return self.finish(arrays, targets, begun, call.read)

    def finish(self, arrays: list[Any], targets: list[Any], begun: Any, read: PathReader
               ) -> tuple[Any, Callable[[], None]]:
        """The result for these outputs, and a function that performs the side effects."""
        tensors = [with_class(cls, arrays[i], end) for i, end, cls in self.tensors]
        if self.backward is not None and begun is not None:
            self.backward.attach(begun, arrays, tensors, read)
        result = self.result(tensors, read)
        pending = [
            (e.assign, target, e.value(tensors, read) if e.node is None else arrays[e.node])
            for e, target in zip(self.effects, targets)
        ]

        def commit() -> None:
            for assign, target, value in pending:
                assign(target, value)

        return result, commit

    @property
    def reads_arguments(self) -> bool:
        """True if the result or an assigned value reads the arguments of the call."""
        makes = [self.result, *(e.value for e in self.effects if e.node is None)]
        return any(_needs_arguments(make, len(self.tensors)) for make in makes)

    def single_output(self) -> OutputTensor | None:
        """The tensor if `finish` only returns one output as a tensor, else None."""
        if self.effects or self.backward is not None:
            return None
        if len(self.tensors) != 1 or self.reads_arguments:
            return None
        return self.tensors[0] if forwarded_tensor(self.result, 1) == 0 else None


class _Mark:
    """A stand-in for a tensor while a recipe is tried."""

    edge = _grad = _view = None


RETURNS_NONE = object()


def forwarded_tensor(make: Recipe, count: int) -> Any:
    """The number of the tensor that a recipe returns unchanged.

    RETURNS_NONE if the recipe returns None; None if it does anything else.
    """
    marks = [_Mark() for _ in range(count)]
    result = make(marks, None)  # type: ignore[arg-type]
    if any(vars(mark) for mark in marks):
        return None
    if result is None:
        return RETURNS_NONE
    return marks.index(result) if type(result) is _Mark else None


def _needs_arguments(make: Recipe, count: int) -> bool:
    """True if a recipe needs more than the `count` tensors."""
    try:
        make([_Mark() for _ in range(count)], None)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        return True
    return False
