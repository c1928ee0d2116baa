"""The end of a recorded way: what is returned, what is changed, and what else it depends on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ...eager.core.tensor import Tensor
from ...eager.core.views import check_replay
from ..autodiff.backward import BackwardPlan
from ..graph.graph import Node
from ..guards.gather import Gather, compile_gather
from ..guards.guards import Guard, PathCodegen, compile_check
from ..heap.access_path import Path
from ..heap.mutations import SetArray
from ..heap.object_recipes import Recipe
from ..heap.path_reader import PathReader
from ..scalars.scalar_expr import Origins
from ..segments.segment import Backend, Registers, Segment, segment_of, tellers
from ..trace.output_spec import TraceOutputs
from ..trace.side_effects import SideEffect
from ..trace.value_table import ValueTable


class TraceExit:
    """Outputs and effects of one way. `guards` are all that it depends on, `own` those that are
    not checked on entry."""

    def __init__(self, guards: list[Guard], effects: list[SideEffect], result: Recipe,
                 leaving: TraceOutputs, sources: Iterable[Node] = (),
                 way: BackwardPlan | None = None,
                 checks: Sequence[Sequence[Node]] = ((),)) -> None:
        """sources: the inputs that the recorded run has read. checks: what to compute for its
        errors alone, before each element of the way, and behind the last one."""
        self.guards, self.effects, self.result = guards, effects, result
        self.sources = list(sources)
        self.way = way  # how gradients go back from the results
        self.checks = checks[:-1]
        self.outputs: list[Node] = [*leaving.nodes, *checks[-1], *(way.kept if way else ())]
        self.formulas, self.tensors = leaving.formulas, leaving.tensors
        self._donated = leaving.donated
        self.own: list[Guard] = []
        self.check: Callable[[Any, Any], int] = lambda args, kwargs: -1
        # What computes it, and what finds the rest: replaced as one, as other threads may replay.
        self._plan: tuple[Segment, Gather] | None = None
        self._known: frozenset[Node] = frozenset()  # what was computed before the stage
        self.uses = 0

    @property
    def stage(self) -> Segment | None:
        """What computes the outputs, once that is planned."""
        return None if self._plan is None else self._plan[0]

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether a call that has come here may end here."""
        return self._plan is not None and self.check(args, kwargs) < 0

    def depends_on(self, own: list[Guard], source: PathCodegen) -> None:
        """Sets the guards that are checked when a call has come here."""
        self.own = own
        self.check = compile_check(own, source)

    def computed_by(self, stage: Segment, source: PathCodegen) -> None:
        """Sets the stage, and how the targets of the effects are found."""
        self._plan = stage, compile_gather(stage.paths, [e.target for e in self.effects], source)

    def prepare(self, names: ValueTable, fn: Any, known: frozenset[Node], backend: Backend,
                changed: Collection[Path] = ()) -> None:
        """Makes the stage of the leaf, where `known` is computed before it, and calls change
        `changed` on one way or another."""
        if self._plan is not None and self._known == known:
            return
        stage = segment_of(names, fn, self.outputs, known,
                           tellers(names, self.outputs, known, self.sources), backend)
        place = {n: i for i, n in enumerate(stage.inputs.tensors)}
        targets = [e.target for e in self.effects]
        trained = () if self.way is None else self.way.shadow.paths  # changed between calls
        donated = {j: place[n] for j, n in self._donated.items() if n in place}
        stage.change({*targets, *changed, *trained}, donated)
        if self.way is not None:
            self.way.prepare(fn, backend)
        self._known = known
        self.computed_by(stage, PathCodegen(fn, names.held))

    def replay(self, args: Any, kwargs: Any, registers: Registers, origins: Origins,
               read: PathReader) -> tuple[Any, Callable[[], None]]:
        """What is returned, and a function that makes the changes."""
        assert self._plan is not None
        stage, gather = self._plan
        for formula in self.formulas:
            read.number(formula)  # before anything is computed in place
        begun = None if self.way is None else self.way.begin(args, kwargs, origins)
        sources, targets = gather(args, kwargs)
        return self.finish(stage.run(sources, registers, origins), targets, begun, read)

    def finish(self, arrays: list[Any], targets: list[Any], begun: Any, read: PathReader
               ) -> tuple[Any, Callable[[], None]]:
        """What is returned for these outputs, and a function that makes the changes."""
        tensors = [Tensor(arrays[i], end) for i, end in self.tensors]
        if self.way is not None and begun is not None:
            self.way.tie(begun, arrays, tensors, read)
        result = self.result(tensors, read)
        pending = [
            (e.assign, target, e.value(tensors, read) if e.node is None else arrays[e.node])
            for e, target in zip(self.effects, targets)
        ]

        def commit() -> None:
            for assign, target, _ in pending:
                if isinstance(assign, SetArray) and isinstance(target, Tensor):
                    check_replay(target)
            for assign, target, value in pending:
                assign(target, value)

        return result, commit

    @property
    def reads(self) -> bool:
        """Whether what is returned or assigned asks what the call was given."""
        made = [self.result, *(e.value for e in self.effects if e.node is None)]
        return any(_asks(make, len(self.tensors)) for make in made)

    def single(self) -> tuple[int, Any] | None:
        """Which output it is, and the end of its tape, where all that `finish` does is to return
        one as a tensor."""
        if self.effects or self.way is not None or len(self.tensors) != 1 or self.reads:
            return None
        return self.tensors[0] if handed_on(self.result, 1) == 0 else None


class _Mark:
    """Stands for a tensor while a template is tried."""

    edge = _grad = None


NOTHING = object()


def handed_on(make: Recipe, count: int) -> Any:
    """Which of so many tensors a template gives and does nothing else; NOTHING if it gives None; or
    None if it makes something."""
    marks = [_Mark() for _ in range(count)]
    made = make(marks, None)  # type: ignore[arg-type]
    if any(vars(mark) for mark in marks):
        return None
    return NOTHING if made is None else marks.index(made) if type(made) is _Mark else None


def _asks(make: Recipe, count: int) -> bool:
    """Whether a template with so many tensors needs more than these."""
    try:
        make([_Mark() for _ in range(count)], None)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        return True
    return False
